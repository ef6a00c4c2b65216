"""What is learned, what is held out, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayner.config import StandardizerRecipe
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Entity
from rayner.errors import CorpusError, InputError, KnowledgeBaseError, RecipeError
from rayner.runtime.linking.knowledge_bases import convert
from rayner.tasks.registry import load_recipe, parse_recipe
from rayner.tasks.standardizer.strings import EntityStrings, hold_out, load_entity_strings, with_mentions
from tests.tasks.standardizer.small_names import ENTITIES, small_recipe, write


def strings_of(values: dict[str, Any]) -> EntityStrings:
    recipe = parse_recipe(values, "recipe")
    assert isinstance(recipe, StandardizerRecipe)
    return load_entity_strings(recipe)


def test_a_string_with_an_entity_is_no_mention_without_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, _, learned, asked, *_ = next(iter(ENTITIES.values()))
    texts = (learned.upper(), asked, "rye bread")
    nil = write(tmp_path / "nil.jsonl", [{"mention": text, "entity_id": None} for text in texts])
    found = strings_of(small_recipe(tmp_path, mentions={"negatives": [str(nil)]}))
    assert [mention.text for mention in found.dev if not mention.entity_ids] == ["rye bread"]
    assert "mentions.negatives: 2 mentions left out, which other files say the entities of" in caplog.text


def test_mentions_are_learned_and_indexed_and_dev_is_neither(tmp_path: Path) -> None:
    found = strings_of(small_recipe(tmp_path))
    assert [set(entity.aliases) for entity in found.learned] == [set(n[1:3]) for n in ENTITIES.values()]
    assert list(found.indexed) == list(found.learned)
    # "hudson" is the name of its entity but for its case: a dev that is given is taken as it is.
    assert [mention.text for mention in found.dev] == [names[3] for names in ENTITIES.values()]
    names_only = strings_of(small_recipe(tmp_path, aliases=False, mentions={"are_aliases": False}))
    assert [entity.aliases for entity in names_only.learned] == [(n[2],) for n in ENTITIES.values()]
    assert [entity.aliases for entity in names_only.indexed] == [(n[1],) for n in ENTITIES.values()]


def test_held_out_strings_are_in_nothing_that_is_learned_or_indexed(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    rows = [{"mention": n, "entity_id": i} for i, names in ENTITIES.items() for n in names]
    rows += [{"mention": row["mention"].upper(), "entity_id": row["entity_id"]} for row in rows]
    values["mentions"] = {"train": [str(write(tmp_path / "all.jsonl", rows))], "dev_fraction": 0.5}
    found = strings_of(values)
    held_out = {mention.text.casefold() for mention in found.dev}
    assert 2 <= len(held_out) <= 16
    for entities in (found.learned, found.indexed):
        assert held_out.isdisjoint(n.casefold() for e in entities for n in (e.name, *e.aliases))
    assert strings_of(values).dev == found.dev


def test_how_words_are_spaced_makes_no_other_string(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    rows = [{"mention": "information\u00a0 Server\nfor Internet", "entity_id": "1"}]
    values["mentions"]["train"].append(str(write(tmp_path / "spaced.jsonl", rows)))
    found = strings_of(values)
    assert list(found.learned) == list(found.indexed) == list(strings_of(small_recipe(tmp_path)).learned)
    mentions = [MentionString("a  b", ("1",)), MentionString("c", ("1",))]
    assert hold_out(mentions, [Entity("1", "x", ("a b",))], 0.999) == mentions[1:]


def test_names_are_learned_with_their_letters_composed(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    apart = [{"entity_id": "900", "name": "cafe\u0301", "aliases": ["caf\u00e9", "tea\u0301 house"]}]
    values["knowledge_base"]["paths"].append(str(write(tmp_path / "more.jsonl", apart)))
    found = strings_of(values)
    (learned,) = (entity for entity in found.learned if entity.entity_id == "900")
    assert (learned.name, learned.aliases) == ("caf\u00e9", ("te\u00e1 house",))


def test_strings_are_held_out_whatever_the_others_are() -> None:
    entities = [Entity("1", "x"), Entity("2", "y")]
    mentions = [MentionString(f"mention {i}", ("1",)) for i in range(200)]
    few, many = hold_out(mentions[:100], entities, 0.2), hold_out(mentions, entities, 0.2)
    assert few == [m for m in many if m in few]
    assert 20 <= len(many) <= 60
    assert hold_out(mentions, entities, 0) == []
    twice = hold_out([MentionString("z", ("1",)), MentionString("z", ("2",))], entities, 0.999)
    assert twice == [MentionString("z", ("1", "2"))]


def test_what_means_two_entities_is_found_but_not_learned(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    rows = [
        {"mention": "Server", "entity_id": "1"},
        {"mention": "server", "entity_id": "2"},
        {"mention": "both", "entity_id": ["1", "2"]},
    ]
    values["mentions"]["train"].append(str(write(tmp_path / "more.jsonl", rows)))
    found = strings_of(values)
    assert all({"Server", "server", "both"}.isdisjoint(e.aliases) for e in found.learned)
    assert {"Server", "both"} <= set(found.indexed[0].aliases)


def test_a_list_of_entities_is_no_name_of_them_where_composites_are_split(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    rows = [
        {"mention": "this and that", "entity_id": ["1", "2"]},
        {"mention": "one and other", "entity_id": "1"},
        {"mention": "both", "entity_id": ["1", "2"]},
    ]
    values["mentions"]["train"].append(str(write(tmp_path / "more.jsonl", rows)))
    assert {"this and that", "one and other", "both"} <= set(strings_of(values).indexed[0].aliases)
    values["mentions"]["composites"] = True
    found = set(strings_of(values).indexed[0].aliases)
    assert "this and that" not in found
    assert {"one and other", "both"} <= found


def test_an_id_is_parted_only_where_the_whole_is_of_no_entity(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    rows = [{"entity_id": id_, "name": f"name of {id_}"} for id_ in ("C", "C++", "a|b", "a")]
    values["knowledge_base"]["paths"] = [str(write(tmp_path / "languages.jsonl", rows))]
    ids = {
        "cpp": "C++",
        "see": "C",
        "either": "a|b",
        "prefixed": "L:C++",
        "both": "C++|a",
        "sea": "C|",
        "c++": "C++|L:C++",
    }
    text = " ".join(ids)
    lines = [f"1|t|{text}", "1|a|"]
    for word, id_ in ids.items():
        begin = text.split().index(word) + sum(map(len, text.split()[: text.split().index(word)]))
        lines.append(f"1\t{begin}\t{begin + len(word)}\t{word}\tLanguage\t{id_}")
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n")
    values["mentions"] = {"train": [str(tmp_path / "corpus.txt")]}
    learned = {e.entity_id: set(e.aliases) for e in strings_of(values).learned}
    assert learned == {"C": {"see", "sea"}, "C++": {"cpp", "prefixed", "c++"}, "a|b": {"either"}, "a": set()}


def test_a_name_of_two_entities_is_not_learned(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    rows = [
        {"entity_id": "1", "name": "Portal", "aliases": ["Web Portal", "portal server"]},
        {"entity_id": "2", "name": "portal"},
        {"entity_id": "3", "name": "PORTAL", "aliases": ["Shop", "portal  server"]},
        {"entity_id": "4", "name": "Gate", "aliases": ["gateway"]},
        {"entity_id": "5", "name": "Door", "aliases": ["gate"]},
    ]
    values["knowledge_base"]["paths"] = [str(write(tmp_path / "portals.jsonl", rows))]
    del values["mentions"]
    found = strings_of(values)
    assert [(e.entity_id, e.name, e.aliases) for e in found.learned] == [
        ("1", "Web Portal", ()),
        ("3", "Shop", ()),
        ("4", "Gate", ("gateway",)),
        ("5", "Door", ()),
    ]
    assert [e.name for e in found.indexed] == [row["name"] for row in rows]


def test_entities_that_no_mention_names_are_not_copied() -> None:
    entities = [Entity("1", "Portal", ("Gate",)), Entity("2", "Door", ("Gate",))]
    found = with_mentions(entities, [MentionString("Portal", ("1",)), MentionString("Entry", ("2",))])
    assert found[0] is entities[0]
    assert found[1] == Entity("2", "Door", ("Gate", "Entry"))


@pytest.mark.parametrize("converted", [None, "medic.parquet", "medic.jsonl"])
def test_ids_may_be_other_ids_or_have_a_prefix(tmp_path: Path, converted: str | None) -> None:
    base = tmp_path / "medic.txt"
    base.write_text("167000|D010051||Ovarian Neoplasms|Cancer of Ovary\nD1||Anaemia|Anemia\n")
    if converted is not None:
        base = tmp_path / converted
        convert([tmp_path / "medic.txt"], base)
    rows = [
        {"mention": "ovarian cancer", "entity_id": "MESH:D010051"},
        {"mention": "oc", "entity_id": "OMIM:167000"},
        {"mention": "gone", "entity_id": "D9"},
    ]
    values = small_recipe(tmp_path)
    values["knowledge_base"]["paths"] = [str(base)]
    values["mentions"] = {"train": [str(write(tmp_path / "ids.jsonl", rows))]}
    assert strings_of(values).learned[0].aliases == ("Cancer of Ovary", "ovarian cancer", "oc")


def test_another_id_of_an_entity_that_was_not_read_means_nothing(tmp_path: Path) -> None:
    base = tmp_path / "medic.txt"
    base.write_text("D2|167000||\nD1||Anaemia|Anemia\nD3||Gout|Podagra\n")
    rows = [{"mention": "oc", "entity_id": "167000"}, {"mention": "anaemias", "entity_id": "D1"}]
    values = small_recipe(tmp_path)
    values["knowledge_base"]["paths"] = [str(base)]
    values["mentions"] = {"train": [str(write(tmp_path / "ids.jsonl", rows))]}
    assert strings_of(values).learned[0].aliases == ("Anemia", "anaemias")


@pytest.mark.parametrize(
    ("base", "mentions", "error", "message"),
    [
        (["none.jsonl"], None, RecipeError, r"knowledge_base\.paths: .*none\.jsonl does not exist"),
        (None, {"train": ["none.jsonl"]}, RecipeError, r"mentions\.train: .*none\.jsonl does not exist"),
        (["one.jsonl"], None, KnowledgeBaseError, "1 entity: there is nothing to tell it from"),
        (["nameless.jsonl"], None, KnowledgeBaseError, "empty name"),
        (["empty.jsonl"], None, KnowledgeBaseError, "an empty file"),
        (None, {"train": ["other.jsonl"]}, RecipeError, r"lacks the ids of 1 of 1 mention: 'x' is of 99"),
        (None, {"train": ["text.jsonl"]}, CorpusError, r"text\.jsonl"),
        (None, {"train": ["names.jsonl"], "dev_fraction": 0.5}, RecipeError, "of 1 mention can be held out"),
    ],
)
def test_a_knowledge_base_or_mentions_that_will_not_do(
    tmp_path: Path,
    base: list[str] | None,
    mentions: dict[str, Any] | None,
    error: type[InputError],
    message: str,
) -> None:
    write(tmp_path / "one.jsonl", [{"entity_id": "1", "name": "a"}])
    write(tmp_path / "nameless.jsonl", [{"entity_id": "1", "name": ""}, {"entity_id": "2", "name": " "}])
    write(tmp_path / "empty.jsonl", [])
    write(tmp_path / "other.jsonl", [{"mention": "x", "entity_id": "99"}])
    write(tmp_path / "text.jsonl", [{"text": "x"}])
    write(tmp_path / "names.jsonl", [{"mention": "POSTGRES", "entity_id": "3"}])
    values = small_recipe(tmp_path)
    if base is not None:
        values["knowledge_base"]["paths"] = [str(tmp_path / name) for name in base]
    if mentions is not None:
        values["mentions"] = {
            key: [str(tmp_path / name) for name in value] if isinstance(value, list) else value
            for key, value in mentions.items()
        }
    with pytest.raises(error, match=message) as caught:
        strings_of(values)
    assert caught.value.exit_status == 2
    assert "\n" not in str(caught.value)


def test_a_limit_of_aliases_and_an_id_twice(tmp_path: Path) -> None:
    values = small_recipe(tmp_path, knowledge_base={"max_aliases": 1})
    rows = [{"entity_id": "1", "name": "a", "aliases": ["b", "c"]}, {"entity_id": "2", "name": "d"}]
    values["knowledge_base"]["paths"] = [str(write(tmp_path / "many.jsonl", rows))]
    with pytest.raises(KnowledgeBaseError, match=r"'1' has 2 aliases, more than the limit of 1"):
        strings_of(values)
    with pytest.raises(KnowledgeBaseError, match="entity 1: has 2 aliases, more than the 1 allowed"):
        strings_of(small_recipe(tmp_path, index={"max_aliases": 1}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"knowledge_base": {"path": ["x"]}}, r"knowledge_base\.path: unknown key; did you mean 'paths'"),
        ({"mentions": {"dev": ["x"], "dev_fraction": 0.1}}, "both dev and dev_fraction"),
        ({"mentions": {"dev_fraction": 0.1}}, "dev_fraction without train"),
        ({"loss": {"mining": "hard"}}, r"loss\.mining: .*batch_hard"),
        ({"training": {"tokens_per_step": 10}}, r"training\.tokens_per_step: unknown key"),
        ({"corpus": {"train": ["x"]}}, r"corpus: unknown key"),
        ({"groups": {"group_size": 1}}, r"groups\.group_size: .*greater than or equal to 2"),
        ({"augmentation": {"misspelling": 0.9}}, r"rates sum to 1\.10"),
    ],
)
def test_a_wrong_recipe_names_the_key(changes: dict[str, Any], message: str) -> None:
    values = {"task": "standardizer", "knowledge_base": {"paths": ["x"]}} | changes
    with pytest.raises(RecipeError, match=message):
        parse_recipe(values, "recipe")


@pytest.mark.parametrize(
    ("recipe", "entities", "learned", "dev"),
    [("standardizer_esappmod", 698, 689, 406), ("standardizer_ncbi", 11915, 11912, 122)],
)
def test_the_public_corpora(
    root: Path,
    corpora: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: str,
    entities: int,
    learned: int,
    dev: int,
) -> None:
    monkeypatch.setenv("RAYNER_DATA", str(corpora))
    loaded = load_recipe(root / f"jobs/recipes/{recipe}.yaml")
    assert isinstance(loaded, StandardizerRecipe)
    found = load_entity_strings(loaded)
    assert (len(found.indexed), len(found.learned), len(found.dev)) == (entities, learned, dev)
    names = {n.casefold() for e in found.indexed for n in (e.name, *e.aliases)}
    assert names.isdisjoint(mention.text.casefold() for mention in found.dev)
