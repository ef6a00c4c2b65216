"""What the rows of `python -m benchmarks.new_types` are over."""

from __future__ import annotations

from typing import Any

from benchmarks.figures import Figure
from benchmarks.new_types import DOMAINS, figures


def row(held_out: str, learned_from: str, new: float) -> dict[str, Any]:
    scores = {"f1_all": 0.5, "f1_known": 0.6, "f1_new": new}
    per_type = {"song": new, "person": 0.9}
    return {
        **scores,
        "held_out": held_out,
        "learned_from": learned_from,
        "new_types": ["song"],
        "per_type": per_type,
    }


def headlines(rows: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    found: list[tuple[str, str, Any]] = []
    for one in figures(rows):
        f1 = one["f1"]
        assert isinstance(f1, Figure)
        if f1.headline:
            found.append((str(one["learned_from"]), str(one["held_out"]), f1.value))
    return found


def test_the_mean_is_that_of_all_domains() -> None:
    rows = [row(name, "domains", number / 10) for number, name in enumerate(DOMAINS)]
    rows.append(row("ai", "corpora", 0.5))
    assert headlines(rows) == [("domains", "mean", 20.0)]
    assert headlines(rows[:2] + rows[-1:]) == [
        ("domains", "politics", 0.0),
        ("domains", "science", 10.0),
        ("corpora", "ai", 50.0),
    ]
