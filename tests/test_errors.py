from __future__ import annotations

from typing import Any

import pytest

from rayner.errors import first_line, shown


@pytest.mark.parametrize(
    ("error", "line"),
    [(OSError("gone\nTry again."), "gone"), (ValueError("\n no\n"), "no"), (RuntimeError(), "RuntimeError")],
)
def test_an_error_that_says_nothing_is_told_by_its_type(error: Exception, line: str) -> None:
    assert first_line(error) == line


@pytest.mark.parametrize(
    "value",
    [
        None,
        "it's",
        "x" * 90,
        3.5,
        [],
        {},
        [3, [{"b": 1, "a": (2, "x")}], {}],
        {"PER": ["people"], 2: None},
        list(range(90)),
    ],
)
def test_a_value_is_shown_as_repr_does(value: Any) -> None:
    assert shown(value) == f"{value!r:.60}"


def test_of_a_value_that_no_memory_holds_the_beginning_is_shown() -> None:
    value: list[Any] = ["x"] * 10
    # 10 to the 40th texts, as by the aliases of YAML.
    for _ in range(39):
        value = [value] * 10
    assert shown(value) == "[" * 40 + "'x', 'x', 'x', 'x', "
    value.append(value)
    assert shown([value, value])[0] == "["
