"""What `python -m benchmarks.linking_diseases` learns from, asks and tells."""

from __future__ import annotations

import pytest

from benchmarks.linking_diseases import ENCODERS, KINDS, material_of, rows, unknown
from benchmarks.linking_in_documents import FOLDS, Asked, split
from rayner.data.schema import Entity

ENTITIES = [Entity("D1", "Cough"), Entity("D2", "Adenomatous Polyposis Coli")]
ASKED = [
    Asked(document, written, explained, ids)
    for document in range(10)
    for written, explained, ids in (
        ("cough", "cough", ("D1",)),
        (f"APC {document}", "polyposis", ("D2",)),
        ("strange", "strange", ("D3",)),
    )
]


def test_a_fold_learns_long_forms_of_the_documents_of_the_others() -> None:
    material = material_of(ASKED, ENTITIES)
    asked = []
    for fold in range(FOLDS):
        test, learned, unseen = split(fold, ASKED, ENTITIES)
        asked += test
        assert not {one.document for one in test} & {one.document for one in learned}
        # A name of the knowledge base is not unseen, nor is a string of the other documents.
        assert [one.written.startswith("APC") for one in test] == unseen
        train = material.folds[fold].train
        assert {(m.text, m.entity_ids) for m in train} == {("cough", ("D1",)), ("polyposis", ("D2",))}
        # Of what is written otherwise the long form is known.
        assert not any(unknown(test, learned, ENTITIES))
        assert unknown([Asked(99, "APC 99", "apc", ("D2",))], learned, ENTITIES) == [True]
        assert len(train) == 2 * len({one.document for one in learned})
    assert sorted(map(repr, asked)) == sorted(map(repr, ASKED))


def test_gains_are_over_the_untrained_encoder_with_the_same_strings() -> None:
    found = {f"{encoder} {kind}": [False, True, False, False] for encoder in ENCODERS for kind in KINDS}
    found["trained explained"] = [True, True, True, False]
    found |= {"unseen": [True, True, False, True], "explained": [True, False, False, False]}
    found["unknown"] = [False, True, False, True]
    table = {
        (row["mentions"], row["strings"], row["encoder"]): row
        for row in rows([{**found, "document": [0, 0, 1, 2]}])
    }
    assert table["all", "long forms", "trained"]["top_1"] == 0.75
    assert table["all", "long forms", "trained"]["gain"] == 0.5
    assert table["unseen", "long forms", "trained"]["gain"] == pytest.approx(1 / 3)
    assert table["unseen, explained", "long forms", "trained"]["count"] == 1
    assert table["unknown", "long forms", "trained"]["top_1"] == 0.5
    assert table["all", "as written", "trained"]["gain"] == 0
    assert "gain" not in table["all", "long forms", "untrained"]
