"""Search spaces: read from their files and checked against the recipe."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import itertools
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rayner.config import BaseRecipe, Settings
from rayner.config.recipe_files import SURROGATE, with_settings
from rayner.errors import InputError, RecipeError
from rayner.files.uris import uri_of
from rayner.runtime.sweeps.domains import (
    choices,
    excludes_upper,
    extremes,
    in_words,
    plain,
    step_of,
)

_OPTIONS = {"seed": "--seeds", "scaling.workers": "--workers"}
"""Keys that a sweep sets in each run by its own options."""
_PARTS = ("train", "dev", "dev_fraction", "negatives", "format", "types")
"""Keys of a corpus that a sweep sets in each run where it cuts folds or a held-out part."""
_MOST_BESIDE = 512
"""Combinations of one, of two, and of all other keys that a value is tried with which the recipe does not
take as it is."""
_OF_ALL = ("scaling", "tracking")
"""Sections that are those of the recipe in all trials, whose resources they were reserved by."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Space:
    """What is searched, as its file says it.

    `domains` maps dotted keys of a recipe to Ray Tune's domains. `metric` and so on are what the file
    recommends, None where it says nothing.
    """

    name: str
    domains: Mapping[str, Any]
    task: str | None = None
    metric: str | None = None
    mode: str | None = None
    scheduler: str | None = None
    search: str | None = None


def load_space(text: str) -> Space:
    """The space that `FILE.py`, `FILE.py:function`, `module` or `module:function` names.

    The file is Python and is executed. The function, `space` by default, returns the domains: Ray Tune's, or
    lists of values to choose from. TASK, METRIC, MODE, SCHEDULER and SEARCH of the file are taken up.

    Raises:
        InputError: there is no such file or function, it is at a URI, or what it returns is no space.
    """
    if (uri := uri_of(text)) is not None:
        raise InputError(uri, "is code, which is not taken from a URI", "copy it here, or name a module")
    place, colon, function = text.partition(":")
    module = _module(place)
    build = getattr(module, function if colon else "space", None)
    if not callable(build):
        names = [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]
        near = difflib.get_close_matches(function or "space", names, n=1)
        what = f"no function {function or 'space'!r} in it"
        raise InputError(text, what, f"did you mean {near[0]!r}?" if near else "name it as FILE.py:function")
    try:
        domains = build()
    except (Exception, SystemExit) as error:
        raise InputError(text, f"cannot be executed: {type(error).__name__}: {error}") from error
    if not isinstance(domains, Mapping):
        raise InputError(text, "is no space", "return a mapping of keys to domains")
    if not domains:
        raise InputError(text, "an empty space", "name at least one key of the recipe to search")
    said = {name.lower(): getattr(module, name, None) for name in ("TASK", "METRIC", "MODE", "SCHEDULER")}
    # A grid says of itself that it is one, whatever else its file holds.
    all_grids = all(_is_grid(domain) for domain in domains.values())
    has_lists_alone = not any(hasattr(domain, "sample") for domain in domains.values())
    search = "grid" if all_grids else getattr(module, "SEARCH", "grid" if has_lists_alone else None)
    name = f"{Path(place).stem}:{build.__name__}" if colon else Path(place).stem
    return Space(
        name, {str(k): _domain(f"space {name}: {k}", v) for k, v in domains.items()}, search=search, **said
    )


def check_space(space: Space, recipe: BaseRecipe, cut: bool = False) -> None:
    """Refuse a space whose keys or values the recipe does not take.

    Args:
        cut: whether the sweep cuts the corpus, into folds or a held-out part.

    Raises:
        InputError: the space is for another task, has a key that the sweep itself sets, or a whole section.
        RecipeError: the key that is wrong and the nearest known one, or the value that is.
    """
    check_task(space, recipe)
    place = f"space {space.name}"
    for key, domain in space.domains.items():
        _refuse_own(place, key, cut)
        for value in extremes(domain):
            _refuse_section(place, recipe, key, value)
            _refuse_value(place, recipe, space, key, value)
        _refuse_fractions(place, recipe, space, key, domain)


def warn_of_overrides(space: Space, overrides: Iterable[str]) -> None:
    """Say which overrides of a recipe (`key.key=value`) have no effect, as the space searches their keys."""
    given = [override.partition("=")[0].strip() for override in overrides]
    for key in given:
        if any(f"{key}.".startswith(f"{searched}.") for searched in space.domains):
            log.warning("--set %s has no effect: the space %s searches it", key, space.name)


def check_task(space: Space, recipe: BaseRecipe) -> None:
    """Refuse a space for another task.

    Raises:
        InputError: the file of the space names another task than the recipe.
    """
    task = getattr(recipe, "task", None)
    if space.task is not None and space.task != task:
        hint = f"the recipe is for the task {task!r}: choose a space for that"
        raise InputError(f"space {space.name}", f"is for the task {space.task!r}", hint)


def _refuse_own(place: str, key: str, cut: bool) -> None:
    for own, option in _OPTIONS.items():
        if f"{own}.".startswith(f"{key}."):
            raise InputError(place, f"{key} is set by the sweep", f"leave it out, and give {option}")
    section, _, part = key.partition(".")
    if section in _OF_ALL:
        hint = "leave it out, and set it in the recipe or with --set"
        raise InputError(place, f"{key} is the same in all trials", hint)
    if cut and section in ("corpus", "mentions") and part in ("", *_PARTS):
        hint = "leave it out, or give neither --folds nor --held-out"
        raise InputError(place, f"{key} is set by the sweep, which cuts the corpus", hint)


def _refuse_section(place: str, recipe: BaseRecipe, key: str, value: Any) -> None:
    """A section in place of another would take the defaults for all that it does not say."""
    section: Any = recipe
    for part in key.split("."):
        section = getattr(section, part, None)
    if isinstance(section, Settings) and isinstance(value, Mapping):
        keys = " and ".join(f"{key}.{part}" for part in value) or f"its keys, as {key}.KEY"
        raise InputError(
            place, f"{key} is a whole section, with keys that the space does not name", f"search {keys}"
        )


def _refuse_value(place: str, recipe: BaseRecipe, space: Space, key: str, value: Any) -> None:
    """Some values need another one of the space beside them, such as a short window a small overlap."""
    try:
        with_settings(recipe, {key: value}, place)
    except RecipeError as error:
        others = {other: list(extremes(domain)) for other, domain in space.domains.items() if other != key}
        for beside in _combinations(others):
            with contextlib.suppress(RecipeError):
                with_settings(recipe, {**beside, key: value}, place)
                return
        raise error from None


def _refuse_fractions(place: str, recipe: BaseRecipe, space: Space, key: str, domain: Any) -> None:
    """A key of whole numbers takes both ends of a range of real ones, and hardly any number between them."""
    from ray.tune.search.sample import Float

    if not isinstance(domain, Float):
        return
    between = domain.lower + (step_of(domain) or 0.37 * min(1, domain.upper - domain.lower))
    try:
        _refuse_value(place, recipe, space, key, between)
    except RecipeError as error:
        raise RecipeError(error.where, error.what, "draw whole numbers with tune.randint") from None


def _combinations(values: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """A value of one key, of two, and of all: the first ones of each."""
    for count in dict.fromkeys((1, 2, len(values))):
        rows = (
            dict(zip(keys, row, strict=True))
            for keys in itertools.combinations(values, count)
            for row in itertools.product(*(values[key] for key in keys))
        )
        yield from itertools.islice(rows, _MOST_BESIDE)


def described(space: Space) -> dict[str, str]:
    """What each key is searched over, in words that compare."""
    return {key: in_words(domain) for key, domain in sorted(space.domains.items())}


def _module(place: str) -> ModuleType:
    path = Path(place)
    if path.suffix != ".py":
        if not place or path.is_file():
            what = "is no Python file" if place else "no file and no module is named"
            raise InputError(place or "SPACE", what, "name it as FILE.py or module:function")
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            # A module that the space itself imports and does not find is another matter.
            if error.name is None or not place.startswith(error.name):
                raise InputError(place, f"it needs the module {error.name!r}", "install it") from None
            raise InputError(
                place, "no such file or module", "name it as FILE.py or module:function"
            ) from None
        except (Exception, SystemExit) as error:
            raise InputError(place, f"cannot be imported: {type(error).__name__}: {error}") from error
    if not path.is_file():
        raise InputError(place, "no such file", "name it as FILE.py or module:function")
    spec = importlib.util.spec_from_file_location(f"_space_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(place, f"cannot be executed: {type(error).__name__}: {error}") from error
    return module


def _is_grid(domain: Any) -> bool:
    return isinstance(domain, dict) and set(domain) == {"grid_search"}


def _domain(where: str, value: Any) -> Any:
    """One kind of domain for `tune.grid_search`, `tune.choice`, lists and single values."""
    from ray import tune
    from ray.tune.search.sample import Domain, Function

    if isinstance(value, Function):
        raise InputError(where, "a function, of which no values are known", "list them, or name a range")
    values = value["grid_search"] if _is_grid(value) else value
    if isinstance(value, Domain):
        values = choices(value)
        if values is None:
            _refuse_range(where, value)
            return value
    if isinstance(values, Iterable) and not isinstance(values, (str, Mapping, list, tuple)):
        raise InputError(where, f"a {type(values).__name__} in place of a list", "write its values in [ ]")
    if not isinstance(values, (list, tuple)):
        values = [values]
    if not values:
        raise InputError(where, "a key without any value", "list at least one")
    if SURROGATE.search(json.dumps(values, ensure_ascii=False, default=str)):
        raise InputError(where, "half of a surrogate pair is no character", "write the character itself")
    # Lists, as trials have them: Optuna does not find a tuple among its values again.
    return tune.choice([plain(one) for one in values])


def _refuse_range(where: str, domain: Any) -> None:
    from ray.tune.search.sample import Integer

    if not hasattr(domain, "lower"):
        return
    low, high = domain.lower, domain.upper
    if isinstance(domain, Integer) and not -(2**63) <= low <= high <= 2**63:
        raise InputError(where, f"{low} to {high} are more numbers than can be drawn from", "draw from fewer")
    if math.isinf(low) or math.isinf(high):
        hint = "name a range, such as tune.uniform(LOW, HIGH), or list values"
        raise InputError(where, "a distribution that has no bounds, as no value of a recipe may be", hint)
    if low > high or (low == high and excludes_upper(domain)):
        hint = "give the smaller number first, or a single value as a list"
        raise InputError(where, f"from {low:g} to {high:g} is no range", hint)
