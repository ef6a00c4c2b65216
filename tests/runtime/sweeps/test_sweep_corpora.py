"""Folds and held-out parts of a recipe's corpus."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from rayner.config.recipe_files import with_settings
from rayner.data import scans
from rayner.data.mention_readers import read_mention_strings
from rayner.data.readers import read_corpus
from rayner.data.writers import parquet
from rayner.errors import CorpusError, InputError
from rayner.runtime.sweeps.corpora import cut_corpora
from rayner.tasks.kinds import documents
from rayner.tasks.registry import parse_recipe, train_task
from tests.runtime.training.several_workers import tiny_recipe
from tests.whole_corpora import split


def ids(paths: Any) -> set[str]:
    return {document.document_id for document in read_corpus(list(paths)).documents}


def test_folds_part_what_is_not_held_out(tmp_path: Path) -> None:
    recipe: Any = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    corpora = cut_corpora(recipe, tmp_path / "parts", folds=3, held_out=0.2)
    assert corpora.held_out is not None
    held_out = ids(corpora.held_out["corpus.dev"])
    rest = ids(corpora.rest["corpus.train"])
    assert held_out
    assert not held_out & rest
    assert held_out | rest == ids(recipe.corpus.train)
    devs = [ids(fold["corpus.dev"]) for fold in corpora.folds]
    assert len(devs) == 3
    assert set.union(*devs) == rest
    assert sum(map(len, devs)) == len(rest)
    for fold, dev in zip(corpora.folds, devs, strict=True):
        assert ids(fold["corpus.train"]) == rest - dev
        changed: Any = with_settings(recipe, fold, "fold")
        assert changed.corpus.dev == tuple(fold["corpus.dev"])


def test_parts_are_cut_as_a_corpus_that_is_held(tmp_path: Path) -> None:
    """The order of the documents, too: it decides what a training makes of them."""
    recipe: Any = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    corpora = cut_corpora(recipe, tmp_path / "parts", folds=3, held_out=0.2)
    corpus = read_corpus(list(recipe.corpus.train)).documents
    outer = split(corpus, {"rest": 0.8, "held_out": 0.2}, 1)
    inner = split(outer["rest"], dict.fromkeys("012", 1 / 3), 0)
    assert corpora.held_out is not None
    assert read_corpus(corpora.rest["corpus.train"]).documents == outer["rest"]
    assert read_corpus(corpora.held_out["corpus.dev"]).documents == outer["held_out"]
    for fold, name in zip(corpora.folds, inner, strict=True):
        others = [d for other, part in inner.items() if other != name for d in part]
        assert read_corpus(fold["corpus.dev"]).documents == inner[name]
        assert read_corpus(fold["corpus.train"]).documents == others
        task = train_task(with_settings(recipe, fold, "fold"))
        assert list(task.items("train")) == others


@pytest.mark.parametrize(
    ("folds", "held_out", "option"), [(90, 0, "--folds 90"), (0, 1e-6, "--held-out 1e-06")]
)
def test_a_part_without_a_document_is_told_of_its_option(
    tmp_path: Path, folds: int, held_out: float, option: str
) -> None:
    values = tiny_recipe(tmp_path / "corpus", "tagger")
    values["corpus"]["dev"] = values["corpus"]["train"]
    with pytest.raises(CorpusError, match=f"^{option}: the split '.*' would be empty .*fewer folds"):
        cut_corpora(parse_recipe(values, "recipe"), tmp_path / "parts", folds=folds, held_out=held_out)


def test_parts_that_are_there_are_kept_and_the_others_written(tmp_path: Path) -> None:
    recipe: Any = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    cut_corpora(recipe, tmp_path / "parts", folds=2, held_out=0)
    one, other = sorted((tmp_path / "parts").glob("*.parquet"))
    before = one.read_bytes(), one.stat().st_mtime_ns, other.read_bytes()
    other.unlink()
    cut_corpora(recipe, tmp_path / "parts", folds=2, held_out=0)
    assert (one.read_bytes(), one.stat().st_mtime_ns, other.read_bytes()) == before


@pytest.mark.parametrize("folds", [0, 2])
def test_parts_of_a_corpus_that_has_changed_are_refused(tmp_path: Path, folds: int) -> None:
    recipe: Any = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    for _ in range(2):
        cut_corpora(recipe, tmp_path / "sweep/corpora", folds=folds, held_out=0.2)
    with Path(recipe.corpus.train[0]).open("a") as file:
        file.write('{"document_id": "more", "text": "Ada ran."}\n')
    with pytest.raises(CorpusError, match="sweep: has the parts of a corpus whose files have changed since"):
        cut_corpora(recipe, tmp_path / "sweep/corpora", folds=folds, held_out=0.2)


def test_a_corpus_is_not_held_while_it_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, files = 40_000, 60
    monkeypatch.setattr(scans, "PART_BYTES", size)
    monkeypatch.setattr(parquet, "GROUP_CHARACTERS", 2 * size)
    monkeypatch.setattr(documents, "_CHARACTERS_AT_ONCE", 2 * size)
    values = tiny_recipe(tmp_path / "corpus", "tagger")
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(files):
        text = f"{number} " + "word " * (size // 5)
        (folder / f"{number:03d}.jsonl").write_text(json.dumps({"document_id": f"d{number}", "text": text}))
    values["corpus"] = {"train": [str(folder)]}
    recipe = parse_recipe(values, "recipe")
    cut_corpora(recipe, tmp_path / "before", folds=3, held_out=0.2)  # Imports count for nothing.
    tracemalloc.start()
    corpora = cut_corpora(recipe, tmp_path / "parts", folds=3, held_out=0.2)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < size * files / 2
    devs = [ids(fold["corpus.dev"]) for fold in corpora.folds]
    assert sum(map(len, devs)) + len(ids((corpora.held_out or {})["corpus.dev"])) == files


def test_without_folds_the_recipe_keeps_its_dev(tmp_path: Path) -> None:
    recipe: Any = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger"), "recipe")
    assert cut_corpora(recipe, tmp_path / "parts", folds=0, held_out=0).folds == [{}]
    assert not (tmp_path / "parts").exists()
    [only] = cut_corpora(recipe, tmp_path / "parts", folds=0, held_out=0.3).folds
    assert "corpus.dev" not in only


def test_parts_keep_what_their_corpora_were_annotated_for(tmp_path: Path) -> None:
    values = tiny_recipe(tmp_path / "corpus", "tagger")
    corpus = values["corpus"]
    values["corpus"] = corpus | {"annotated": {corpus["train"][0]: ["PER"]}}
    recipe: Any = parse_recipe(values, "recipe")
    for fold in cut_corpora(recipe, tmp_path / "parts", folds=2, held_out=0).folds:
        changed: Any = with_settings(recipe, fold, "fold")
        for part in (changed.corpus.train, changed.corpus.dev):
            assert {d.annotated_types for d in read_corpus(list(part)).documents} == {("PER",)}


def test_dev_and_negatives_are_read_as_the_recipe_says(tmp_path: Path) -> None:
    """The parts have another format than the recipe's files, and no types: so dev is written beside them."""
    for name in ("train", "dev", "other"):
        lines = []
        for id_ in (f"{name}{number}" for number in range(9)):
            lines += [f"{id_}|t|Aspirin {id_} and fever", f"{id_}|a|."]
            end = 8 + len(id_)
            lines += [f"{id_}\t0\t{end}\tAspirin {id_}\tChemical\tC++"]
            lines += [f"{id_}\t{end + 5}\t{end + 10}\tfever\tDisease\tD1", ""]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    mentions = {
        "train": [str(tmp_path / "train.txt")],
        "dev": [str(tmp_path / "dev.txt")],
        "negatives": [str(tmp_path / "other.txt")],
        "format": "pubtator",
        "types": ["Chemical"],
    }
    values = {"task": "standardizer", "knowledge_base": {"paths": ["kb"]}, "mentions": mentions}
    recipe: Any = parse_recipe(values, "recipe")
    corpora = cut_corpora(recipe, tmp_path / "parts", folds=2, held_out=0.3)
    rest: Any = with_settings(recipe, corpora.rest, "rest")

    def strings(settings: Any, part: str) -> list[tuple[Any, ...]]:
        types = settings.types if part == "dev" else ()
        read = read_mention_strings(list(getattr(settings, part)), settings.format, types).mentions
        return [(m.text, m.entity_ids, m.type, m.whole) for m in read]

    assert strings(rest.mentions, "dev") == strings(recipe.mentions, "dev")
    assert {kind for _, _, kind, _ in strings(rest.mentions, "dev")} == {"Chemical"}
    assert {whole for *_, whole in strings(rest.mentions, "dev")} == {"C++"}
    for changes in (corpora.rest, corpora.held_out, *corpora.folds):
        changed: Any = with_settings(recipe, changes or {}, "part")
        assert strings(changed.mentions, "negatives") == strings(recipe.mentions, "negatives")


def test_without_dev_or_folds_there_is_nothing_to_choose_by(tmp_path: Path) -> None:
    values = tiny_recipe(tmp_path / "corpus", "tagger")
    del values["corpus"]["dev"]
    with pytest.raises(InputError, match="no dev to choose settings by"):
        cut_corpora(parse_recipe(values, "recipe"), tmp_path / "parts", folds=0, held_out=0)


def test_folds_of_mention_strings_keep_equal_strings_together(tmp_path: Path) -> None:
    rows = [
        {"mention": text, "entity_id": f"E{number}"}
        for number in range(12)
        for text in (f"Name {number}", f"name {number}", f"other {number}")
    ]
    path = tmp_path / "mentions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"mention": "x", "entity_id": None}]))
    values = {"task": "standardizer", "knowledge_base": {"paths": ["kb"]}, "mentions": {"train": [str(path)]}}
    corpora = cut_corpora(parse_recipe(values, "recipe"), tmp_path / "parts", folds=3, held_out=0)

    def read(paths: Any) -> list[dict[str, Any]]:
        return [json.loads(line) for name in paths for line in Path(name).read_text().splitlines()]

    devs = [read(fold["mentions.dev"]) for fold in corpora.folds]
    assert sorted(row["mention"] for dev in devs for row in dev) == sorted(
        [*(r["mention"] for r in rows), "x"]
    )
    strings = [{row["mention"].casefold() for row in dev} for dev in devs]
    assert sum(map(len, strings)) == len(set.union(*strings))
    assert {"mention": "x", "entity_id": None} in [row for dev in devs for row in dev]
