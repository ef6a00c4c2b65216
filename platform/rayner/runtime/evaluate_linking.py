"""Scores of a standardizer on mentions whose entities are known."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rayner.config import StandardizerRecipe
from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import MentionString
from rayner.metrics.linking import coverage_points, judge, roc_points
from rayner.metrics.linking_intervals import linking_intervals
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.linking import LoadedStandardizer, standardizer_of
from rayner.tasks.standardize import NilChoice, Standardizer

log = logging.getLogger(__name__)

TOP_K = 10
"""Candidates a mention: what `mrr` looks at."""


def evaluate_linking(
    checkpoint: Path,
    paths: Path | list[Path],
    index: Path,
    *,
    format: str = "auto",
    types: tuple[str, ...] | None = None,
    operating_point: NilChoice | None = None,
    device: str | None = None,
    intervals: bool = True,
) -> dict[str, Any]:
    """Score a standardizer and an index.

    Ids of mentions are understood as in training: other ids of an entity are its own, and a prefix may be
    missing. A mention of an entity that the index lacks counts as one whose entity is not found.

    Args:
        paths: JSON lines `{"mention", "entity_id"}` (null for NIL), or any format of `read_mention_strings`.
        types: of a corpus, only mentions of these types; those of the checkpoint's recipe by default, all if
            empty.
        operating_point: where NIL begins; by default `balanced` where the checkpoint has a calibration.

    Returns:
        The metrics of `score_linking`, `seen` and `unseen` strings (those in the index or not) apart;
        `errors`: `counts` by category and `examples`; `roc` and `coverage`: points of the curves;
        `intervals`; `rejected`: rows that could not be read; `unknown`: mentions whose ids the index lacks.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        InputError: the index does not fit it, or an operating point without a calibration.
        CorpusError: there is no mention in the files.
    """
    loaded = load_checkpoint(Path(checkpoint), device)
    standardizer = standardizer_of(loaded, Path(checkpoint), Path(index), TOP_K, operating_point)
    assert isinstance(loaded.recipe, StandardizerRecipe)
    types = loaded.recipe.mentions.types if types is None else types
    reading = read_mention_strings(paths, format, types)
    if reading.ignored:
        log.info("left out: %s", ", ".join(f"{what} {count}" for what, count in reading.ignored.items()))
    gold, unknown = _known(reading.mentions, standardizer)
    answers = LoadedStandardizer(standardizer).predict(gold)
    judged = judge(gold, answers)
    return {
        **standardizer.evaluate(answers, gold),
        "rejected": len(reading.rejects),
        "unknown": unknown,
        **({"intervals": linking_intervals(gold, answers)} if intervals else {}),
        "roc": roc_points(judged, 50),
        "coverage": coverage_points(judged, 50),
    }


def _known(mentions: Sequence[MentionString], standardizer: Standardizer) -> tuple[list[MentionString], int]:
    """The mentions with the ids of the index, and how many have ids of which it lacks all."""
    found, unknown = [], []
    for mention in (m.parted_for(standardizer.entity_of) for m in mentions):
        ids = [standardizer.entity_of(id_) or id_ for id_ in mention.entity_ids]
        found.append(replace(mention, entity_ids=tuple(dict.fromkeys(ids))))
        if ids and not any(map(standardizer.entity_of, ids)):
            unknown.append(found[-1])
    if unknown:
        what = "%d of %d mentions have ids that the index lacks, and count as not found: %r is of %s"
        log.warning(what, len(unknown), len(found), unknown[0].text, "|".join(unknown[0].entity_ids))
    return found, len(unknown)
