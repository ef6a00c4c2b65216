"""Tasks of other packages: what is said of one that cannot be had."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from rayner.errors import InputError
from rayner.tasks import registry
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


def test_a_task_of_an_installed_package_is_told_of_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("toy", "notthere.toy:TOY", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    # Not the tests' own, of which the answer is kept; a space behind a comma is none.
    monkeypatch.setenv("RAYNER_TASKS", "tests.toy:TOY, ")
    where = r"^entry point rayner\.tasks: notthere\.toy:TOY: the task cannot be imported"
    with pytest.raises(InputError, match=rf"{where} .*; install the package"):
        tasks()
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    monkeypatch.setenv("RAYNER_TASKS", " tests.toy:TOY , ")
    assert "toy" in tasks()
