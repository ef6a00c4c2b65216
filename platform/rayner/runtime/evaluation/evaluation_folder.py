"""The folder of an evaluation: metrics, gold items and answers, which `rayner report` reads.

metrics.json           what `rayner evaluate --json` prints
evaluation.yaml        the checkpoint or pipeline file, and the corpora
recipe.yaml            of a checkpoint; of a pipeline, pipeline.yaml
evaluation/            gold and answers as Parquet; of a pipeline also outcomes.parquet, a row a mention
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from rayner.data.mention_strings import name_of
from rayner.data.schema import Document
from rayner.data.writers.parquet import parquet_file
from rayner.errors import InputError
from rayner.files.fetching import local, names_in
from rayner.files.locks import LOCK
from rayner.files.uris import uri_of
from rayner.files.whole import is_partial, whole_file, write_bytes, write_json
from rayner.metrics.outcomes import Outcome
from rayner.runtime.run_folder import REPORT, check_out
from rayner.tasks.stages import PipelineSettings

METRICS, EVALUATION, ABOUT, OUTCOMES = "metrics.json", "evaluation", "evaluation.yaml", "outcomes"
PIPELINE, RECIPE = "pipeline.yaml", "recipe.yaml"
_SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("type", pa.string())])
_OUTCOMES = pa.schema(
    [
        ("document_id", pa.string()),
        ("outcome", pa.string()),
        ("gold", _SPAN),
        ("predicted", _SPAN),
        ("entity_ids", pa.list_(pa.string())),
        ("answer", pa.string()),
        ("rank", pa.int32()),
        ("entity_name", pa.string()),
        ("answer_name", pa.string()),
    ]
)


Write = Callable[[Document], None]


def check_folder(out: Path) -> None:
    """Refuse a folder, or that of a URI, that is about something else.

    An evaluation that did not end is none to refuse: it wrote into `evaluation/` first, and `evaluation.yaml`
    last.

    Raises:
        InputError: it is a file, or holds something other than an evaluation.
    """
    if uri_of(out) is None:
        check_out(out)
    found = names_in(out)
    names = {name for name in found if not is_partial(name) and name != LOCK}
    unfinished = {EVALUATION, LOCK} <= {*found} and names <= {EVALUATION, METRICS, PIPELINE, RECIPE, REPORT}
    if names and not (ABOUT in names and _is_ours(out)) and not unfinished:
        raise InputError(
            f"--out {uri_of(out) or out}", "holds something other than an evaluation", "name a new folder"
        )


def _is_ours(out: Path) -> bool:
    if uri_of(out) is not None:
        return True
    try:
        about = yaml.safe_load((out / ABOUT).read_text("utf-8"))
    except (ValueError, yaml.YAMLError):
        return False
    return isinstance(about, dict) and {"checkpoint", "corpora"} <= about.keys()


def forget_evaluation(out: Path) -> None:
    """Remove what says what an evaluation found: its answers are about to be written over."""
    for name in (ABOUT, METRICS, REPORT):
        (out / name).unlink(missing_ok=True)


@contextmanager
def documents_file(out: Path | None, name: str) -> Iterator[Write]:
    """What writes documents of the evaluation one after the other; nothing without a folder."""
    if out is None:
        yield lambda document: None
        return
    with parquet_file(out / EVALUATION / f"{name}.parquet") as write:
        yield write


def write_tables(out: Path, tables: Mapping[str, pa.Table], streamed: bool) -> None:
    """Gold items and answers, or what is told beside them; of an evaluation before, nothing is left.

    Args:
        streamed: whether `documents_file` wrote gold and answers.
    """
    for name, table in tables.items():
        with whole_file(out / EVALUATION / f"{name}.parquet") as path:
            pq.write_table(table, path)
    written = {*tables, *(("gold", "predictions") if streamed else ())}
    for path in (out / EVALUATION).glob("*.parquet"):
        if path.stem not in written:
            path.unlink()


def outcomes_table(rows: Sequence[Sequence[Outcome]], names: Mapping[str, str]) -> pa.Table:
    """A row a gold mention or spurious prediction; `names` are those of entities by id."""
    values = []
    for one in (one for of_document in rows for one in of_document):
        ids = sorted(one.truth.ids) if one.truth else []
        values.append(
            {
                "document_id": one.document_id,
                "outcome": one.outcome,
                "gold": _span(one.gold),
                "predicted": _span(one.predicted),
                "entity_ids": ids,
                "answer": one.answer,
                "rank": one.rank,
                "entity_name": next((names[id_] for id_ in ids if id_ in names), None),
                "answer_name": name_of(one.answer or "", names) or None,
            }
        )
    return pa.Table.from_pylist(values, _OUTCOMES)


def write_about(
    out: Path, named: Path, settings: PipelineSettings, corpora: Sequence[Path], metrics: Mapping[str, Any]
) -> None:
    """The metrics and what was evaluated, once all else is written."""
    name, other = (PIPELINE, RECIPE) if settings.is_file else (RECIPE, PIPELINE)
    source = named if settings.is_file else settings.stages[0].checkpoint / RECIPE
    shutil.copyfile(local(source), out / name)
    (out / other).unlink(missing_ok=True)
    write_json(out / METRICS, metrics)
    about = {"checkpoint": str(named), "corpora": list(map(str, corpora))}
    write_bytes(out / ABOUT, yaml.safe_dump(about, sort_keys=False, allow_unicode=True).encode())


def _span(key: tuple[int, int, str] | None) -> dict[str, Any] | None:
    return None if key is None else dict(zip(("start", "end", "type"), key, strict=True))
