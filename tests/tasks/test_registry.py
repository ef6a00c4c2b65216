"""Tasks of other packages: what is said of one that cannot be had."""

from __future__ import annotations

import pytest

from rayner.errors import InputError
from rayner.tasks.registry import tasks


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            "notthere.toy:TOY",
            r"\(No module named 'notthere'\); install the package, or put its folder on",
        ),
        ("notthere", r"\(No module named 'notthere'\); write package\.module:RECORD"),
        ("tests.toy:TOI", r"\(module 'tests\.toy' has no attribute 'TOI'\); write package\.module:RECORD"),
    ],
)
def test_a_task_that_cannot_be_imported_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, named: str, message: str
) -> None:
    monkeypatch.setenv("RAYNER_TASKS", named)
    with pytest.raises(InputError, match=f"^RAYNER_TASKS={named}: the task cannot be imported {message}"):
        tasks()
