"""A ranker that reads the first candidates of a mention again: what it learns from, its order, and NIL."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from rayner.config import IndexSettings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Document, Entity, Mention
from rayner.errors import CheckpointError, InputError
from rayner.metrics.nil import evidence
from rayner.retrieval.build import build_index
from rayner.retrieval.combiner import Combiner, likeness
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.predict import predict
from rayner.tasks.ranker.task import Ranker, RankerTask
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer import fitting
from rayner.tasks.standardizer.candidate_rows import FOLDS, candidate_rows
from rayner.tasks.standardizer.fitting import FEWEST, Fitted, fit, fit_reranker
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.reranker import NAMES_READ, Query, RankerWeights, Reranker, entity_text
from rayner.tasks.standardizer.stage import Entities
from rayner.tasks.standardizer.strings import load_entity_strings
from tests.tasks.small_pairs import ranker_recipe
from tests.tasks.standardizer.small_index import ENTITIES, encode
from tests.tasks.standardizer.small_names import small_recipe, write

OTHERS = {"Androi server": "ng", "ngin 9": "my", "MySQ server": "pg", "RHE 9": "an"}
"""What strings mean that look like something else."""
MANY = [
    MentionString(text, (OTHERS.get(text, entity.entity_id),), sentence=f"We use {text}.")
    for entity in ENTITIES
    for name in (entity.name, *entity.aliases)
    for text in (f"{name[:-1]}{end}" for end in ("x", " 9", " server"))
]
STRANGERS = [MentionString(text, ()) for text in ("toothbrush", "quinoa", "yo", "Zug", "ffff")]
DEV = [*MANY, *STRANGERS]
VECTORS = encode([mention.text for mention in DEV])
INDEX = build_index(ENTITIES, encode, IndexSettings(), "cosine")
NAMES = {name: e.entity_id for e in ENTITIES for name in (e.name, *e.aliases)}
OWNERS = {m.text: m.entity_ids[0] for m in MANY}


class Reads:
    """Scores a pair of texts by a function of both; a sub-word a character."""

    tokens_per_batch, forward_cost = 400, 10

    def __init__(self, score: Callable[[str, str], float]) -> None:
        self.score = score
        self.pairs: list[tuple[str, str]] = []

    def subwords(self, text: str) -> list[Any]:
        return [text]

    def pair(self, one: Sequence[Any], other: Sequence[Any]) -> tuple[Any, Any]:
        return one[0], other[0]

    def length_of(self, window: Any) -> int:
        return len(window[0]) + len(window[1])

    def log_odds(self, windows: Sequence[Any]) -> torch.Tensor:
        self.pairs += windows
        return torch.tensor([self.score(*window) for window in windows])


def knows(query: str, entity: str) -> float:
    """The entity that is right for the mention, which comes first; the rest by chance."""
    text, name = query.split(" | ")[0], entity.split(" | ")[0]
    return (3.0 if OWNERS.get(text) == NAMES[name] else -2.0) + (len(query) * len(entity)) % 7 / 10


def errs(query: str, entity: str) -> float:
    return -knows(query, entity)


def reranker(score: Callable[[str, str], float], weights: RankerWeights | None = None) -> Reranker:
    weights = weights or RankerWeights(10, 1.0, 1.0, 0.0)
    return Reranker(cast(Any, Reads(score)), INDEX.entities, weights.candidates, lambda _: weights)


def test_candidates_are_in_the_order_of_a_plain_loop(tmp_path: Path) -> None:
    task = RankerTask(parse_recipe(ranker_recipe(tmp_path), "recipe"))
    torch.manual_seed(3)
    ranker = task.predictor(task.build())
    assert isinstance(ranker, Ranker)
    weights = RankerWeights(4, 0.02, 3.0, -1.0)
    queries = [Query(m.text, m.sentence if number % 2 else None) for number, m in enumerate(MANY[::3])]
    found = INDEX.search([q.text for q in queries], encode([q.text for q in queries]), 4, 0.5)
    asked = Reranker(ranker, INDEX.entities, 4, lambda _: weights)
    moved = 0
    for query, before, after in zip(queries, found, asked.rerank(queries, found), strict=True):
        read = query.text if query.sentence is None else f"{query.text} | {query.sentence}"
        slow = []
        for one in before:
            entity = next(e for e in ENTITIES if e.entity_id == one.entity_id)
            pair = ContextRow(read, entity_text(entity, one.matched), True)
            (answer,) = predict(ranker, [pair])
            log_odds = math.log(answer.score / (1 - answer.score))
            slow.append((0.02 * one.score + 3.0 * log_odds - 1.0, log_odds, one))
        slow.sort(key=lambda row: -row[0])
        assert [one.entity_id for one in after] == [one.entity_id for *_, one in slow]
        assert [one.score for one in after] == pytest.approx([score for score, *_ in slow], abs=1e-4)
        assert [one.ranker for one in after] == pytest.approx([odds for _, odds, _ in slow], abs=1e-4)
        moved += after[0].entity_id != before[0].entity_id
    assert moved


def test_equal_pairs_are_read_once_and_equal_scores_keep_their_order() -> None:
    asked = reranker(lambda query, entity: 0.0, RankerWeights(10, 0.0, 1.0, 0.0))
    queries = [Query("Postgres 9"), Query("Postgres 9", "Postgres 9 is old."), Query("Postgres 9")]
    found = INDEX.search([q.text for q in queries], encode([q.text for q in queries]), 6, 0.5)
    again = asked.rerank(queries, found)
    assert [[one.entity_id for one in of] for of in again] == [[one.entity_id for one in of] for of in found]
    ranker: Any = asked.ranker
    assert len(ranker.pairs) == len(set(ranker.pairs)) == 12


def test_of_a_candidate_the_name_that_matched_and_the_description_are_read() -> None:
    many = Entity("x", "Own  name", tuple(f"a{number}" for number in range(9)), description="What it is.")
    read = entity_text(many, "a8")
    assert read.startswith("Own name | a8 | a0")
    assert read.endswith(f"a{NAMES_READ - 3}: What it is.")
    assert entity_text(ENTITIES[1], "MySQL") == "MySQL"


def test_a_ranker_that_knows_moves_right_answers_up_and_nil_is_fitted_anew() -> None:
    plain = fit(INDEX, DEV, VECTORS)
    fitted = fit_reranker(INDEX, DEV, VECTORS, reranker(knows))
    assert fitted.weight == plain.weight
    assert fitted.reranker is not None
    assert fitted.reranker.ranker > 0
    assert len(fitted.reranker_without) == 5
    for mention in MANY:
        number = fitted.fold_of[mention.text.casefold()]
        assert fitted.reranker_of(mention.text) is fitted.reranker_without[number]
    assert fitted.reranker_of("no such string") is fitted.reranker
    right = {
        kind: sum(of[0].entity_id == m.entity_ids[0] for of, m in zip(search(one), MANY, strict=True))
        for kind, one in (("plain", plain), ("reranked", fitted))
    }
    assert right["reranked"] == len(MANY) > right["plain"]
    assert plain.nil is not None
    assert fitted.nil is not None
    (answer,) = predict(standardizer(fitted), [MANY[0]])
    assert isinstance(fitted.weight, Combiner)
    two = [evidence([likeness(answer.candidates, fitted.weight)])]
    two.append(evidence([[one.ranker or 0.0 for one in answer.candidates]]))
    assert answer.probability == pytest.approx(fitted.nil.probability(np.concatenate(two, 1))[0])


def search(fitted: Fitted) -> list[list[Any]]:
    """The candidates of MANY, each by what was fitted without it."""
    texts = [mention.text for mention in MANY]
    found = fitted.search_held_out(INDEX, texts, encode(texts), 10)
    if fitted.reranker is None:
        return found
    asked = Reranker(cast(Any, Reads(knows)), INDEX.entities, 10, fitted.reranker_of)
    return asked.rerank([Query(m.text, m.sentence) for m in MANY], found)


def standardizer(fitted: Fitted, top_k: int = 10, score: Any = knows) -> Standardizer:
    assert fitted.reranker is not None
    asked = reranker(score, fitted.reranker)
    return Standardizer(INDEX, encode, fitted.weight, fitted.nil, top_k=top_k, reranker=asked)


def test_a_ranker_that_errs_has_no_weight() -> None:
    fitted = fit_reranker(INDEX, DEV, VECTORS, reranker(errs))
    assert fitted.reranker is not None
    assert fitted.reranker.ranker == 0
    plain = Standardizer(INDEX, encode, fitted.weight, top_k=10)
    texts = [mention.text for mention in DEV]
    given, asked = (list(predict(one, texts)) for one in (plain, standardizer(fitted, score=errs)))
    for one, other in zip(given, asked, strict=True):
        assert [f.entity_id for f in one.candidates] == [f.entity_id for f in other.candidates]


def test_what_was_fitted_is_read_as_it_was(tmp_path: Path) -> None:
    fitted = fit_reranker(INDEX, DEV, VECTORS, reranker(knows))
    fitted.save(tmp_path)
    assert Fitted.load(tmp_path) == fitted
    replace(fitted, reranker=None).save(tmp_path)
    assert "reranker" not in (tmp_path / "standardizer.json").read_text()


def test_a_retrieval_that_tells_nothing_is_not_too_few_mentions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_logistic", lambda *_: None)
    with pytest.raises(InputError, match="neither vectors nor n-grams tell right candidates"):
        fit_reranker(INDEX, DEV, VECTORS, reranker(knows))


def test_too_few_mentions_and_too_many_candidates_are_refused() -> None:
    few = DEV[: FEWEST - 1]
    with pytest.raises(
        InputError, match=f": {FEWEST - 1} held-out mentions have both a right and a wrong cand"
    ):
        fit_reranker(INDEX, few, VECTORS[: len(few)], reranker(knows))
    fitted = fit_reranker(INDEX, DEV, VECTORS, reranker(knows))
    with pytest.raises(InputError, match="asks for 11 candidates, and the checkpoint re-ranks 10"):
        standardizer(fitted, top_k=11)


def test_a_mention_alone_and_one_in_a_document_are_answered_alike_where_they_are_read_alike() -> None:
    """By its sentence it may be another entity, and of a string without one nothing of this is seen."""

    def by_sentence(query: str, entity: str) -> float:
        return 9.0 if entity.startswith("MySQL" if "cheap" in query else "nginx") else -9.0

    fitted = Fitted(0.5, None, RankerWeights(10, 0.1, 1.0, 0.0))
    asked = standardizer(fitted, score=by_sentence)
    text = "It is cheap, the server. We like the server."
    places = [at for at in range(len(text)) if text.startswith("the server", at)]
    document = Document("d", text, tuple(Mention(at, at + 10, "Base") for at in places))
    (linked,) = predict(Entities(asked), [document])
    assert [mention.entity_id for mention in linked.mentions] == ["my", "ng"]
    sentences = ["It is cheap, the server.", "We like the server."]
    alone = list(predict(asked, [MentionString("the server", (), sentence=s) for s in sentences]))
    for mention, answer in zip(linked.mentions, alone, strict=True):
        assert mention.candidates[0].score == pytest.approx(answer.score)
        assert [one.entity_id for one in mention.candidates] == [f.entity_id for f in answer.candidates]
    (bare,) = predict(asked, ["the server"])
    assert bare.entity_id == "ng"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_ranker_that_answers_no_number_is_a_clear_error(tmp_path: Path, value: float) -> None:
    task = RankerTask(parse_recipe(ranker_recipe(tmp_path), "recipe"))
    model = task.build()
    with torch.no_grad():
        model.linear.bias.fill_(value)
    ranker: Any = task.predictor(model)
    asked = Reranker(ranker, INDEX.entities, 10, lambda _: RankerWeights(10, 1.0, 1.0, 0.0))
    with pytest.raises(CheckpointError, match="gives a score that is no number"):
        list(predict(Standardizer(INDEX, encode, 0.5, reranker=asked), ["Postgres 9"]))


@pytest.fixture
def rows(tmp_path: Path) -> list[Any]:
    """Those of a corpus with sentences, of a file without, and of a knowledge base."""
    values = small_recipe(tmp_path)
    text = "The apache2 daemon runs. Nobody likes apache2 here. httpd, alas."
    spans = [(4, 11), (38, 45), (52, 57)]
    assert [text[a:b] for a, b in spans] == ["apache2", "apache2", "httpd"]
    mentions = [{"start": a, "end": b, "type": "T", "entity_id": "2"} for a, b in spans]
    corpus = write(tmp_path / "corpus.jsonl", [{"document_id": "d", "text": text, "mentions": mentions}])
    train = values["mentions"]["train"]
    values["mentions"] = {**values["mentions"], "train": [*train, str(corpus)]}
    recipe = parse_recipe(values, "recipe")
    strings = load_entity_strings(recipe, sentences=True)
    return list(candidate_rows(recipe, strings, encode, 0.5, 4))


def test_rows_are_the_strings_that_were_learned_beside_their_candidates(rows: list[Any]) -> None:
    read = [one.rows[0].sentence for one in rows]
    assert len(read) == len(set(read))
    assert {"apache2 | The apache2 daemon runs.", "apache2 | Nobody likes apache2 here.", "apache2"} <= {
        *read
    }
    assert {"httpd", "httpd | httpd, alas."} <= {*read}
    # One mention of each of ten entities, one alias of each, and three mentions of the corpus.
    assert len(rows) == 23
    for one in rows:
        assert len(one.rows) == 4
        assert len({row.context for row in one.rows}) == 4
        assert any(row.relevant for row in one.rows)
        assert one.with_sentence == (" | " in one.rows[0].sentence)
        for row in one.rows:
            (text,) = row.entities
            assert row.group == text.casefold()
            own = row.context.split(" | ")
            # In the index it is looked up in no entity has the string beside its name.
            assert text.casefold() not in [name.casefold() for name in own[1:]]
    right = [row for one in rows for row in one.rows if row.relevant]
    assert {row.context.split(" | ")[0] for row in right if row.entities == ("httpd",)} == {
        "Apache Web Server"
    }


def test_no_held_out_string_is_among_the_rows(rows: list[Any], tmp_path: Path) -> None:
    held_out = {mention["mention"].casefold() for mention in read_lines(tmp_path / "dev.jsonl")}
    assert held_out
    assert not held_out.intersection(row.group for one in rows for row in one.rows)


def test_a_string_is_in_no_half_of_an_alias_of_the_index_it_is_looked_up_in(tmp_path: Path) -> None:
    recipe = parse_recipe(small_recipe(tmp_path), "recipe")
    chorea = Entity("hd", "chorea major", ("HD", "Huntington disease (HD)"))
    strings = load_entity_strings(recipe, sentences=True)
    strings = replace(strings, learned=[chorea], indexed=[*strings.indexed, chorea])
    found = list(candidate_rows(recipe, strings, encode, 0.5, 2))
    (of_hd,) = [one for one in found if one.rows[0].entities == ("HD",)]
    assert not any("HD" in row.context for row in of_hd.rows)


def test_the_entity_of_a_mention_takes_the_place_of_the_last_candidate(tmp_path: Path) -> None:
    recipe = parse_recipe(small_recipe(tmp_path), "recipe")
    strings = load_entity_strings(recipe, sentences=True)
    found = list(candidate_rows(recipe, strings, encode, 0.5, 2))
    missed = [one for one in found if not one.found]
    assert missed
    for one in missed:
        assert [row.relevant for row in one.rows] == [False, True]
    slow = 0
    for number in range(FOLDS):
        entities, asked = without_fold(strings, number)
        index = build_index(entities, encode, recipe.index, "cosine")
        for text, entity_id in asked:
            (of,) = index.search([text], encode([text]), 2, 0.5)
            slow += entity_id not in [one.entity_id for one in of]
    assert slow == len(missed)


def without_fold(strings: Any, number: int) -> tuple[list[Entity], list[tuple[str, str]]]:
    def is_out(name: str) -> bool:
        return zlib.crc32(name.casefold().encode()) % FOLDS == number

    entities = [replace(e, aliases=tuple(a for a in e.aliases if not is_out(a))) for e in strings.indexed]
    aliases = {(a, e.entity_id) for e in strings.learned for a in e.aliases}
    return entities, [pair for pair in sorted(aliases) if is_out(pair[0])]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
