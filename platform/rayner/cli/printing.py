"""What a command prints: its result as a table or as JSON, and its errors as one line and an exit status."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import json
import logging
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.text import Text

from rayner.errors import RaynerError
from rayner.files.uris import uri_of, with_uris
from rayner.files.whole import plain

INTERRUPTED = 130
"""The status that shells give to what Ctrl-C ended, and typer too."""

_SHOWN_OTHERWISE = {"findings", "metrics", "per_type", "precision", "recall", "f1"}
_USER_ERRORS = frozenset(
    {
        *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG),
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    }
)
"""What is wrong with a path or a disk, not with rayner."""


_CONTROLS = [*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _CONTROLS}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_IN_LINES = {code: shown for code, shown in _ESCAPES.items() if chr(code) not in "\n\t"}
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 32}


def visible(text: str, one_line: bool = False) -> str:
    """The text with its control characters written out, which a terminal would obey: escape sequences, and
    those that reverse the order in which the rest of a line is shown.

    Args:
        one_line: write line breaks and tabs out, too.
    """
    return text.translate(_ESCAPES if one_line else _IN_LINES)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage with one decimal; a dash where there is none."""
    return "–" if fraction is None else f"{100 * fraction:.1f}"


def percents(interval: Sequence[float]) -> str:
    """The ends of an interval of fractions."""
    low, high = interval
    return f"{percent(low)} to {percent(high)}"


def with_percents(facts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The facts, of which those of these names are rates by what they are of, as percentages."""
    shown = {name: {of: f"{percent(rate)} %" for of, rate in facts[name].items()} for name in names}
    return {**facts, **shown}


class _Visible(logging.Formatter):
    """Lines of a log, which name types and documents of whatever was read."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


@contextlib.contextmanager
def logs_on_stderr(keep_ray: bool = False) -> Iterator[None]:
    """Send the prints and logs of the work of a command to standard error.

    Args:
        keep_ray: a cluster that the command has joined or started is needed still. Else it is left here:
            what its workers have printed comes until then.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Visible("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("rayner").setLevel(logging.INFO)
    # It prints its lines itself.
    logging.getLogger("huggingface_hub").propagate = False
    had_ray = _has_ray()
    with contextlib.redirect_stdout(sys.stderr):
        yield
        if _has_ray() and not (had_ray or keep_ray):
            from rayner.runtime.cluster import leave_ray

            leave_ray()


def _has_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Keep what is imported and loaded out of garbage collection, then and later.

    Looking for garbage among it is a sixth of the time, and takes as long again when the process ends.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def print_result(result: Any, as_json: bool, show: Callable[[Any], None]) -> None:
    """Print the result of a command: one JSON object, or what `show` makes of it."""
    if as_json:
        print(json_line(result), flush=True)
    else:
        show(result)


def json_line(value: Any, stream: TextIO | None = None) -> str:
    """The value as JSON on one line, without raw control characters.

    Args:
        stream: where it is printed, by default standard output; what is not UTF-8 is given ASCII alone.
    """
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    is_ascii = encoding.lower().replace("_", "-") not in ("utf-8", "utf8")
    return json.dumps(plain(value), ensure_ascii=is_ascii, default=str).translate(_JSON_ESCAPES)


def print_summary(facts: Mapping[str, Any], next_commands: Sequence[str] = ()) -> None:
    """One line a fact, without those that tables show, then the commands that come next."""
    console = Console()
    facts = {n: fact for n, fact in facts.items() if n not in _SHOWN_OTHERWISE and fact != {}}
    width = max([len("next"), *map(len, facts)]) + 2
    for name, value in facts.items():
        parts = [f"{k} {v}" for k, v in value.items()] if isinstance(value, Mapping) else value
        text = ", ".join(map(str, parts)) if isinstance(parts, list) else str(value)
        told = Text(visible(text, True))
        console.print(Text(f"{name}:".ljust(width), style="bold") + told, soft_wrap=True)
    for i, command in enumerate(next_commands):
        console.print(
            Text(("" if i else "next:").ljust(width), style="bold") + Text(with_uris(command)), soft_wrap=True
        )


def command(*words: object) -> str:
    """A command to run next, as a shell takes it: folders may have spaces in their names."""
    return shlex.join(map(str, words))


def report_command(folder: Path) -> str:
    """The command for the page of a run, which is not added to one at a URI."""
    page = () if uri_of(folder) is None else ("--out", "report.html")
    return command("rayner", "report", folder, *page)


@contextlib.contextmanager
def errors_as_status() -> Iterator[None]:
    """Exit with one line for what the user can correct; anything else keeps its traceback.

    The status is 2 for an input or a usage that the user can correct, 1 for another error of rayner. From
    then on Ray, which ends with the process, is let end.
    """
    try:
        yield
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # typer has no public name for it
            print(error.format_message(), file=sys.stderr)
            sys.exit(error.exit_code)
        fail(_usage(error), error.exit_code)
    except RaynerError as error:
        # Ray wraps what a task raises; its own text holds the worker's traceback.
        fail(str(getattr(error, "cause", None) or error), error.exit_status)
    except OSError as error:
        if error.errno not in _USER_ERRORS:
            raise
        what = error.strerror or str(error)
        fail(f"{error.filename or 'the output'}: {what}; name a place that can be written to", 2)
    except typer.Abort:
        fail("interrupted", 1)
    finally:
        # The last that is registered is the first that is called.
        atexit.unregister(_let_end)
        atexit.register(_let_end)


def _let_end() -> None:
    """Ray takes some seconds to end, in which a second Ctrl-C would break off its C++."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def fail(message: str, status: int) -> NoReturn:
    """Print one line on standard error and exit."""
    print(f"error: {visible(with_uris(' '.join(message.split())))}", file=sys.stderr)
    sys.exit(status)


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the arguments, and the nearest known name or where all of them are listed."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "rayner"
    if known := getattr(error, "possibilities", None):
        # Compared again without the dashes, which make any two options alike.
        wrong = error.option_name.lstrip("-")  # pyright: ignore[reportAttributeAccessIssue]
        near = [repr(name) for name in known if get_close_matches(wrong, [name.lstrip("-")])]
        hint = f". Did you mean {' or '.join(near)}?" if near else f"; see {command} --help"
        return f"{command}: {error.message}{hint}"
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    return f"{command}: {message}" + (f"; see {command} --help" if context and message[-1] != "?" else "")
