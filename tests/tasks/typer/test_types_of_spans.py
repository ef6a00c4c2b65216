"""What the gold types of a span are, in examples and where thresholds are tuned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rayner.tasks.predict import predict
from rayner.tasks.typer.predictor import GoldScores
from tests.tasks.small import built, trained
from tests.tasks.typer.small_typer import DOCUMENTS, typer


@pytest.mark.parametrize("threshold", ["tuned", "per_type"])
def test_several_mentions_of_a_span_are_one_with_the_types_of_all(threshold: str) -> None:
    """Each would learn that the types of the others are wrong."""
    apart = [
        replace(d, mentions=tuple(replace(m, types=(one,)) for m in d.mentions for one in m.types))
        for d in DOCUMENTS
    ]
    assert sum(len(d.mentions) for d in apart) > len(DOCUMENTS)
    task = typer(decoding={"threshold": threshold})
    rows = [
        [{key: np.asarray(value).tolist() for key, value in row.items()} for row in task.examples(given)]
        for given in (DOCUMENTS, apart)
    ]
    assert rows[0] == rows[1]
    model, found_thresholds = trained(task, DOCUMENTS, steps=10), []
    for given in (DOCUMENTS, apart):
        task.fit(model, given)
        found_thresholds.append(model.thresholds.tolist())
    assert found_thresholds[0] == found_thresholds[1]


def test_a_gold_type_that_nobody_looked_for_tunes_nothing() -> None:
    """Ada Lovelace is a person and an author, in a corpus that was annotated for people alone."""
    task = typer()
    model = built(task).eval()
    looser = GoldScores(task, model, task.names, model.head.table(), model.thresholds)
    of_people = replace(DOCUMENTS[0], annotated_types=("/person",))
    (everything,), (seen,) = predict(looser, [DOCUMENTS[0], of_people])
    assert set(everything.gold) == {"/person", "/person/author"}
    assert (set(seen.gold), seen.scored) == ({"/person"}, everything.scored)
    assert [name for name in task.names if seen.counts(name)] == ["/person"]
