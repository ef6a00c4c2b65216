"""Ray Tune's domains: their values and ends, in words, and numbers as trials have them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

DIGITS = 4
"""Digits of a drawn number: enough for any effect, and few enough to read."""
_MOST_DIGITS = 17
"""With so many, no number is rounded."""
_FEWEST_VALUES = 32
"""A range has at least so many different numbers, with more digits where these do not tell them apart."""


class Range(NamedTuple):
    """The range that a number is drawn from, and to how many digits it is rounded."""

    lower: float = -math.inf
    upper: float = math.inf
    digits: int = DIGITS

    def rounded(self, value: Any) -> Any:
        """A value of Python's own types, a number with `digits` or as many more as keep it in the range."""
        value = plain(value)
        if not isinstance(value, float) or not math.isfinite(value):
            return value
        for digits in range(self.digits, _MOST_DIGITS + 1):
            found = float(f"{value:.{digits}g}")
            if self.lower <= found <= self.upper:
                return found
        # The last step of a range may lie beyond its end.
        return float(f"{value:.{self.digits}g}")


def range_of(domain: Any) -> Range:
    """The range of a domain that is no list."""
    if not hasattr(domain, "lower"):
        return Range()
    low, high = domain.lower, domain.upper
    finest = step_of(domain) or (high - low) / _FEWEST_VALUES
    digits, largest = DIGITS, max(abs(low), abs(high))
    while finest and digits < _MOST_DIGITS and _last_place(largest, digits) > 1.001 * finest:
        digits += 1
    return Range(low, high, digits)


def _last_place(number: float, digits: int) -> float:
    """What the last of so many digits of a number counts."""
    return 10.0 ** (math.floor(math.log10(number)) + 1 - digits)


def plain(value: Any) -> Any:
    """A value of Python's own types."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, tuple) else value


def whole(value: Any) -> int:
    """A whole number as a recipe reads it, which may be written as text."""
    return int(float(value))


def choices(domain: Any) -> list[Any] | None:
    """The values of a domain that is a list of them; None where it is a range."""
    values = getattr(domain, "categories", None)
    return None if values is None else list(values)


def extremes(domain: Any) -> Iterator[Any]:
    """The values of a list, or the two ends of a range."""
    values = choices(domain)
    if values is not None:
        yield from values
    elif hasattr(domain, "lower"):
        yield from map(range_of(domain).rounded, (domain.lower, last_of(domain)))
    else:
        yield Range().rounded(domain.sample())


def last_of(domain: Any) -> Any:
    """The upper end of a range, or the last whole number of it."""
    return domain.upper - 1 if excludes_upper(domain) else domain.upper


def excludes_upper(domain: Any) -> bool:
    """Whether the upper end of a range is not drawn."""
    return _is_whole(domain) and step_of(domain) is None


def step_of(domain: Any) -> float | None:
    """The step of a range that has one."""
    from ray.tune.search.sample import Quantized

    sampler = domain.get_sampler()
    return sampler.q if isinstance(sampler, Quantized) else None


def is_log(domain: Any) -> bool:
    """Whether a range is drawn from on a logarithmic scale."""
    sampler = domain.get_sampler()
    return "Log" in type(getattr(sampler, "sampler", sampler)).__name__


def in_words(domain: Any) -> str:
    """What is searched, in words that compare."""
    values = choices(domain)
    if values is not None:
        return f"one of {', '.join(map(repr, values))}"
    if not hasattr(domain, "lower"):
        return str(domain)
    kind = ", whole numbers" if _is_whole(domain) else ""
    step = step_of(domain)
    steps = "" if step is None else f" in steps of {step:g}"
    scale = " (log)" if is_log(domain) else ""
    return f"{domain.lower:g} to {last_of(domain):g}{kind}{steps}{scale}"


def _is_whole(domain: Any) -> bool:
    from ray.tune.search.sample import Integer

    return isinstance(domain, Integer)
