"""Scores of gold and other spans on dev: the thresholds tuned on them (papers/000, section 4, table 6), and
tables for the report (figure 2)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rayner.data.batches import forwards
from rayner.data.schema import Document
from rayner.data.windows import SubWords
from rayner.losses.span_contrast import candidate_spans
from rayner.metrics.counts import annotated_keys, mention_keys
from rayner.metrics.thresholds import best_shift, candidates_from_columns
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.document_windows import Gold, TextWindow, gold_of, known_rows, known_types
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.sharing import from_first, shares

NEAR = 40
"""Of each window and type, the best so many spans are near enough to a threshold to matter."""
SAMPLE = 20_000
"""Similarities that a report draws."""


class ScoredSpans(NamedTuple):
    """Candidate spans of windows, one entry each; `threshold` is what the span is held against."""

    type: np.ndarray
    score: np.ndarray
    threshold: np.ndarray
    gold: np.ndarray


def scored_spans(
    task: DocumentTask[Any], recognizer: Recognizer, documents: Iterable[Document]
) -> Iterator[ScoredSpans]:
    """The best candidates of each window and type, and all gold spans, a batch of windows at a time.

    Gold is what counts as right where answers are scored: no answer is equal to a mention that begins or ends
    within a word. A span that several windows hold counts in the one that decides about it, and no span
    counts for a type that its document was not annotated for.
    """
    type_index = {name: index for index, name in enumerate(task.names)}
    windows: list[TextWindow] = []
    gold: list[list[tuple[int, int, int]]] = []
    known: list[np.ndarray | None] = []
    for document in documents:
        of_document = task.windows_of(document)
        windows += of_document
        if not of_document:
            continue
        found = _exact_gold(document, of_document[0].subwords, type_index)
        for window in of_document:
            begin, end = window.span
            low, high = (bisect_left(found, edge, key=lambda g: g.first) for edge in (begin, end))
            inside = [g for g in found[low:high] if g.last < end]
            gold.append([(g.type, window.place(g.first) + 1, g.last - g.first) for g in inside])
        known += [known_types(document, type_index)] * len(of_document)
    lengths = np.array([len(window) for window in windows])
    for batch in forwards(np.arange(len(windows)), lengths, recognizer.tokens_per_batch):
        held = [windows[i] for i in batch]
        known_of = known_rows([known[i] for i in batch], len(type_index))
        yield _of_batch(recognizer.score(held), [gold[i] for i in batch], held, known_of)


def _exact_gold(document: Document, subwords: SubWords, type_index: dict[str, int]) -> list[Gold]:
    """The mentions of which each is the stretch between a word's start and a word's end."""
    mentions, names = mention_keys(document, type_index), list(type_index)

    def key(gold: Gold) -> tuple[int, int, str]:
        first, last = (subwords.words[subwords.word_of[place]] for place in (gold.first, gold.last))
        return first[0], last[1], names[gold.type]

    return [gold for gold in gold_of(document, subwords, type_index, None)[0] if key(gold) in mentions]


def span_tables(
    task: DocumentTask[Any], recognizer: Recognizer, documents: Sequence[Document], seed: int
) -> dict[str, pa.Table]:
    """`candidates` (type, margin, gold) and `similarities` (type, kind, similarity) of dev spans."""
    parts = list(scored_spans(task, recognizer, documents))
    if not parts:
        return {}
    spans = ScoredSpans(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    names = np.array(task.names, dtype=object)[spans.type]
    candidates = pa.table({"type": names, "margin": spans.score - spans.threshold, "gold": spans.gold})
    rows = np.random.default_rng(seed).permutation(len(names))[:SAMPLE]
    kinds = np.where(spans.gold[rows], "mention", "other")
    similarities = pa.table(
        {
            "type": np.concatenate([names[rows], names[rows]]),
            "kind": np.concatenate([kinds, np.full(len(rows), "threshold")]),
            "similarity": np.concatenate([spans.score[rows], spans.threshold[rows]]) * recognizer.temperature,
        }
    )
    return {"candidates": candidates, "similarities": similarities}


def tuned_thresholds(task: DocumentTask[Any], recognizer: Recognizer, dev: Sequence[Document]) -> Tensor:
    """The threshold of each type with the best F1 on dev: [K, 3], of start, end and span.

    Only spans are tuned: starts and ends have no threshold of their own (negative infinity), so that joint
    inference asks for nothing more. A type without a mention on dev that can be found has the mean of the
    others. Mentions that cannot (wider than the model's spans, or of parts of words) count as missed. Each
    worker of a training reads its part of dev.
    """
    found = shares(lambda part: list(scored_spans(task, recognizer, part)), dev)
    return from_first(lambda: _tuned(task, list(chain.from_iterable(found)), dev))


def _tuned(task: DocumentTask[Any], parts: Sequence[ScoredSpans], dev: Sequence[Document]) -> Tensor:
    best: dict[str, float] = {}
    if parts:
        spans = ScoredSpans(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        types = np.array(task.names)[spans.type]
        names = frozenset(task.names)
        support = Counter(key[2] for d in dev for key in annotated_keys(d, d, names)[0])
        for name, candidates in candidates_from_columns(types, spans.score, spans.gold, support).items():
            if candidates.gold.any():
                best[name] = best_shift(candidates)["shift"]
    thresholds = torch.full((len(task.names), 3), -torch.inf)
    mean = sum(best.values()) / max(len(best), 1)
    thresholds[:, 2] = torch.tensor([best.get(name, mean) for name in task.names])
    return thresholds


@torch.inference_mode()
def _of_batch(
    scored: Any,
    gold: Sequence[Sequence[tuple[int, int, int]]],
    windows: Sequence[TextWindow],
    known: np.ndarray,
) -> ScoredSpans:
    scores, starts, ends = scored
    widths = scores.span.shape[3]
    cells = [(row, *span) for row, spans in enumerate(gold) for span in spans if span[2] < widths]
    is_gold = torch.zeros_like(scores.span, dtype=torch.bool)
    # Written at once: on a GPU each write is a kernel of its own.
    places = torch.tensor(cells, dtype=torch.int64).view(-1, 4).to(is_gold.device)
    is_gold[places.unbind(1)] = True
    candidates = candidate_spans(starts, ends, widths)[:, None].expand_as(scores.span)
    masked = scores.span.masked_fill(~candidates, -torch.inf).flatten(2)
    best = masked.topk(min(NEAR, masked.shape[2]), dim=2)
    chosen = torch.zeros_like(masked, dtype=torch.bool).scatter(2, best.indices, best.values > -torch.inf)
    window, kind, cell = (chosen | is_gold.flatten(2)).nonzero(as_tuple=True)
    columns = (
        kind,
        scores.span.flatten(2)[window, kind, cell],
        scores.span_threshold[window, kind],
        is_gold.flatten(2)[window, kind, cell],
    )
    rows, kinds, first, width = (
        column.cpu().numpy() for column in (window, kind, cell // widths, cell % widths)
    )
    counts = known[rows, kinds] & [
        windows[row].decides(windows[row].subword_at(start - 1), windows[row].subword_at(start - 1 + wide))
        for row, start, wide in zip(rows.tolist(), first.tolist(), width.tolist(), strict=True)
    ]
    return ScoredSpans(*(column.cpu().numpy()[counts] for column in columns))
