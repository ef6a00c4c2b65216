"""What callers ask of predictors, read without knowing the task."""

from __future__ import annotations

import pytest

from rayner.tasks.predictor_options import Options
from rayner.tasks.registry import OWN, Task


@pytest.mark.parametrize("record", OWN, ids=lambda record: record.name)
def test_types_and_shift_that_are_asked_for_are_read_of_any_task(record: Task) -> None:
    asked = {"types": ["PER"], "shift": 0.5}
    options = record.options.of({k: asked[k] for k in asked if k in record.options.model_fields}, record.name)
    types = options.asked_types
    names = None if types is None else [getattr(one, "name", one) for one in types]
    assert names == (["PER"] if "types" in record.options.model_fields else None)
    assert options.asked_shift == (0.5 if "shift" in record.options.model_fields else None)


def test_what_a_task_has_no_option_for_is_not_asked() -> None:
    assert (Options().asked_types, Options().asked_shift) == (None, None)
