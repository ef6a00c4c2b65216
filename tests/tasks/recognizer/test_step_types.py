"""Texts that a step draws, and types of which no document has a mention."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from rayner.errors import CorpusError, RecipeError
from rayner.losses.span_contrast import span_contrast
from rayner.tasks.base import Progress
from rayner.tasks.splits import FoundDocuments
from tests.tasks.small import built, collated, corpus, found, recognizer, trained

ABSENT = [
    {"name": f"A{i}", "description": text}
    for i, text in enumerate(("kinds of stone", "chemical elements", "dances of two", "diseases of trees"))
]
TYPES = [
    {"name": "PER", "description": "names of people", "descriptions": ["somebody", "a person by name"]},
    {"name": "LOC", "description": "places"},
]


def _at(step: int) -> Progress:
    return Progress(step, 100, 0, 1)


def _texts(task: Any, model: Any, step: int) -> list[tuple[int, ...]]:
    types, absent = task._types_of_step(_at(step)), task._absent_of_step(_at(step))
    inputs = task._inputs_of(model, types, absent, _at(step))
    rows = [tuple(ids[mask].tolist()) for ids, mask in zip(inputs.ids, inputs.mask, strict=True)]
    assert inputs.type_index.tolist() == sorted(inputs.type_index.tolist())
    return rows


def test_a_step_reads_one_text_of_each_type_and_in_time_all() -> None:
    task = recognizer(types=TYPES, model={"descriptions": "drawn"})
    other = recognizer(types=TYPES, model={"descriptions": "drawn"})
    model = built(task)
    drawn = [_texts(task, model, step) for step in range(40)]
    assert drawn == [_texts(other, model, step) for step in range(40)]
    assert {len(rows) for rows in drawn} == {2}
    every = _texts(recognizer(types=TYPES), model, 0)
    assert {rows[0] for rows in drawn} == set(every[:3])
    assert {rows[1] for rows in drawn} == set(every[3:])


def test_answers_take_all_texts() -> None:
    drawn, mean = (recognizer(types=TYPES, model={"descriptions": how}) for how in ("drawn", "mean"))
    model = built(mean).eval()
    assert found(drawn, model, corpus()) == found(mean, model, corpus())


@pytest.mark.parametrize("model_settings", [{}, {"types_per_step": 2}, {"train_type_encoder": False}])
def test_absent_types_have_thresholds_alone_and_change_no_other_sum(model_settings: Any) -> None:
    plain = recognizer(model=model_settings)
    task = recognizer(model={**model_settings, "absent_per_step": 3}, absent=ABSENT)
    model, batch = built(plain).eval(), collated(plain, corpus())
    for step in range(3):
        absent = task._absent_of_step(_at(step)).tolist()
        assert len(set(absent)) == 3
        sums, plain_sums = (t.forward(model, batch, _at(step)).sums for t in (task, plain))
        counts, plain_counts = (t.counts(batch, _at(step)) for t in (task, plain))
        alone = recognizer(types=[ABSENT[i] for i in absent])
        scores = model(
            batch.ids, batch.mask, alone.inputs(model, alone.recipe.types), None, torch.tensor([-1] * 3)
        )
        nothing = batch.targets._replace(
            gold=batch.targets.gold[:0],
            known=torch.ones(len(batch.ids), 3, dtype=torch.bool),
            excluded_starts=batch.targets.excluded_starts[:0],
            excluded_ends=batch.targets.excluded_ends[:0],
        )
        extra = span_contrast(scores, nothing, task.recipe.loss)
        for part in task.weights:
            torch.testing.assert_close(sums[part], plain_sums[part] + extra[part], rtol=1e-4, atol=1e-4)
            more = 3 * len(batch.ids) if part.endswith("threshold") else 0
            assert counts[part] == plain_counts[part] + more


def test_absent_types_are_learned_to_be_absent_and_not_answered() -> None:
    task = recognizer(absent=ABSENT)
    model = trained(task, corpus(), steps=40)
    answers = found(task, model, corpus())
    assert {m.type for d in answers for m in d.mentions} <= set(task.names)
    assert any(d.mentions for d in answers)
    asked = recognizer(types=ABSENT)
    assert not any(d.mentions for d in found(asked, model, corpus()))


def test_absent_types_that_the_documents_have_are_refused() -> None:
    """Each mention of theirs would be learned as none."""
    documents = FoundDocuments([], Counter({"PER": 3, ABSENT[0]["name"]: 2}), Counter(), 0)
    recognizer().require(documents)
    with pytest.raises(CorpusError, match=f"absent: has '{ABSENT[0]['name']}', of which .* 2 mentions"):
        recognizer(absent=ABSENT).require(documents)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"model": {"threshold": "learned"}}, r"model\.threshold must be dynamic"),
        ({"model": {"type_encoding": "atomic"}}, "type_encoding not atomic"),
        ({"absent": [*ABSENT, {"name": "PER", "description": "people"}]}, "'PER' occurs twice"),
    ],
)
def test_absent_types_that_cannot_be_read_are_refused(changes: Any, what: str) -> None:
    with pytest.raises(RecipeError, match=what):
        recognizer(**{"absent": ABSENT, **changes})
