"""The settings of the trials: drawn from a space or listed, compared, and named."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rayner.errors import InputError
from rayner.runtime.sweeps.space import Space, choices, plain, rounded
from rayner.runtime.sweeps.sweep_settings import SweepSettings

DEFAULT_TRIALS = 16
_ATTEMPTS_PER_DRAW = 200
_LONGEST_NAME = 80
"""Characters of a name before its key; a file system takes 255 bytes."""

log = logging.getLogger(__name__)


def planned_settings(space: Space, settings: SweepSettings) -> list[dict[str, Any]] | None:
    """The settings of all trials; None where Optuna finds them one by one.

    Raises:
        InputError: a grid over a range.
    """
    if settings.search == "optuna":
        return None
    if settings.search == "random":
        return draws(space, settings.trials or DEFAULT_TRIALS, settings.seed)
    everything = grid(space)
    if settings.trials is None or settings.trials >= len(everything):
        return everything
    log.info("%d of the %d trials of the grid, drawn at random", settings.trials, len(everything))
    return draws(space, settings.trials, settings.seed)


def grid(space: Space) -> list[dict[str, Any]]:
    """Every combination, in the order of the space.

    Raises:
        InputError: a range, which cannot be listed.
    """
    lists = {}
    for key, domain in space.domains.items():
        values = choices(domain)
        if values is None:
            what, hint = f"{key} is a range, which no grid can hold", "list its values, or search at random"
            raise InputError(f"space {space.name}", what, hint)
        lists[key] = values
    rows = [dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values())]
    # A value that is listed twice is one setting.
    return list({key_of(row): row for row in rows}.values())


def draws(space: Space, count: int, seed: int) -> list[dict[str, Any]]:
    """Different settings at random; fewer than `count` where the space has no more.

    The first ones do not depend on `count`.
    """
    rng = np.random.RandomState(seed)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(count * _ATTEMPTS_PER_DRAW):
        sample = {key: domain.sample(random_state=rng) for key, domain in space.domains.items()}
        drawn = tidy(sample, ranges(space))
        found.setdefault(key_of(drawn), drawn)
        if len(found) == count:
            break
    return list(found.values())


def ranges(space: Space) -> frozenset[str]:
    """The keys whose values are drawn from a range, not listed."""
    return frozenset(key for key, domain in space.domains.items() if choices(domain) is None)


def single_values(space: Space) -> frozenset[str]:
    """The keys that have one value."""
    return frozenset(key for key, domain in space.domains.items() if len(choices(domain) or ()) == 1)


def tidy(settings: Mapping[str, Any], drawn: Collection[str] = ()) -> dict[str, Any]:
    """The settings as plain values, keys in order; numbers of the keys in `drawn` with few digits."""
    return {key: (rounded if key in drawn else plain)(settings[key]) for key in sorted(settings)}


def key_of(settings: Mapping[str, Any]) -> str:
    """A hash: the same for the same settings, so that no work is done twice."""
    text = json.dumps(tidy(settings), sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


def trial_name(settings: Mapping[str, Any], fixed: Collection[str] = ()) -> str:
    """`learning_rate=0.01,scheme=BIO-1f3b9c2a47`: the searched settings, cut if they are many, and their key.

    It names the trial's folder, and the trial in Ray Tune, TensorBoard and MLflow.

    Args:
        fixed: keys that have the same value in all trials; they are left out.
    """
    names = short_names([key for key in sorted(settings) if key not in fixed])
    text = ",".join(f"{name}={settings[key]}" for key, name in names.items()) or "trial"
    readable = re.sub(r"[^\w.,=+-]+", "_", text, flags=re.ASCII)[:_LONGEST_NAME].rstrip(",=_-.")
    return f"{readable}-{key_of(settings)}"


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each dotted key, or all of it where two have the same."""
    ends = [key.rpartition(".")[2] for key in keys]
    return {key: end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)}
