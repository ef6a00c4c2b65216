"""What was measured and under which conditions: the files `docs/results/NAME.json`, one a benchmark.

A benchmark writes its file whole, in place of the one that it left before. `benchmarks.results_page` makes
docs/results.md from all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from rayner.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
NOT_RECORDED = "not recorded"
NAME = "[a-z0-9_]+"
PRECISION = "(float32|bfloat16|float16)"
SECTIONS = (
    "Recognition",
    "Linking",
    "Typing",
    "Context",
    "Pre-training",
    "Settings",
    "Labels from a dictionary",
    "Speed",
    "Annotation",
    "Serving",
    "Quick start",
)
"""Of the page, in its order."""
DIGITS = {"%": 1, "ratio": 2, "s": 1, "ms": 2, "MB": 0, "min": 0, "words/s": 0, "queries/s": 0}
"""What is kept behind the point, by unit; three digits of others."""

Number = int | float
Text = Annotated[str, StringConstraints(min_length=1)]


class Strict(BaseModel):
    """Knows its keys and turns no string into a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Figure(Strict):
    """One measured value, or a series such as the scores after each epoch.

    Args:
        interval: lower and upper end.
        deviation: the standard deviation.
        n: the measurements behind the value: seeds, folds x seeds, rounds.
        headline: shown at the top of the page.
    """

    value: Number | tuple[Number, ...]
    unit: str
    interval: tuple[Number, Number] | None = None
    deviation: Number | None = None
    n: int | None = None
    headline: bool = False


class Hardware(Strict):
    """Where it ran. `load` is the load average of the last minute, the benchmark itself included."""

    cpu: Text
    cores: int | None = None
    threads: int | None = None
    gpu: str | None = None
    load: float | None = None


class Origin(Strict):
    """The code, the day and the machine of a measurement."""

    commit: Text
    date: Annotated[str, StringConstraints(pattern=rf"^(\d{{4}}-\d\d-\d\d|{NOT_RECORDED})$")]
    hardware: Hardware


Row = dict[str, Figure | int | float | str]
"""Measured values, and the labels that tell one row from another."""


class Result(Origin):
    """A file of docs/results.

    Args:
        conditions: the data, and what of the published condition was cut.
        uncertainty: what intervals, deviations and n are of.
    """

    name: Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
    title: Text
    section: Literal[SECTIONS]  # pyright: ignore[reportInvalidTypeForm]
    task: Text
    conditions: Text
    command: Annotated[str, StringConstraints(pattern=r"^python -m benchmarks\.")]
    precision: Annotated[str, StringConstraints(pattern=f"^{PRECISION}( and {PRECISION})*$")]
    seeds: tuple[int, ...]
    uncertainty: str = ""
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    notes: tuple[str, ...] = ()


def read_result(path: Path) -> Result:
    """Read one file.

    Raises:
        InputError: a key that is missing, unknown or of another type, or a name that is not the file's.
    """
    try:
        result = Result.model_validate_json(path.read_text("utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}", first["msg"], "run its command again") from None
    if result.name != path.stem:
        raise InputError(f"{path}: name", f"is {result.name}", f"name it {path.stem}")
    return result


def read_results(folder: Path = RESULTS) -> list[Result]:
    """All files of a folder, in the order of the page: by section, then by title."""
    found = [read_result(path) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda result: (SECTIONS.index(result.section), result.title))


def write_result(result: Result, path: Path) -> None:
    """Write one file, a row a line."""
    content = result.model_dump(mode="json", exclude_defaults=True)
    lines = [
        f' "{key}": '
        + (
            "[\n  " + ",\n  ".join(_json(part) for part in value) + "\n ]"
            if key in ("rows", "notes")
            else _json(value)
        )
        for key, value in sorted(content.items(), key=lambda item: (item[0] in ("rows", "notes"), item[0]))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def add_out(parser: argparse.ArgumentParser, name: str) -> None:
    """The option that says which file a benchmark writes."""
    default = RESULTS / f"{name}.json"
    parser.add_argument("--out", type=_file, default=default, help=f"docs/results/{name}.json if unset")


def _file(text: str) -> Path:
    """Refused before anything is measured, not when it is written."""
    if not re.fullmatch(NAME + r"\.json", Path(text).name):
        raise argparse.ArgumentTypeError(f"{text}: name a file such as index_speed.json (a-z, 0-9, _)")
    return Path(text)


def add_out_folder(parser: argparse.ArgumentParser) -> None:
    """The option of a benchmark that writes several files."""
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder; docs/results if unset")


def record(module: str, out: Path, origin: Origin | None = None, **told: Any) -> None:
    """Write what a benchmark has measured; `told` are the fields of `Result` that it knows."""
    origin = origin or here()
    command = command_line(module, sys.argv[1:])
    told = {"name": out.stem, "command": command, "precision": "float32", "seeds": (), **told}
    write_result(Result(**_parts(origin), **told), out)


def command_line(module: str, arguments: Sequence[str]) -> str:
    """The command as another machine can run it: no path of this one in it."""
    data = os.environ.get("RAYNER_DATA")
    shown = []
    for argument in arguments:
        argument = argument.replace(data, "$RAYNER_DATA") if data else argument
        argument = argument.replace(f"{ROOT}{os.sep}", "")
        # Of a folder of another place, what tells it from others.
        argument = re.sub(r"(?<![\w.$}])/(?:[^/\s,]+/)*([^/\s,]+/[^/\s,]+)", r"\1", argument)
        shown.append(argument if argument.startswith("$RAYNER_DATA/") else shlex.quote(argument))
    return " ".join(("python -m", f"benchmarks.{module}", *shown))


def measured(
    rows: Iterable[Mapping[str, Any]],
    units: Mapping[str, str],
    *,
    n: Callable[[Mapping[str, Any]], int] | None = None,
    headline: str = "",
    where: Callable[[Mapping[str, Any]], bool] = lambda row: True,
) -> tuple[Row, ...]:
    """Rows of a file from those that a benchmark prints.

    What has a unit is a figure, fractions becoming percentages; `KEY_deviation` and `KEY_interval` join it;
    strings and numbers without a unit are labels, a bool is one of yes or no, and all else is left out.

    Args:
        n: how many measurements a row is of.
        headline: the key that the top of the page shows, of rows that meet `where`.
    """
    table = []
    for row in rows:
        made: Row = {}
        joined = {f"{key}_{part}" for key in units for part in ("deviation", "interval")}
        for key, value in row.items():
            # No memory is told where the system counts none.
            if value is None or (isinstance(value, float) and math.isnan(value)):
                continue
            if key in units:
                unit, about = (
                    units[key],
                    {name: row.get(f"{key}_{name}") for name in ("deviation", "interval")},
                )
                made[key] = Figure(
                    value=_rounded(value, unit),
                    unit=unit,
                    n=n(row) if n else None,
                    headline=key == headline and where(row),
                    **{name: _rounded(v, unit) for name, v in about.items() if v is not None},
                )
            elif key not in joined and isinstance(value, str | int | float):
                made[key] = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
        table.append(made)
    return tuple(table)


def _rounded(value: Any, unit: str) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_rounded(part, unit) for part in value)
    digits = DIGITS.get(unit, 3)
    if isinstance(value, int) and unit != "%":
        return value
    value = round(float(value) * (100 if unit == "%" else 1), digits)
    return value if digits else int(value)


def here(device: str = "cpu") -> Origin:
    """The code, the day and the machine of now."""
    torch = sys.modules.get("torch")
    hardware = Hardware(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        threads=torch.get_num_threads() if torch else None,
        gpu=torch.cuda.get_device_name(0) if torch and device.startswith("cuda") else None,
        load=round(os.getloadavg()[0], 1),
    )
    return Origin(commit=_commit(), date=datetime.now(UTC).date().isoformat(), hardware=hardware)


def keep_origin(run: Path) -> None:
    """Note beside a run's folder where it was trained, for whoever reads its scores later."""
    run.with_suffix(".origin.json").write_text(here().model_dump_json(), encoding="utf-8")


def origin_of(runs: Iterable[Path]) -> Origin:
    """The origin of several runs: every commit, the last day and its machine."""
    files = [file for run in runs if (file := run.with_suffix(".origin.json")).exists()]
    found = [Origin.model_validate_json(file.read_text("utf-8")) for file in files]
    if not found:
        return Origin(commit=NOT_RECORDED, date=NOT_RECORDED, hardware=Hardware(cpu=NOT_RECORDED))
    last = max(found, key=lambda origin: origin.date)
    return last.model_copy(update={"commit": ", ".join(sorted({origin.commit for origin in found}))})


def precision_of(runs: Iterable[Path]) -> str:
    """What trainings computed in; those whose results do not say are from before there was a choice."""
    files = (file for run in runs if (file := run / "result.json").exists())
    found = {json.loads(file.read_text("utf-8")).get("compute_precision", "float32") for file in files}
    return " and ".join(sorted(found)) or "float32"


def commits_of(runs: Iterable[Path]) -> str:
    """By the code of which commits runs were made; `not recorded` is among them where one does not say."""
    return ", ".join(sorted({origin_of([run]).commit for run in runs}))


def _parts(origin: Origin) -> dict[str, Any]:
    return {name: getattr(origin, name) for name in Origin.model_fields}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return NOT_RECORDED
    lines = (line.partition(":") for line in info.read_text().split("\n\n")[0].splitlines())
    told = {key.strip(): value.strip() for key, _, value in lines}
    return f"{told.get('model name', NOT_RECORDED)}, family {told.get('cpu family', '?')}"


def _commit() -> str:
    """The commit, with a mark where the code was changed since."""

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return ""
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "platform", "benchmarks", "jobs", "tune_spaces")
    return (git("rev-parse", "--short", "HEAD") or NOT_RECORDED) + ("-changed" if changed else "")
