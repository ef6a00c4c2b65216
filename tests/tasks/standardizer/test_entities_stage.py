from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import regex

from rayner.data.schema import Document, Entity, Mention
from rayner.metrics.linked_spans import score_linked_spans
from rayner.metrics.spans import score_spans
from rayner.tasks.end_to_end import evaluate_end_to_end
from rayner.tasks.predict import predict
from rayner.tasks.stage_chain import Chain
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.stage import Entities
from tests.tasks.small import corpus, recognizer, trained
from tests.tasks.standardizer.small_index import ENTITIES, SmallIndex, encode
from tests.tasks.standardizer.small_standardizer import NIL

TEXTS = ["We moved from MySQL to Postgres on Android.", "", "Zug here.", "MySQL and a Toothbrush; MySQL."]


class FindsCapitals:
    """Every capitalized word is a mention; what ends in SQL is of type Base. Each sentence is a window."""

    forward_cost, tokens_per_batch, whole = 0, 2048, False

    def prepare(self, item: Document) -> list[tuple[int, int]]:
        return [match.span() for match in regex.finditer(r"[^.;]+", item.text)]

    def length_of(self, window: tuple[int, int]) -> int:
        return window[1] - window[0]

    def forward(self, windows: Sequence[tuple[int, int]]) -> list[str]:
        return ["" for _ in windows]

    def finish(self, item: Document, windows: Sequence[tuple[int, int]], scores: Sequence[str]) -> Document:
        mentions = [
            Mention(m.start(), m.end(), "Base" if m[0].endswith("SQL") else "Other", score=0.8)
            for begin, end in windows
            for m in regex.finditer(r"\p{Lu}\w+", item.text, pos=begin, endpos=end)
        ]
        return replace(item, mentions=tuple(mentions))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        return score_spans(gold, predicted)


def any_index(index: SmallIndex) -> Any:
    return index


def linker(index: SmallIndex, types: tuple[str, ...] | None = None) -> Chain:
    return Chain((FindsCapitals(), Entities(standardizer(index), types)))


def standardizer(index: SmallIndex) -> Standardizer:
    return Standardizer(any_index(index), encode, 0.0, NIL, nil_share=0.5)


def documents() -> list[Document]:
    return [Document(str(i), text) for i, text in enumerate(TEXTS)]


def entities(document: Document) -> list[tuple[str, str | None]]:
    return [(document.text[m.start : m.end], m.entity_id) for m in document.mentions]


@pytest.mark.parametrize("tokens", [1, 30, 2048])
def test_texts_become_mentions_of_entities(tokens: int):
    index = SmallIndex()
    linked = list(predict(linker(index), documents(), tokens))
    assert [entities(d) for d in linked] == [
        [("We", None), ("MySQL", "my"), ("Postgres", "pg"), ("Android", "an")],
        [],
        [("Zug", None)],
        [("MySQL", "my"), ("Toothbrush", None), ("MySQL", "my")],
    ]
    mention = linked[0].mentions[1]
    assert (mention.score, mention.candidates[0].entity_id) == (0.8, "my")
    assert len(mention.candidates) == 5
    assert [m.name for m in linked[0].mentions] == [None, "MySQL", "PostgreSQL", "Android"]
    first = linked[0].mentions[2].candidates[0]
    assert (first.entity_id, first.name, first.matched) == ("pg", "PostgreSQL", "Postgres")
    (answer,) = predict(standardizer(SmallIndex()), ["MySQL"])
    assert mention.probability == pytest.approx(answer.probability, abs=1e-4)
    assert linked[0].mentions[0].candidates
    if tokens == 2048:
        assert [sorted(texts) for texts in index.searched] == [
            sorted({t for d in linked for t, _ in entities(d)})
        ]


def test_without_a_calibration_a_probability_is_none():
    alone = SmallIndex(ENTITIES[:1])
    (document,) = predict(linker(alone), [Document("0", "Postgres.")])
    (mention,) = document.mentions
    assert mention.entity_id == "pg"
    assert mention.probability is not None
    bare = Entities(Standardizer(any_index(SmallIndex()), encode, 0.0))
    uncalibrated = Chain((FindsCapitals(), bare))
    (document,) = predict(uncalibrated, [Document("0", "Postgres.")])
    (mention,) = document.mentions
    assert mention.probability is None


def test_mentions_of_other_types_stay_without_an_entity():
    index = SmallIndex()
    first, *_ = predict(linker(index, types=("Base",)), documents())
    assert entities(first) == [("We", None), ("MySQL", "my"), ("Postgres", None), ("Android", None)]
    assert first.mentions[0].candidates == ()
    assert first.mentions[0].probability is None
    assert {text for texts in index.searched for text in texts} == {"MySQL"}


def test_an_entity_that_a_document_brings_is_no_answer():
    brought = (Mention(14, 19, "Base", "gold", name="Gold"), Mention(23, 31, "Other", "gold", name="Gold"))
    bases = Entities(standardizer(SmallIndex()), ("Base",))
    others = Entities(standardizer(SmallIndex()), ("Other",))
    for stages, found in (((bases,), ["my", None]), ((bases, others), ["my", "pg"])):
        (document,) = predict(Chain(stages), [Document("0", TEXTS[0], brought)])
        assert [mention.entity_id for mention in document.mentions] == found
        assert [mention.name for mention in document.mentions][1:] == ["PostgreSQL" if found[1] else None]


def test_long_documents_are_linked_throughout():
    text = "We moved from MySQL to Postgres. " * 3000
    (document,) = predict(linker(SmallIndex()), [Document("long", text)])
    assert entities(document) == [("We", None), ("MySQL", "my"), ("Postgres", "pg")] * 3000
    assert all(m.candidates for m in document.mentions)


def test_scores_are_those_of_spans_and_of_spans_with_entities():
    gold = [
        Document("0", TEXTS[0], (Mention(14, 19, "Base", "my"), Mention(23, 31, "Other", "my"))),
        *documents()[1:],
    ]
    one = linker(SmallIndex())
    predicted = list(predict(one, documents()))
    metrics = one.evaluate(predicted, gold)
    assert metrics["recall"] == 1.0
    assert {k: v for k, v in metrics.items() if k.startswith("linked")} == {
        "linked_precision": pytest.approx(1 / 5),
        "linked_recall": 1 / 2,
        "linked_f1": pytest.approx(2 / 7),
        "linked_support": 2,
    }
    annotated = [replace(gold[0], annotated_types=("Base",)), *gold[1:]]
    assert score_linked_spans(annotated, predicted)["linked_recall"] == 1.0
    nothing = score_linked_spans([], [])
    assert (nothing["linked_f1"], nothing["linked_support"]) == (None, 0)


def test_mentions_of_types_that_are_not_looked_for_count_nowhere():
    class Finds(FindsCapitals):
        names = ("Base",)

    one = Chain((Finds(), Entities(standardizer(SmallIndex()))))
    gold = [Document("0", TEXTS[0], (Mention(14, 19, "Base", "my"), Mention(23, 31, "Other", "pg")))]
    predicted = [Document("0", TEXTS[0], (Mention(14, 19, "Base", "my"),))]
    metrics = one.evaluate(predicted, gold)
    assert (metrics["linked_support"], metrics["linked_recall"]) == (1, 1.0)
    unknown = [replace(gold[0], mentions=(*gold[0].mentions, Mention(23, 31, "?")))]
    more = [replace(predicted[0], mentions=(*predicted[0].mentions, Mention(23, 31, "Base", "pg")))]
    assert one.evaluate(more, unknown)["linked_precision"] == 1.0
    # Also where the types that are linked are named.
    named = Chain((Finds(), Entities(standardizer(SmallIndex()), ("Base",))))
    assert named.evaluate(more, unknown)["linked_precision"] == 1.0


def test_a_gold_mention_given_twice_counts_once_and_either_entity_is_right():
    mentions = (Mention(14, 19, "Base", "ng"), Mention(14, 19, "Base", "my"), Mention(23, 31, "Other", "pg"))
    gold = [Document("0", TEXTS[0], mentions), *documents()[1:]]
    one = linker(SmallIndex())
    metrics = one.evaluate(list(predict(one, documents())), gold)
    assert (metrics["linked_support"], metrics["linked_recall"]) == (2, 1.0)


def test_entities_of_several_knowledge_bases_are_scored_together():
    bases, others = (Entities(standardizer(SmallIndex()), (name,)) for name in ("Base", "Other"))
    one = Chain((FindsCapitals(), bases, others))
    gold = [
        Document("0", TEXTS[0], (Mention(14, 19, "Base", "my"), Mention(23, 31, "Other", "pg"))),
        *documents()[1:],
    ]
    predicted = list(predict(one, documents()))
    metrics = one.evaluate(predicted, gold)
    assert (metrics["linked_support"], metrics["linked_recall"]) == (2, 1.0)
    whole = evaluate_end_to_end(one.stages, gold, predicted, [], intervals=False).scores
    assert whole["outcomes"]["right"] == 2
    only = evaluate_end_to_end((FindsCapitals(), bases), gold, predicted, [], intervals=False).scores
    assert (only["accuracy"]["predicted_mentions"]["mentions"], only["outcomes"]["right"]) == (1, 2)


@pytest.mark.parametrize(
    ("entity_id", "right"),
    [("DB:my", True), ("O1", True), ("pg+my", True), ("pg|DB:ng", False), ("ng", False), ("-1", None)],
)
def test_ids_of_gold_are_understood_as_in_training(entity_id: str, right: bool | None):
    entities = [replace(e, other_ids=("O1",)) if e.entity_id == "my" else e for e in ENTITIES]
    one = linker(SmallIndex(entities), ("Base",))
    gold = [Document("0", TEXTS[0], (Mention(14, 19, "Base", entity_id),))]
    metrics = one.evaluate(list(predict(one, [Document("0", TEXTS[0])])), gold)
    assert metrics["linked_support"] == (0 if right is None else 1)
    assert metrics["linked_recall"] == (None if right is None else float(right))


def test_an_id_of_gold_that_holds_a_plus_is_one():
    entities = [replace(e, entity_id="my++") if e.entity_id == "my" else e for e in ENTITIES]
    one = linker(SmallIndex([*entities, Entity("my", "Zug")]), ("Base",))
    gold = [Document("0", TEXTS[0], (Mention(14, 19, "Base", "my++"),))]
    assert one.evaluate(list(predict(one, [Document("0", TEXTS[0])])), gold)["linked_recall"] == 1.0


def test_a_real_recognizer_finds_the_same_mentions_with_and_without_linking():
    task = recognizer()
    model = trained(task, corpus())
    small: Any = SmallIndex()
    texts = [Document(d.document_id, d.text) for d in corpus()] + [
        Document("x", " ".join(d.text for d in corpus()))
    ]
    alone = list(predict(task.predictor(model), texts))
    linked = list(predict(Chain((task.predictor(model), Entities(Standardizer(small, encode, 0.0)))), texts))
    bare = [
        replace(d, mentions=tuple(replace(m, entity_id=None, name=None, candidates=()) for m in d.mentions))
        for d in linked
    ]
    assert bare == alone
    assert any(d.mentions for d in linked)
    assert all(m.entity_id is not None for d in linked for m in d.mentions)


def test_a_string_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[object] = []
    prepare = Standardizer.prepare

    def noted(self: Standardizer, item: Any) -> Any:
        prepared.append(item.text)
        return prepare(self, item)

    monkeypatch.setattr(Standardizer, "prepare", noted)
    linked = list(predict(linker(SmallIndex()), documents()))
    assert prepared == ["We", "MySQL", "Postgres", "Android", "Zug", "MySQL", "Toothbrush"]
    assert entities(linked[3]) == [("MySQL", "my"), ("Toothbrush", None), ("MySQL", "my")]
