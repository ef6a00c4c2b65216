"""JSON that anyone may have written: what is none is said by its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rayner.errors import InputError

_DATA = re.compile(r'"data"\s*:\s*\{')

Reject = Callable[[str, str, str], object]
"""Takes where something is wrong, what, and what to do about it."""
ONE_A_LINE = "write one JSON object a line"
OF_AN_ARRAY = f"{ONE_A_LINE}, as `jq -c '.[]'` does with an array"


def hint_for(line: str, otherwise: str = ONE_A_LINE) -> str:
    """What to do about a line that is no JSON object: many files hold one array of all objects."""
    return OF_AN_ARRAY if line.lstrip().startswith("[") else otherwise


def is_array(lines: Iterable[str]) -> bool:
    """Whether a file that begins with these lines holds one array of objects: read by lines, all but the last
    would be lost where each object has one."""
    return "".join("".join(lines).split()).startswith("[{")


def json_values(
    lines: Iterable[tuple[int, str]], path: str | Path, reject: Reject
) -> Iterator[tuple[int, str, Any]]:
    """The number, the place and the value of each line that holds something; others are rejected.

    Args:
        lines: with their numbers.
    """
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            reject(where, f"not JSON ({error})", hint_for(line))
        else:
            yield number, where, value


def json_objects(
    lines: Iterable[tuple[int, str]],
    path: str | Path,
    reject: Reject,
    hint: str = ONE_A_LINE,
) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """As `json_values`, of objects; another value is rejected."""
    for number, where, value in json_values(lines, path, reject):
        if isinstance(value, dict):
            yield number, where, value
        else:
            reject(where, "not a JSON object", OF_AN_ARRAY if isinstance(value, list) else hint)


def whole_json(text: str, path: str | Path, error: type[InputError]) -> Any:
    """The value of a file that is one.

    Raises:
        InputError: of the given type; the text is no JSON, or cannot be read as such.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as wrong:
        raise error(f"{path}:{wrong.lineno}", f"not JSON ({wrong.msg})", "correct it") from None
    except ValueError as wrong:
        raise error(str(path), f"not JSON that can be read ({wrong})", "correct it") from None
    except RecursionError:
        raise error(str(path), "JSON nested too deeply", "correct it") from None


def has_data(start: str) -> bool:
    """Whether `rows_under_data` may be in a text that begins so; "data" may be a name, too."""
    return start.lstrip().startswith("{") and _DATA.search(start) is not None


def rows_under_data(text: str, path: Path, error: type[InputError]) -> dict[str, Any]:
    """The rows of `{"data": {"0": {...}}}`, the form of papers/002, by their keys.

    Raises:
        InputError: of the given type; the text is none of that.
    """
    data = whole_json(text, path, error)
    rows = data.get("data") if isinstance(data, dict) else None
    if not isinstance(rows, dict):
        raise error(str(path), 'no object "data"', 'write {"data": {"0": {...}}}')
    return rows
