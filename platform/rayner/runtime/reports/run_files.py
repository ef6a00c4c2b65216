"""What a training run or an evaluation leaves behind, read for its report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import BaseModel, Field, Strict, ValidationError

from rayner.config.recipe_files import YAML_ERRORS
from rayner.data.schema import Document, documents_from_table
from rayner.runtime.evaluation.evaluation_folder import ABOUT, EVALUATION, METRICS, PIPELINE

_Number = Annotated[float, Strict()]
_Interval = tuple[_Number, _Number] | None


class _OfType(BaseModel, extra="allow"):
    """Scores of a type; the others are of its task."""

    __pydantic_extra__: dict[str, _Number] = Field(init=False)
    support: _Number
    f1: _Number


class _Intervals(BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, _Interval | dict[str, Any]] = Field(init=False)
    confidence: _Number | None = None
    resamples: int | None = None
    per_type: dict[str, dict[str, _Interval] | None] | None = None


class _Metrics(BaseModel):
    """What reports of all tasks take for granted of a file that anybody may have written."""

    per_type: dict[str, _OfType] | None = None
    intervals: _Intervals | None = None


class Absent(Exception):
    """A part of a run that cannot be shown; the message says why."""


def title_of(run: Path) -> str:
    """What a page about a folder is called: by the folder above, too, as many runs are called `run`."""
    return str(Path(*run.resolve().parts[-2:]))


def is_evaluation(run: Path) -> bool:
    """Whether the folder is one that `rayner evaluate --out` wrote."""
    return (run / ABOUT).exists()


def is_pipeline(run: Path) -> bool:
    """Whether it is an evaluation of a pipeline file."""
    return is_evaluation(run) and (run / PIPELINE).exists()


def metrics_file(run: Path) -> str:
    """The file of the metrics, counted from the folder."""
    return METRICS if is_evaluation(run) else f"best/{METRICS}"


def read_text(run: Path, name: str, errors: str = "strict") -> str:
    """The text of a file of the run.

    Args:
        errors: what becomes of bytes that are not UTF-8.

    Raises:
        Absent: there is no such file, or it cannot be read.
    """
    try:
        return (run / name).read_text(encoding="utf-8", errors=errors)
    except FileNotFoundError:
        raise Absent(f"{name} is not there") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Absent(f"{name} cannot be read: {error}") from None


def read_metrics(run: Path) -> dict[str, Any]:
    """The metrics of the best checkpoint, or of the evaluation.

    Raises:
        Absent: as `read_text`, or it is no JSON object of scores.
    """
    name = metrics_file(run)
    try:
        metrics = json.loads(read_text(run, name))
    except json.JSONDecodeError as error:
        raise Absent(f"{name} is not JSON: {error}") from None
    if not isinstance(metrics, dict):
        raise Absent(f"{name} is not a JSON object")
    try:
        _Metrics.model_validate(metrics)
    except ValidationError as error:
        first = error.errors()[0]
        raise Absent(f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return metrics


def read_recipe(run: Path, name: str = "recipe.yaml") -> dict[str, Any]:
    """The recipe as plain values, so that the report also shows a recipe that is no longer accepted.

    Raises:
        Absent: as `read_text`, or it is not a YAML mapping.
    """
    try:
        recipe = yaml.safe_load(read_text(run, name))
    except YAML_ERRORS as error:
        raise Absent(f"{name} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(recipe, dict):
        raise Absent(f"{name} is not a mapping of keys to values")
    return recipe


def read_log(run: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Logged steps and evaluations in order of steps, and how many lines could not be read.

    A resumed run logs the steps since its last checkpoint again: the later row of a step counts. A line that
    was cut when the run was killed is one that cannot be read.

    Raises:
        Absent: as `read_text`, or no line can be read.
    """
    steps: dict[int, dict[str, Any]] = {}
    evaluations: dict[int, dict[str, Any]] = {}
    unread = 0
    for line in read_text(run, "log.jsonl", errors="replace").splitlines():
        row = _logged(line)
        if row is not None:
            (evaluations if "metrics" in row else steps)[row["step"]] = row
        else:
            unread += bool(line.strip())
    if not steps and not evaluations:
        raise Absent("log.jsonl cannot be read: no line is a record" if unread else "log.jsonl holds no step")
    return [steps[step] for step in sorted(steps)], [evaluations[s] for s in sorted(evaluations)], unread


def _logged(line: str) -> dict[str, Any] | None:
    """The record of a line; None where it is none."""
    try:
        row = json.loads(line)
        parts = [row.get(name) or {} for name in ("metrics", "parts")]
        is_record = type(row["step"]) is int and all(isinstance(part, dict) for part in parts)
        return row if is_record and row.get("metrics", {}) is not None else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_table(run: Path, name: str, columns: Sequence[str]) -> pa.Table:
    """A Parquet file of the evaluation, with at least these columns and one row.

    Raises:
        Absent: there is no such file, it is not Parquet, a column is missing or it has no row.
    """
    path = f"{EVALUATION}/{name}" if is_evaluation(run) else f"best/{EVALUATION}/{name}"
    if not (run / path).is_file():
        raise Absent(f"{path} is not there")
    try:
        table = pq.read_table(run / path)
    except (OSError, pa.ArrowException) as error:
        raise Absent(f"{path} cannot be read: {error}") from None
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise Absent(f"{path} lacks the column {missing[0]}")
    if not table.num_rows:
        raise Absent(f"{path} has no row")
    return table


def read_documents(run: Path, name: str) -> list[Document]:
    """The documents of a Parquet file of the evaluation.

    Raises:
        Absent: as `read_table`.
    """
    return list(documents_from_table(read_table(run, name, ("document_id", "text", "mentions"))))
