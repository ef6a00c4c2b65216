"""The pages of docs/reference, from the code: recipes, commands, the HTTP interface.

python -m docs.generate            # writes them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from docs import python_page
from rayner.cli.app import app
from rayner.config import BaseRecipe, CorpusSettings, Settings, TypeSettings, WindowSettings
from rayner.config.documents import ContextSettings
from rayner.serving.application_settings import ApplicationSettings, ServeSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service
from rayner.tasks.registry import OWN

FOLDER = Path(__file__).resolve().parent / "reference"
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "length at least"}
SHARED = {"corpus": CorpusSettings, "windows": WindowSettings, "context": ContextSettings}
"""Parts of several recipes, each told once."""
RECIPES = """\
# Recipes: reference

Made by `python -m docs.generate` from the recipe types in `platform/rayner/config`: do not edit this page.

A recipe is a YAML file that describes one run ([tutorial](../tutorials/your_own_corpus.md),
[examples](../../jobs/recipes)). A dotted key is a key within a part: `training.epochs` is `epochs` below
`training:`. On the command line, `--set training.epochs=3` changes one. An unknown key is refused, and the
nearest known one named. `null` is "none". `papers/000` and so on are the [papers](../papers.md)."""
COMMANDS = """\
# Commands: reference

Made by `python -m docs.generate` from the command line itself: do not edit this page.
`rayner COMMAND --help` says the same. `--json` prints one JSON object as the last line of standard output;
logs go to standard error. The exit status is 0 for success, 2 for an input that you can correct, 130 after
Ctrl-C or SIGTERM (0 of `serve`, which ends so), and 1 for all else."""
HTTP = """\
# The HTTP interface: reference

Made by `python -m docs.generate` from the OpenAPI description of the service, which a running service has at
`/openapi.json`: do not edit this page. How to start and call it: [serving](../serve.md)."""
SERVED = """\
## The file of `rayner serve`

Every key of the file, with its default."""


def recipes() -> str:
    """The page on recipes."""
    parts = [RECIPES, "## Every recipe", table(("key", "values", "default", "meaning"), _rows(BaseRecipe))]
    parts += ["## Parts of several recipes", "### types", *_told(TypeSettings, "types[]")]
    for name, settings in SHARED.items():
        parts += [f"### {name}", *_told(settings, name)]
    for task in OWN:
        known = {*_rows(BaseRecipe), *(r for name, part in SHARED.items() for r in _rows(part, name))}
        rows = [row for row in _rows(task.recipe) if row not in known and row[0] != "`task`"]
        shared = [name for name in ("types", *SHARED) if name in task.recipe.model_fields]
        of = ", ".join(f"[{name}](#{name})" for name in shared)
        parts += [f"## {task.name}", _doc(task.recipe)]
        parts += [f"It has the keys of [every recipe](#every-recipe){f' and of {of}' if of else ''}, and:"]
        parts.append(table(("key", "values", "default", "meaning"), rows))
    return "\n\n".join(parts) + "\n"


def _told(settings: type[Settings], name: str) -> list[str]:
    return [_doc(settings), table(("key", "values", "default", "meaning"), _rows(settings, name))]


def _doc(settings: type[Settings]) -> str:
    return " ".join((settings.__doc__ or "").split())


def _rows(
    settings: type[Settings], prefix: str = "", given: Any = None
) -> Iterator[tuple[str, str, str, str]]:
    """A row for each leaf; `given` are the values of the part that the recipe has by default."""
    for name, field in settings.model_fields.items():
        key = f"{prefix}.{name}" if prefix else name
        default = field.default if given is None else getattr(given, name)
        inner = _settings_of(field)
        if inner is not None and get_origin(field.annotation) in (None, Union, UnionType):
            if NoneType in get_args(field.annotation):
                yield f"`{key}`", "its keys or null", _default(field, default), _cell(field.description or "")
            yield from _rows(inner, key, default if isinstance(default, Settings) else None)
            continue
        if inner is not None and inner is not TypeSettings:
            # A map: its keys are names that the user gives.
            yield from _rows(inner, f"{key}.NAME")
            continue
        yield f"`{key}`", _values(field), _default(field, default), _cell(field.description or "")


def _settings_of(field: FieldInfo) -> type[Settings] | None:
    """The settings that a field holds, one or many of them."""
    found = [t for t in _flat(field.annotation) if isinstance(t, type) and issubclass(t, Settings)]
    return found[0] if found else None


def _flat(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _flat(inner)


def _values(field: FieldInfo) -> str:
    bounds = [f"{BOUNDS[b]} {getattr(m, b)}" for m in field.metadata for b in BOUNDS if hasattr(m, b)]
    return _cell(", ".join([_kind(field.annotation), *bounds]))


def _kind(annotation: Any) -> str:
    """A type in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_kind(a) if a is not NoneType else "null" for a in arguments)
    if hasattr(annotation, "__metadata__"):
        bounds = [
            f"{BOUNDS[b]} {getattr(part, b)}"
            for m in annotation.__metadata__
            for part in getattr(m, "metadata", [m])
            for b in BOUNDS
            if hasattr(part, b)
        ]
        return ", ".join([_kind(annotation.__origin__), *bounds])
    if origin in (tuple, list):
        inner = [a for a in arguments if a is not Ellipsis]
        return f"list of {_kind(inner[0])}" if len(set(map(str, inner))) == 1 else "list"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"map to {_kind(arguments[1])}"
    if annotation is TypeSettings:
        return "[types](#types)"
    return {
        Path: "path",
        bool: "true, false",
        int: "integer",
        float: "number",
        str: "text",
        NoneType: "null",
    }.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo, default: Any) -> str:
    if field.is_required() and default is PydanticUndefined:
        return "required"
    value = field.get_default(call_default_factory=True) if default is PydanticUndefined else default
    if value in ((), {}, ""):
        return "empty"
    if isinstance(value, tuple):
        value = list(value)
    shown = {None: "null", True: "true", False: "false"}
    return f"`{shown[value] if value is None or isinstance(value, bool) else value}`"


def commands() -> str:
    """The page on commands."""
    parts = [COMMANDS]
    for path, command in _leaves(typer.main.get_command(app)):
        own = [param for param in command.params if param.name != "help"]
        arguments = [_spelled(param) for param in own if param.param_type_name == "argument"]
        parts += [f"## {path}", f"    rayner {' '.join([path, *arguments, '[OPTIONS]'])}", command.help or ""]
        rows = [(f"`{_spelled(param)}`", _taken(param), _cell(param.help or "")) for param in own]
        parts.append(table(("argument or option", "values", "meaning"), rows))
    return "\n\n".join(parts) + "\n"


def _leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, below in inner.items():
        yield from _leaves(below, f"{path} {name}".strip())


def _spelled(param: Any) -> str:
    """As it is written: `--set`, `RECIPE`, `[PATH...]`."""
    if param.param_type_name != "argument":
        return ", ".join([*param.opts, *param.secondary_opts])
    name = (param.metavar or param.name.upper()) + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _taken(param: Any) -> str:
    """What an option takes, and what it is if it is not given."""
    if param.param_type_name == "argument":
        return ""
    annotation = param.type_descriptor.annotation
    if annotation is bool:
        return "flag"
    kind = (
        f"`{param.metavar}`" if param.metavar and get_origin(annotation) is not Literal else _kind(annotation)
    )
    default = (
        "" if param.default in (None, (), []) or callable(param.default) else f"; `{param.default}` if unset"
    )
    return _cell(kind + _bounds(param) + default + (", required" if param.required else ""))


def _bounds(param: Any) -> str:
    """What a number must lie between, where that is more than not to be negative."""
    least, most = getattr(param, "min", None), getattr(param, "max", None)
    told = [f"at least {least:g}" if least else "", "" if most is None else f"at most {most:g}"]
    return "".join(f", {one}" for one in told if one)


def http() -> str:
    """The page on the HTTP interface."""
    described = create_app(Service(ApplicationSettings(), device="cpu"), ("a key",)).openapi()
    parts = [HTTP]
    for path, methods in described["paths"].items():
        for method, told in methods.items():
            parts += [f"## {method.upper()} {path}", told["description"]]
            if body := told.get("requestBody"):
                parts.append(f"Takes {_schema(_json_of(body))}.")
            rows = [
                (
                    code,
                    _cell(_schema(_json_of(reply)) if "content" in reply else ""),
                    _cell(reply["description"]),
                )
                for code, reply in told["responses"].items()
            ]
            parts.append(table(("status", "body", "when"), rows))
    parts += ["## Bodies"]
    for name, schema in sorted(described["components"]["schemas"].items()):
        required = schema.get("required", ())
        parts += [f"### {name}", " ".join(schema.get("description", "").split())]
        rows = [
            (
                f"`{key}`",
                _cell(_schema(of)),
                "yes" if key in required else "no",
                _cell(of.get("description", "")),
            )
            for key, of in schema.get("properties", {}).items()
        ]
        parts.append(table(("field", "type", "always there", "meaning"), rows))
    parts += [SERVED, table(("key", "values", "default", "meaning"), _rows(ServeSettings))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _json_of(told: Mapping[str, Any]) -> Mapping[str, Any]:
    return told["content"]["application/json"]["schema"]


def _schema(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_schema, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_schema(schema['items'])}" if "items" in schema else "list"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map to {_schema(schema['additionalProperties'])}"
    kind = schema.get("type", "any")
    return "text" if kind == "string" else kind


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; nothing where there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *lines]) if lines else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


PAGES: Mapping[str, Callable[[], str]] = {
    "recipes": recipes,
    "commands": commands,
    "http": http,
    "python": python_page.page,
}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, made in PAGES.items():
        (FOLDER / f"{name}.md").write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
