"""The settings of the trials: drawn from a space or listed, compared, and named."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import math
import re
from collections.abc import Collection, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from rayner.counted import counted
from rayner.errors import InputError
from rayner.runtime.sweeps.domains import Range, choices, is_log, plain, range_of, step_of
from rayner.runtime.sweeps.space import Space
from rayner.runtime.sweeps.sweep_settings import SweepSettings

DEFAULT_TRIALS = 16
_ATTEMPTS_PER_DRAW = 200
_LONGEST_NAME = 80
"""Characters of a name before its key; a file system takes 255 bytes."""

log = logging.getLogger(__name__)


def planned_settings(space: Space, settings: SweepSettings) -> list[dict[str, Any]] | None:
    """The settings of all trials; None where Optuna finds them one by one.

    Raises:
        InputError: a grid over a range, or a range that Optuna does not draw from.
    """
    if settings.search == "optuna":
        _refuse_log_steps(space)
        return _all_of(space, settings.trials or DEFAULT_TRIALS)
    if settings.search == "random":
        return draws(space, settings.trials or DEFAULT_TRIALS, settings.seed)
    total = _combinations(space)
    if settings.trials is None or settings.trials >= total:
        return grid(space)
    log.info("%d of the %d trials of the grid, drawn at random", settings.trials, total)
    return draws(space, settings.trials, settings.seed)


def _all_of(space: Space, count: int) -> list[dict[str, Any]] | None:
    """The whole of a space of lists that has no more than `count` settings: nothing is left to propose, and
    Optuna, which also proposes what it knows, would be asked for the others without end."""
    if ranges(space) or _combinations(space) > count:
        return None
    found = grid(space)
    _tell_of_fewer(found, count, space)
    return found


def _combinations(space: Space) -> int:
    """How many settings a space of lists has; these may be too many to list."""
    # A value that is listed twice is one.
    return math.prod(len({key_of({key: one}) for one in values}) for key, values in _lists(space).items())


def grid(space: Space) -> list[dict[str, Any]]:
    """Every combination, in the order of the space.

    Raises:
        InputError: a range, which cannot be listed.
    """
    lists = _lists(space)
    rows = [dict(zip(lists, row, strict=True)) for row in itertools.product(*lists.values())]
    # A value that is listed twice is one setting.
    return list({key_of(row): row for row in rows}.values())


def _lists(space: Space) -> dict[str, list[Any]]:
    lists = {}
    for key, domain in space.domains.items():
        values = choices(domain)
        if values is None:
            what, hint = f"{key} is a range, which no grid can hold", "list its values, or search at random"
            raise InputError(f"space {space.name}", what, hint)
        lists[key] = values
    return lists


def _refuse_log_steps(space: Space) -> None:
    for key, domain in space.domains.items():
        if choices(domain) is None and is_log(domain) and step_of(domain) is not None:
            what = f"{key} has steps on a logarithmic scale, in which Optuna does not draw"
            hint = "leave the steps out, list the values, or say --search random"
            raise InputError(f"space {space.name}", what, hint)


def draws(space: Space, count: int, seed: int) -> list[dict[str, Any]]:
    """Different settings at random; fewer than `count` where the space has no more.

    The first ones do not depend on `count`, nor any on the order of the keys.
    """
    rng = np.random.RandomState(seed)
    domains, drawn_from = sorted(space.domains.items()), ranges(space)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(count * _ATTEMPTS_PER_DRAW):
        sample = {key: domain.sample(random_state=rng) for key, domain in domains}
        drawn = tidy(sample, drawn_from)
        found.setdefault(key_of(drawn), drawn)
        if len(found) == count:
            break
    _tell_of_fewer(found, count, space)
    return list(found.values())


def _tell_of_fewer(found: Sized, count: int, space: Space) -> None:
    if len(found) < count:
        what = "%s in place of %d: space %s has hardly more different settings"
        log.warning(what, counted(len(found), "trial"), count, space.name)


def ranges(space: Space) -> dict[str, Range]:
    """The keys whose values are drawn from a range, not listed, each with its range."""
    return {key: range_of(domain) for key, domain in space.domains.items() if choices(domain) is None}


def single_values(space: Space) -> frozenset[str]:
    """The keys that have one value."""
    return frozenset(key for key, domain in space.domains.items() if len(choices(domain) or ()) == 1)


def tidy(settings: Mapping[str, Any], drawn: Mapping[str, Range] | None = None) -> dict[str, Any]:
    """The settings as plain values, keys in order; numbers of the keys in `drawn` with few digits."""
    drawn = drawn or {}
    return {
        key: drawn[key].rounded(settings[key]) if key in drawn else plain(settings[key])
        for key in sorted(settings)
    }


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
