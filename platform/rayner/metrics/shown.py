"""How a score is written for people."""

from __future__ import annotations

_DECIMALS = {"mse": 4, "seconds": 0}


def is_fraction(name: str) -> bool:
    """Whether a score of this name is shown as a percentage."""
    return name not in _DECIMALS


def shown_score(name: str, value: float, decimals: int = 1) -> str:
    """A score as a percentage where it is a fraction: seconds and a mean squared error are none.

    Args:
        decimals: those of a percentage.
    """
    own = _DECIMALS.get(name)
    return f"{100 * value:.{decimals}f}" if own is None else f"{value:.{own}f}"
