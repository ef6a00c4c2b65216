"""Reading, checking and comparing recipes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from rayner.config.base import BaseRecipe, ScalingSettings, Settings
from rayner.config.documents import Types, TypeSettings
from rayner.errors import RecipeError, shown
from rayner.files.fetching import is_there, local
from rayner.files.uris import check_uris, expanded, unset_variable, uri_of

DATA_VARIABLE = "RAYNER_DATA"
YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)
"""What reading YAML raises: also of a date that the calendar lacks, and of lists in lists without end."""

SURROGATE = re.compile(r"[\ud800-\udfff]")

S = TypeVar("S", bound=Settings)
Recipes = Mapping[str, type[BaseRecipe]]
"""The recipe type of each task, by the task's name."""


class _Loader(yaml.SafeLoader):
    """As YAML asks: a key that occurs twice is an error, where PyYAML forgets the first; so is half of a
    surrogate pair, which only an escape can write, and which no file and no tokenizer takes."""

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        if isinstance(node.value, str) and SURROGATE.search(node.value):
            what = "half of a surrogate pair is no character"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark)
        return super().construct_scalar(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    what = f"the key {key.value!r} occurs twice"
                    raise yaml.constructor.ConstructorError(None, None, what, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_recipe(path: str | Path, recipes: Recipes, overrides: Sequence[str] = ()) -> BaseRecipe:
    """The recipe in a YAML file, with `key.key=value` overrides.

    `types` may name a YAML file with a list of types, relative to the recipe; `auto` is kept as it is.

    Args:
        recipes: those that there are.

    Raises:
        RecipeError: the file, the key that is wrong and the nearest known one.
    """
    path = Path(path)
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise RecipeError(str(path), "not a mapping of keys to values", "write `task: recognizer` and so on")
    for override in overrides:
        _set(values, override)
    if isinstance(values.get("types"), str) and values["types"] != "auto":
        values["types"] = read_yaml(path.parent / expanded(values["types"]), "a YAML list of types")
    try:
        return parse_recipe(values, str(path), recipes)
    except RecipeError as error:
        raise _said_by(overrides, str(path), error) from None


def _said_by(overrides: Sequence[str], path: str, error: RecipeError) -> RecipeError:
    """The error; of a key that an override set, the override is the place."""
    key = error.where.removeprefix(f"{path}: ")
    guilty = [one for one in overrides if f"{one.partition('=')[0].strip()}.".startswith(f"{key}.")]
    if not guilty:
        return error
    below = guilty[-1].partition("=")[0].strip().removeprefix(key)
    hint = re.sub("^did you mean '[^']+", lambda found: found[0] + below, error.hint)
    return RecipeError(f"--set {guilty[-1]}", error.what, hint)


def read_scaling(path: Path, overrides: Sequence[str] = ()) -> ScalingSettings:
    """The part `scaling` of a recipe of any task, with the overrides that concern it.

    Raises:
        RecipeError: as `load_recipe`.
    """
    values = read_yaml(path)
    scaling = {"scaling": values.get("scaling") if isinstance(values, dict) else None}
    scaling["scaling"] = scaling["scaling"] or {}
    for override in overrides:
        if override.lstrip().startswith("scaling."):
            _set(scaling, override)
    try:
        return ScalingSettings.model_validate(scaling["scaling"])
    except ValidationError as error:
        raise explain(error, ScalingSettings, f"{path}: scaling") from None


def parse_recipe(values: Mapping[str, Any], where: str, recipes: Recipes) -> BaseRecipe:
    """The recipe in plain values; `where` is the place that errors name.

    Raises:
        RecipeError: as `load_recipe`.
    """
    check_uris(values)
    task = values.get("task")
    if not isinstance(task, str) or task not in recipes:
        near = _nearest(task, recipes) if isinstance(task, str) else None
        raise RecipeError(
            f"{where}: task", f"{shown(task)} is no task", f"take {near or ' or '.join(recipes)}"
        )
    try:
        return recipes[task].model_validate(dict(values))
    except ValidationError as error:
        raise explain(error, recipes[task], where) from None


def with_settings(recipe: BaseRecipe, settings: Mapping[str, Any], where: str) -> BaseRecipe:
    """The recipe with other values at dotted keys: `{"training.learning_rate": 1e-4}`.

    Raises:
        RecipeError: as `load_recipe`.
    """
    values = recipe.model_dump(mode="json")
    for key, value in settings.items():
        _put(values, key, value, f"{where}: {key}")
    return parse_recipe(values, where, {recipe.task: type(recipe)})


_TYPES = "write a line `- name: PER`, below it `  description: ...`, and so on for each type"


def load_types(path: Path) -> tuple[TypeSettings, ...]:
    """The types in a YAML list of `name`, `description` and so on.

    Raises:
        RecipeError: the file, the entry and the key that is wrong, or two entries of one name.
    """
    values = read_yaml(path, "a YAML list of types")
    if not isinstance(values, list) or not values:
        raise RecipeError(str(path), "no list of types", _TYPES)
    try:
        return TypeAdapter(Types).validate_python(values)
    except ValidationError as error:
        raise explain(error, TypeSettings, str(path)) from None


def read_settings(path: Path, model: type[S], what: str) -> S:
    """The settings in a YAML file.

    Args:
        what: as of `read_yaml`.

    Raises:
        RecipeError: the file, the key that is wrong and the nearest known one.
    """
    values = read_yaml(path, what)
    if not isinstance(values, dict):
        raise RecipeError(
            str(path), "not a mapping of keys to values", f"write `{next(iter(model.model_fields))}:`"
        )
    return parse_settings(model, values, str(path))


def parse_settings(model: type[S], values: Mapping[str, Any], where: str) -> S:
    """Settings in plain values; `where` is the place that errors name.

    Raises:
        RecipeError: as `read_settings`.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise explain(error, model, where) from None


def dump_recipe(recipe: BaseRecipe) -> str:
    """The recipe as YAML, every key spelled out."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=100)


def changed_keys(old: BaseRecipe, new: BaseRecipe) -> list[str]:
    """The dotted keys in which two recipes differ."""
    before, after = dict(flat(old.model_dump(mode="json"))), dict(flat(new.model_dump(mode="json")))
    return sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))


def corpus_paths(paths: Sequence[str], key: str = "corpus") -> list[Path]:
    """The paths with environment variables put in; what lies at a URI is fetched.

    Raises:
        RecipeError: a path that does not exist, or a variable that is not set.
    """
    found = []
    for named in paths:
        path = Path(expanded(named))
        if variable := unset_variable(str(path)):
            what = f"{named}: the environment variable {variable} is not set"
            raise RecipeError(key, what, f"export {variable}=FOLDER")
        if uri_of(path) is None and not is_there(path):
            known = f"set {DATA_VARIABLE} or correct" if DATA_VARIABLE in named else "correct"
            hint = f"{known} the path (it counts from {Path.cwd()})"
            raise RecipeError(key, f"{path} does not exist", hint)
        found.append(local(path))
    return found


def read_yaml(path: Path, what: str = "a recipe file") -> Any:
    """What a YAML file holds.

    Args:
        what: the file that was to be named, for the hint.

    Raises:
        RecipeError: it cannot be read, is no YAML, or has a key twice.
    """
    try:
        values = yaml.load(local(path).read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise RecipeError(str(path), error.strerror or "cannot be read", f"name {what}") from None
    except UnicodeDecodeError:
        raise RecipeError(str(path), "not UTF-8 text", "save it as UTF-8") from None
    except YAML_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        hint = "" if path.suffix in (".yaml", ".yml") else f"name {what}"
        raise RecipeError(where, f"not valid YAML ({getattr(error, 'problem', error)})", hint) from None
    check_uris(values)
    return values


def _set(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals:
        raise RecipeError(f"--set {override}", "has no value", "write --set training.epochs=3")
    try:
        value = yaml.load(text, _Loader)
    except YAML_ERRORS as error:
        what = f"not valid YAML ({getattr(error, 'problem', error)})"
        raise RecipeError(f"--set {override}", what) from None
    _put(values, key.strip(), value, f"--set {override}")


def _put(values: dict[str, Any], key: str, value: Any, where: str) -> None:
    *parents, leaf = key.split(".")
    for parent in parents:
        if values.get(parent) is None:
            values[parent] = {}
        values = values[parent]
        if not isinstance(values, dict):
            hint = f"set it whole: {parent}=[...]" if isinstance(values, list) else ""
            raise RecipeError(where, f"{parent!r} holds no keys", hint)
    values[leaf] = value


def explain(error: ValidationError, recipe: type[BaseModel], where: str) -> RecipeError:
    """The first thing wrong with the values of a settings model; an unknown key with the nearest known."""
    # A misspelt key is often what makes another one missing.
    first = min(error.errors(), key=lambda e: e["type"] not in ("extra_forbidden", "invalid_key"))
    location = [str(part) for part in first["loc"]]
    place = f"{where}: {'.'.join(location)}" if location else where
    if first["type"] == "extra_forbidden":
        near = _elsewhere(location[-1], recipe) or _nearest(location[-1], _keys_at(recipe, location[:-1]))
        return RecipeError(place, "unknown key", f"did you mean {near!r}?" if near else "remove it")
    if first["type"] == "missing":
        return RecipeError(place, "is missing")
    if first["type"] == "model_type":
        # Pydantic's words name our class.
        return RecipeError(place, f"{shown(first['input'])} has no keys", _keys_hint(recipe, location))
    if first["type"] == "tuple_type":
        given = first["input"]
        is_short = isinstance(given, str) and len(given) <= 60 and given.isprintable()
        hint = f"write `[{given if is_short else '...'}]`, or a line `- ...` for each"
        if location == ["types"] and given == "auto":
            hint = "a typer alone takes its types from the corpus: write a line `- name: ...` for each"
        return RecipeError(place, f"{shown(given)} is no list", hint)
    what, given = first["msg"].removeprefix("Value error, "), first["input"]
    if first["type"] != "value_error" and isinstance(given, (str, int, float)):
        if first["type"].endswith(("_parsing", "_from_float")):
            # What follows says how it was tried.
            what = what.partition(",")[0]
        what += f", not {given!r:.60}"
    return RecipeError(place, what)


def _keys_hint(recipe: type[BaseModel], location: Sequence[str]) -> str:
    model = _model_at(recipe, location)
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    others = ", ".join(name for name in model.model_fields if name not in needed)
    if not needed:
        return f"it may have {others}"
    return f"write {' and '.join(f'`{name}: ...`' for name in needed)}, and beside it, if wanted, {others}"


def _keys_at(model: type[BaseModel], location: Sequence[str]) -> list[str]:
    return list(_model_at(model, location).model_fields)


def _model_at(model: type[BaseModel], location: Sequence[str]) -> type[BaseModel]:
    for part in location:
        field = model.model_fields.get(part)
        if field is None:
            continue
        inner = _within(field.annotation)
        model = next((t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)), model)
    return model


def _elsewhere(word: str, model: type[BaseModel]) -> str | None:
    """The one key of this name in the parts of the settings, with the names of these."""
    found = set[str]()
    for name, field in model.model_fields.items():
        for inner in (field.annotation, *get_args(field.annotation)):
            # Those of a list have no key that can be set.
            if isinstance(inner, type) and not get_origin(inner) and issubclass(inner, BaseModel):
                below = word if word in inner.model_fields else _elsewhere(word, inner)
                found |= {f"{name}.{below}"} if below else set()
    return found.pop() if len(found) == 1 else None


def _within(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _within(inner)


def _nearest(word: str, known: Sequence[str] | Mapping[str, Any]) -> str | None:
    # Ray Train's `num_workers` is nearer to `max_workers` than to `workers`, but no slip in either.
    slips = difflib.get_close_matches(word, list(known), n=1, cutoff=0.85)
    within = [name for name in known if word.endswith(f"_{name}")]
    return next(iter([*slips, *within, *difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)]), None)


def flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of plain values that hold no keys, and what they hold."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from flat(value, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, values
