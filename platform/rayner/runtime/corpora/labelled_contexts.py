"""Rows of contexts whose labels are an extractor's own: whether a context helps it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from rayner.config import ContextSettings
from rayner.data.example_shards import canonical_digest
from rayner.data.schema import Document
from rayner.files.whole import write_json_lines
from rayner.runtime.actors import each_on_actors, needs_of_worker
from rayner.runtime.corpora.context_sources import CountedCorpus
from rayner.supervision.context_rows import ContextRow
from rayner.supervision.leakage import without_leaks
from rayner.tasks.checkpoint import load_checkpoint, read_recipe, version_of
from rayner.tasks.context_gains import Gain, check_extractor, context_gains, mean_gains
from rayner.tasks.stages import checkpoint_in

PARTS = ".gains"
PART_CHARACTERS = 200_000
"""Of documents that an extractor labels at a time."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Contexts from the documents themselves, labelled by an extractor.

    Args:
        checkpoint: of an extractor that reads contexts.
        settings: whose `methods` and `candidates` say which contexts are tried.
        minimum_gain: the rise of the probability of the mentions from which a context is relevant.
    """

    checkpoint: Path
    settings: ContextSettings = field(default_factory=lambda: ContextSettings(methods=("bm25",), count=4))
    minimum_gain: float = 0.01


def labelled_rows(
    corpus: CountedCorpus,
    source: Labelled,
    texts: Sequence[tuple[str, str]],
    out: Path,
    seed: int,
    fresh: bool,
    workers: int,
    counts: Counter[str],
) -> tuple[list[ContextRow], Counter[str]]:
    """The rows of a corpus, as many relevant as not, and what was left out as `without_leaks` counts it;
    documents that are labelled are not labelled again, unless `fresh`.

    Args:
        texts: of which no row has a sentence, by their names.
        counts: gets what became of the contexts, by what it is.

    Raises:
        CheckpointError: a checkpoint that cannot label contexts.
    """
    source = replace(source, checkpoint=checkpoint_in(source.checkpoint, "mentions", contexts=False))
    folder = out / PARTS
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    label = _labeller(source)
    purpose = [version_of(source.checkpoint), source.settings.model_dump(mode="json")]
    paths: list[Path] = []

    def missing() -> Iterator[tuple[Path, list[Document]]]:
        for documents in _together(corpus):
            key = canonical_digest([purpose, documents])[:24]
            paths.append(folder / f"{key}.jsonl")
            if not paths[-1].exists():
                yield paths[-1], documents

    for path, found in _each(label, source, missing(), workers):
        write_json_lines(path, map(asdict, found))
    gains: list[Gain] = []
    for path in paths:
        with path.open(encoding="utf-8") as file:
            gains += (Gain(**(row | {"entities": tuple(row["entities"])})) for row in map(json.loads, file))
    gains = mean_gains(gains)
    corpus.sentences = len({(gain.sentence, gain.group) for gain in gains})
    clear = [row for gain in gains if (row := gain.row(source.minimum_gain)) is not None]
    # Before as many of both are drawn: what leaks would leave more of one.
    rows, left_out = without_leaks(clear, texts)
    helpful = [row for row in rows if row.relevant]
    others = [row for row in rows if not row.relevant]
    counts["contexts"] = len(gains)
    counts["relevant"], counts["not relevant"] = len(helpful), len(others)
    counts["unclear"] = len(gains) - len(clear)
    found = sum(row.relevant for row in clear)
    counts["relevant left out"] = found - len(helpful)
    counts["not relevant left out"] = len(clear) - found - len(others)
    return [*_balanced(helpful, others, seed), *_balanced(others, helpful, seed)], left_out


_Part = tuple[Path, list[Document]]
_Label = Callable[[_Part], tuple[Path, list[Gain]]]


def _labeller(source: Labelled) -> _Label:
    """Where the gains of some documents are to lie -> the same, and the gains.

    Raises:
        CheckpointError: as `check_extractor`.
    """
    checkpoint = load_checkpoint(source.checkpoint)
    check_extractor(checkpoint)
    return lambda part: (part[0], list(context_gains(checkpoint, part[1], source.settings)))


def _each(
    label: _Label, source: Labelled, parts: Iterator[_Part], workers: int
) -> Iterator[tuple[Path, list[Gain]]]:
    """The parts labelled, here or on actors that load the extractor for themselves."""
    if not workers:
        return map(label, parts)
    needs = needs_of_worker(read_recipe(source.checkpoint).scaling)
    return each_on_actors(partial(_labeller, source), parts, workers, needs, [source.checkpoint])


def _balanced(rows: Sequence[ContextRow], others: Sequence[ContextRow], seed: int) -> Sequence[ContextRow]:
    """Of the rows no more than there are others: those of the same sentences first, drawn by the seed."""
    if len(rows) <= len(others):
        return rows
    sentences = {(row.sentence, row.group) for row in others}
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    order.sort(key=lambda place: (rows[place].sentence, rows[place].group) not in sentences)
    return [rows[place] for place in order[: len(others)]]


def _together(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in order, some at a time."""
    held: list[Document] = []
    size = 0
    for document in documents:
        held.append(document)
        size += len(document.text)
        if size >= PART_CHARACTERS:
            yield held
            held, size = [], 0
    if held:
        yield held
