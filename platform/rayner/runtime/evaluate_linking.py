"""Scores of a standardizer on mentions whose entities are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayner.data.mention_strings import read_mention_strings
from rayner.metrics.linking import coverage_points, judge, roc_points
from rayner.metrics.linking_intervals import linking_intervals
from rayner.tasks.linking import load_standardizer
from rayner.tasks.standardize import NilChoice

TOP_K = 10
"""Candidates a mention: what `mrr` looks at."""


def evaluate_linking(
    checkpoint: Path,
    paths: Path | list[Path],
    index: Path,
    *,
    format: str = "auto",
    types: tuple[str, ...] = (),
    operating_point: NilChoice | None = None,
    device: str | None = None,
    intervals: bool = True,
) -> dict[str, Any]:
    """Score a standardizer and an index.

    Args:
        paths: JSON lines `{"mention", "entity_id"}` (null for NIL), or any format of `read_mention_strings`.
        types: of a corpus, only mentions of these types.
        operating_point: where NIL begins; by default `balanced` where the checkpoint has a calibration.

    Returns:
        The metrics of `score_linking`, `seen` and `unseen` strings (those in the index or not) apart;
        `errors`: `counts` by category and `examples`; `roc` and `coverage`: points of the curves;
        `intervals`; `rejected`: rows that could not be read.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        InputError: the index does not fit it, or an operating point without a calibration.
        CorpusError: there is no mention in the files.
    """
    reading = read_mention_strings(paths, format, types)
    loaded = load_standardizer(checkpoint, index, TOP_K, operating_point, device)
    answers = loaded.predict(reading.mentions)
    judged = judge(reading.mentions, answers)
    return {
        **loaded.predictor.evaluate(answers, reading.mentions),
        "rejected": len(reading.rejects),
        **({"intervals": linking_intervals(reading.mentions, answers)} if intervals else {}),
        "roc": roc_points(judged, 50),
        "coverage": coverage_points(judged, 50),
    }
