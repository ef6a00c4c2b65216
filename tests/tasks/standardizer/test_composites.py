"""A standardizer that splits mentions of several entities."""

from __future__ import annotations

from typing import Any

import pytest

from rayner.config import IndexSettings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Document, Entity, Mention
from rayner.retrieval.build import build_index
from rayner.retrieval.combiner import Combiner, Weight
from rayner.tasks.predict import predict
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.stage import Entities
from tests.tasks.standardizer.small_index import ENTITIES, SmallIndex, encode
from tests.tasks.standardizer.small_standardizer import NIL, standardizer

DISEASES = (
    Entity("b", "breast cancer"),
    Entity("o", "ovarian cancer"),
    Entity("h", "head and neck cancer"),
    Entity("e", "epilepsy"),
)


def answer(text: str, entities: tuple[Entity, ...] = DISEASES, **options: Any) -> Any:
    (found,) = predict(standardizer(SmallIndex(entities), composites=True, **options), [text])
    return found


def test_a_list_is_split_where_its_parts_are_found_better() -> None:
    found = answer("breast and  ovarian cancer", top_k=1)
    assert (found.entity_id, found.name) == ("b|o", "breast cancer | ovarian cancer")
    assert [candidate.entity_id for candidate in found.candidates] == ["b", "o"]
    assert found.score == pytest.approx(1)
    row = found.to_row()
    assert (row["mention"], row["entity_id"]) == ("breast and  ovarian cancer", "b|o")


def test_a_name_of_the_knowledge_base_is_whole() -> None:
    found = answer("Head and neck cancer")
    assert (found.entity_id, found.candidates[0].entity_id) == ("h", "h")


@pytest.mark.parametrize("weight", [0.5, Combiner(2.6, 5.7, 1, 1, -4), Combiner(4, 0, 3, 2, 0)])
@pytest.mark.parametrize("name", ["nausea and vomiting", "head and neck cancer"])
def test_a_name_stays_whole_whatever_ranks_the_candidates(name: str, weight: Weight) -> None:
    names = (name, "nausea", "vomiting", "head cancer", "neck cancer", "neck", "lung cancer")
    index = build_index([Entity(n, n) for n in names], encode, IndexSettings(), "cosine")
    (found,) = predict(Standardizer(index, encode, weight, composites=True), [name])
    assert found.entity_id == name
    (split,) = predict(Standardizer(index, encode, weight, composites=True), ["lung cancer and vomiting"])
    assert split.entity_id == "lung cancer|vomiting"


def test_parts_of_one_entity_are_one_answer() -> None:
    assert answer("breast cancer and Breast Cancer").entity_id == "b"


def test_no_mention_is_split_unless_it_is_asked_for() -> None:
    index = SmallIndex(DISEASES)
    (found,) = predict(standardizer(index), ["breast and ovarian cancer"])
    assert found.entity_id in ("b", "o", "h")
    assert index.searched == [["breast and ovarian cancer"]]


def test_the_weakest_part_says_how_probable_the_answer_is() -> None:
    asked = standardizer(SmallIndex(), nil=NIL, nil_share=0.5, composites=True)
    whole, both, none = predict(asked, ["MySQL", "MySQL, Postgres", "toothbrush and quinoa"])
    assert (whole.entity_id, both.entity_id, none.entity_id) == ("my", "my|pg", None)
    parts = predict(asked, ["MySQL", "Postgres"])
    assert both.probability == pytest.approx(min(part.probability or 0 for part in parts))
    assert (none.name, none.reason) == (None, "below the threshold of accuracy")


@pytest.mark.parametrize("nil", [NIL, None])
def test_a_part_with_a_close_competitor_is_the_weakest(nil: Any) -> None:
    """It is as like its name as the other part is; what follows it tells that it is less certain."""
    names = ("MySQL server", "MySQL servers", "Postgres")
    index = build_index([Entity(n, n) for n in names], encode, IndexSettings(), "cosine")
    asked = Standardizer(index, encode, Combiner(2, 1, 6, 6, -4), nil, composites=True)
    parts = predict(asked, ["MySQL server", "Postgres."])
    (both,) = predict(asked, ["MySQL server and Postgres."])
    assert both.entity_id == "MySQL server|Postgres"
    weakest = min(parts, key=lambda part: part.score)
    assert weakest.entity_id == "MySQL server"
    assert (both.score, both.margin, both.probability) == pytest.approx(
        (weakest.score, weakest.margin, weakest.probability)
    )


def test_a_part_that_is_nil_is_left_out() -> None:
    point: Any = {"nil": NIL, "nil_share": 0.9, "operating_point": "high_precision"}
    part, both = predict(standardizer(SmallIndex(), composites=True, **point), ["Androis", "nginx, Androis"])
    assert (part.entity_id, part.candidates[0].entity_id) == (None, "an")
    assert (both.entity_id, both.name, both.reason) == ("ng", "nginx", None)


def test_answers_are_scored_part_by_part() -> None:
    asked = standardizer(SmallIndex(DISEASES), composites=True)
    texts = ["breast and ovarian cancer"] * 3
    gold = [MentionString(t, ids) for t, ids in zip(texts, [("b", "o"), ("b",), ("e",)], strict=True)]
    assert asked.evaluate(list(predict(asked, texts)), gold)["accuracy"] == pytest.approx(1 / 3)


def test_an_entity_whose_id_holds_a_bar_is_one_of_several() -> None:
    entities = (Entity("C|5", "breast cancer"), Entity("o", "ovarian cancer"))
    asked = standardizer(SmallIndex(entities), composites=True)
    (found,) = predict(asked, ["breast and ovarian cancer"])
    assert (found.entity_id, found.name) == ("C|5|o", "breast cancer | ovarian cancer")
    gold = [MentionString("breast and ovarian cancer", ("C|5", "o"))]
    assert asked.evaluate([found], gold)["accuracy"] == 1


def test_mentions_of_documents_are_split_too() -> None:
    index: Any = SmallIndex(DISEASES)
    stage = Entities(standardizer(index, composites=True))
    text = "Breast and ovarian cancer; epilepsy."
    document = Document("1", text, (Mention(0, 25, "D"), Mention(27, 35, "D")))
    (found,) = predict(stage, [document])
    assert [m.entity_id for m in found.mentions] == ["b|o", "e"]
    for gold, recall in (("o|b", 1.0), ("b", 0.5)):
        truth = Document("1", text, (Mention(0, 25, "D", gold), Mention(27, 35, "D", "e")))
        assert stage.evaluate([found], [truth])["linked_recall"] == recall


def test_abbreviations_are_looked_up_by_what_the_document_explains() -> None:
    text = "My database (MD) and PG; MD again."
    start = text.rindex("MD")
    document = Document("1", text, (Mention(start, start + 2, "S"), Mention(21, 23, "S")))
    entities = (*ENTITIES, Entity("db", "My database"))
    searched: list[list[str]] = []
    for asked in (False, True):
        index: Any = SmallIndex(entities)
        (found,) = predict(
            Entities(Standardizer(index, standardizer().encode, 0.0, abbreviations=asked)), [document]
        )
        assert (found.mentions[0].entity_id == "db") is asked
        searched += index.searched
    assert [sorted(texts) for texts in searched] == [["MD", "PG"], ["My database", "PG"]]
