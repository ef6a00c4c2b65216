"""What `rayner corpus rank` does: documents in the order in which annotating them pays most."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayner.config import BaseRecipe
from rayner.config.base import Precision
from rayner.data.readers import Reject
from rayner.data.readers.detect import REJECTS
from rayner.errors import CheckpointError, CorpusError
from rayner.files.uris import uri_of
from rayner.files.whole import whole_file, write_json_lines
from rayner.files.working import worked_on
from rayner.runtime.actors import needs_of_worker
from rayner.runtime.answers import answers_here, answers_of_actors
from rayner.runtime.corpora.distinct import Distinct
from rayner.runtime.run_folder import check_apart, check_writable
from rayner.tasks.checkpoint import load_checkpoint, read_recipe, version_of
from rayner.tasks.registry import task_of, tasks
from rayner.tasks.stages import checkpoint_in, suffix
from rayner.tasks.uncertainty import Uncertainty, UncertaintyPredictor

RANKING = "ranking"
_WRITTEN = (f"{RANKING}.jsonl", f"{RANKING}.parquet", REJECTS)
FIRST = 10
"""Documents that the summary shows."""


def rank(
    paths: Sequence[Path],
    checkpoint: Path,
    out: Path | None = None,
    format: str = "auto",
    workers: int = 0,
    precision: Precision | None = None,
) -> dict[str, Any]:
    """Documents by the mean uncertainty of a checkpoint about their words, the most uncertain first.

    Their own mentions are not looked at. Documents of equal score keep the order in which they were read;
    those without a word come last.
    The uncertainty of a word is, by the checkpoint's task: see `uncertainty` of `TaggerTask`,
    `RecognizerTask` and `GaussianTask`; why the mean, `UncertaintyPredictor`.

    Args:
        out: a folder for `ranking.parquet` and `ranking.jsonl` (`document_id, rank, score, words`; ranks
            from 1) and `rejects.jsonl`; None writes nothing.
        workers: Ray actors that answer, each with what the recipe's `scaling` asks for; 0 for this process.
        precision: what the encoder computes in; None as the device says.

    Returns:
        `documents, words, duplicates` (the same document again), `rejected, first` (the first ten),
        `model_version, seconds`.

    Raises:
        CheckpointError: it does not say how uncertain it is, or gives no numbers.
        CorpusError: no document can be read, or `out` holds an input, lies in one, or has rejects of another
            command.
        InputError: `out` is a file or cannot be written, which is seen before any work.
    """
    if out is None:
        return _rank(paths, checkpoint, None, format, workers, precision)
    check_apart(paths, out)
    if uri_of(out) is None:
        check_writable(out)
    # The place is opened before the work, which would be lost where it cannot be.
    with worked_on(out, "writes this ranking", written=_WRITTEN) as (folder, _):
        _guard(folder)
        return _rank(paths, checkpoint, folder, format, workers, precision)


def _rank(
    paths: Sequence[Path],
    checkpoint: Path,
    out: Path | None,
    format: str,
    workers: int,
    precision: Precision | None,
) -> dict[str, Any]:
    started = time.monotonic()
    checkpoint = checkpoint_in(checkpoint, "mentions", contexts=False)
    recipe = _check_checkpoint(checkpoint)
    corpus = Distinct(paths, RANKING, format)
    load = partial(_predictor, checkpoint, precision)
    if workers:
        answers = answers_of_actors(load, corpus, workers, needs_of_worker(recipe.scaling), [checkpoint])
    else:
        answers = answers_here(load(), corpus)
    found: list[Uncertainty] = list(answers)
    ids = corpus.ids
    if not found:
        first = corpus.rejects[0] if corpus.rejects else Reject(str(paths[0]), "no documents in it", "")
        raise CorpusError(first.where, first.what, first.hint or "name a corpus or texts")
    scores = np.array([one.score for one in found])
    if not np.isfinite(scores).all():
        what = f"its uncertainty about {ids[int(np.isfinite(scores).argmin())]!r} is no number"
        raise CheckpointError(str(checkpoint), what, "train it again, with a lower learning rate")
    # Last what has no word to annotate: its 0 would come before narrow Gaussians, whose entropy is negative.
    order = np.lexsort((-scores, np.array([not one.words for one in found])))
    rows = [
        {"document_id": ids[i], "rank": place, "score": found[i].score, "words": found[i].words}
        for place, i in enumerate(order.tolist(), 1)
    ]
    if out is not None:
        _write(rows, corpus.rejects, out)
    return {
        "documents": len(rows),
        "words": sum(one.words for one in found),
        "duplicates": corpus.duplicates,
        "rejected": len(corpus.rejects),
        "first": rows[:FIRST],
        "model_version": version_of(checkpoint) + suffix(precision),
        "seconds": round(time.monotonic() - started, 3),
    }


def _check_checkpoint(checkpoint: Path) -> BaseRecipe:
    """The recipe of a checkpoint that knows uncertainty."""
    recipe = read_recipe(checkpoint)
    if not task_of(recipe).knows_uncertainty:
        what = f"is of the task {recipe.task}, which does not say how uncertain it is about a document"
        able = ", ".join(name for name, task in tasks().items() if task.knows_uncertainty)
        raise CheckpointError(str(checkpoint), what, f"name the checkpoint of a task that does: {able}")
    return recipe


def _predictor(checkpoint: Path, precision: Precision | None) -> UncertaintyPredictor:
    loaded = load_checkpoint(checkpoint, precision=precision)
    task: Any = loaded.task
    return UncertaintyPredictor(task, loaded.model)


def _guard(out: Path) -> None:
    """Refuse an output whose rejects are those of a conversion."""
    if (out / REJECTS).exists() and not (out / f"{RANKING}.jsonl").exists():
        raise CorpusError(f"--out {out}", "holds files that are not from here", "name another folder")


def _write(rows: Sequence[dict[str, Any]], rejects: Sequence[Reject], out: Path) -> None:
    schema = pa.schema(
        [
            ("document_id", pa.string()),
            ("rank", pa.int64()),
            ("score", pa.float64()),
            ("words", pa.int64()),
        ]
    )
    write_json_lines(out / f"{RANKING}.jsonl", rows)
    write_json_lines(out / REJECTS, (reject.to_row() for reject in rejects))
    with whole_file(out / f"{RANKING}.parquet") as path:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
