"""`rayner standardize`: mentions of a file to entities of an index, or to proposals for new ones."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from rayner.config.base import AskedPrecision
from rayner.data.mention_rows import MentionRow, read_mention_rows
from rayner.errors import CorpusError, InputError
from rayner.files.uris import uri_of
from rayner.files.working import check_no_folder, write_lines
from rayner.metrics.nil import check_nil_share
from rayner.models.precision_choice import precision_of
from rayner.runtime.linking.loading import load_standardizer
from rayner.runtime.run_folder import comparable
from rayner.tasks.predict import predict
from rayner.tasks.stages import one_stage
from rayner.tasks.standardizer.linking_options import StandardizerOptions
from rayner.tasks.standardizer.predictor import TOKENS_PER_SEARCH, NilChoice, Standardizer
from rayner.tasks.standardizer.propose import LEAST_SIMILARITY, propose

Row = dict[str, Any]


def standardize(
    checkpoint: Path,
    index: Path | None,
    path: Path,
    *,
    top_k: int | None = None,
    operating_point: NilChoice | None = None,
    nil_share: float | None = None,
    proposals: bool = False,
    least_similarity: float = LEAST_SIMILARITY,
    out: Path | None = None,
    precision: AskedPrecision = None,
) -> dict[str, Any]:
    """Answer the mentions of a file, one answer a row, in order.

    A row that cannot be read has an answer too, NIL with the reason.

    Args:
        checkpoint: of a standardizer; or a pipeline file, whose stage of entities says what is not said here.
        index: None only with a pipeline file.
        path: one mention a line, or JSON lines or a table with `mention`.
        nil_share: how many of the mentions have no entity; by default as the recipe says.
        proposals: list candidate new entities, clustered from what was judged NIL, in place of the answers.
        least_similarity: within a proposal.
        out: a file for the rows, also at a URI, as JSON lines; without it they are in the result.
        precision: what the encoder computes in.

    Returns:
        `mentions`, `linked`, `nil`, `unread`: counts; `compute_precision`; `seconds` of the answering; `out`
        or the rows as `answers` or `proposals`.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        InputError: the index does not fit it, an operating point, a share of NIL or proposals without a
            calibration, a share outside [0, 1], a precision that the device lacks, or an `out` that cannot
            be written or is the input.
        CorpusError: the file cannot be read, or has no row.
    """
    if out is not None:
        _check_out(out, path)
    stage = one_stage(checkpoint, "entities")
    if stage is None and index is None:
        raise InputError("--index", "is not given", "name the folder of `rayner index build`")
    given = _not_empty(read_mention_rows(path), path)
    task, model = load_standardizer(stage.checkpoint if stage else checkpoint, precision=precision)
    if nil_share is not None:
        check_nil_share(nil_share)
    of_file = {} if stage is None else dict(stage.options)
    asked = {"index": index, "top_k": top_k, "operating_point": operating_point, "nil_share": nil_share}
    options = StandardizerOptions(**(of_file | {k: v for k, v in asked.items() if v is not None}))
    standardizer = task.predictor(model, options)
    if proposals and standardizer.never_nil:
        what = "clusters what is judged NIL, and without a threshold nothing is"
        hint = "name an --operating-point, of a checkpoint that was trained with mentions.dev"
        raise InputError("--propose", what, hint)
    counts = Counter(mentions=0, linked=0, nil=0, unread=0)
    begin = time.perf_counter()
    if proposals:
        rows = _proposals(standardizer, given, counts, least_similarity)
    else:
        rows = _answers(standardizer, given, counts)
    name = "proposals" if proposals else "answers"
    if out is None:
        result: dict[str, Any] = {name: list(rows)}
    else:
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        result = {"out": uri_of(out) or str(out), name: write_lines(out, lines)}
    seconds = round(time.perf_counter() - begin, 3)
    return {**counts, "compute_precision": precision_of(model), "seconds": seconds, **result}


def _answers(standardizer: Standardizer, given: Iterable[MentionRow], counts: Counter[str]) -> Iterator[Row]:
    waiting: deque[MentionRow] = deque()

    def texts() -> Iterator[str]:
        for row in given:
            waiting.append(row)
            yield row.text or ""

    for answer in predict(standardizer, texts(), TOKENS_PER_SEARCH):
        row = waiting.popleft()
        counts["mentions"] += 1
        counts["unread"] += row.fault is not None
        counts["nil" if answer.entity_id is None else "linked"] += 1
        unread = {} if row.fault is None else {"mention": None, "reason": row.fault}
        yield {"line": row.line, **answer.to_row(), **unread}


def _proposals(
    standardizer: Standardizer, given: Iterable[MentionRow], counts: Counter[str], least_similarity: float
) -> Iterator[Row]:
    readable = []
    for row in given:
        counts["mentions"] += 1
        counts["unread"] += row.fault is not None
        readable.append(row.text or "")
    answers = list(predict(standardizer, readable, TOKENS_PER_SEARCH))
    counts["nil"] = sum(answer.entity_id is None for answer in answers)
    counts["linked"] = len(answers) - counts["nil"]
    found = propose(answers, standardizer.encode, least_similarity)
    yield from (proposal.to_row(f"new-{number}") for number, proposal in enumerate(found, 1))


def _not_empty(rows: Iterator[MentionRow], path: Path) -> Iterator[MentionRow]:
    """The rows; an error before any work where there is none."""
    first = next(rows, None)
    if first is None:
        raise CorpusError(str(path), "no mentions in it", "write one a line")
    return chain([first], rows)


def _check_out(out: Path, path: Path) -> None:
    check_no_folder(out)
    if comparable(out) == comparable(path):
        raise InputError(f"--out {out}", "would overwrite the mentions", "name another file")
