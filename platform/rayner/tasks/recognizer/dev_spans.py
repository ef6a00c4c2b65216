"""Scores of gold and other spans on dev: the thresholds tuned on them (papers/000, section 4, table 6), and
tables for the report (figure 2)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rayner.data.batches import forwards
from rayner.data.schema import Document, Span
from rayner.data.windows import SubWords
from rayner.losses.span_contrast import SpanScores, candidate_spans
from rayner.metrics.counts import annotated_keys, marked_unknown, mention_keys
from rayner.metrics.thresholds import best_shift, candidates_from_columns
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.document_windows import (
    Gold,
    TextWindow,
    gold_of,
    known_rows,
    known_types,
    unknown_spans,
)
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.sharing import from_first, shares

NEAR = 40
"""Of each window and type, the best so many spans are near enough to a threshold to matter."""
OTHERS = 200_000
"""So many spans that are not gold are near enough to their thresholds to be in a table."""
OTHERS_PER_MENTION = 100
"""So many spans of a type matter for its threshold, beside each of its mentions: below them its F1 is under
2 %."""
DOCUMENTS_AT_ONCE = 256
"""Their windows are sorted by length together."""
ROWS_AT_ONCE = 1 << 20
"""Of scored spans, before those that do not matter are left out."""
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
    """The best candidates of each window and type, and all gold spans, a batch of windows and as many types
    as `Recognizer.scores` takes at a time.

    Gold is what counts as right where answers are scored: no answer is equal to a mention that begins or ends
    within a word. A span that several windows hold counts in the one that decides about it, no span counts
    for a type that its document was not annotated for, and one of which nobody knows what it is for none.
    """
    type_index = {name: index for index, name in enumerate(task.names)}
    left = iter(documents)
    while part := list(islice(left, DOCUMENTS_AT_ONCE)):
        yield from _scored(task, recognizer, part, type_index)


def _scored(
    task: DocumentTask[Any],
    recognizer: Recognizer,
    documents: Sequence[Document],
    type_index: dict[str, int],
) -> Iterator[ScoredSpans]:
    windows: list[TextWindow] = []
    gold: list[list[tuple[int, int, int]]] = []
    known: list[np.ndarray | None] = []
    unknown: list[frozenset[Span]] = []
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
            gold.append([(g.type, window.position(g.first), g.last - g.first) for g in inside])
        known += [known_types(document, type_index)] * len(of_document)
        unknown += [_exact_unknown(document, of_document[0].subwords)] * len(of_document)
    lengths = np.array([len(window) for window in windows])
    for batch in forwards(np.arange(len(windows)), lengths, recognizer.tokens_per_batch):
        held, gold_of_batch = [(windows[i], unknown[i]) for i in batch], [gold[i] for i in batch]
        known_of = known_rows([known[i] for i in batch], len(type_index))

        @cache
        def decides(
            row: int, start: int, wide: int, held: Sequence[tuple[TextWindow, frozenset[Span]]] = held
        ) -> bool:
            window, nobody_knows = held[row]
            first = window.subword_at(start)
            return window.decides(first, first + wide) and (first, first + wide) not in nobody_knows

        scores, starts, ends = recognizer.scores([window for window, _ in held])
        for first, scored in scores:
            yield _of_types(first, scored, starts, ends, gold_of_batch, known_of, decides)


def _exact_gold(document: Document, subwords: SubWords, type_index: dict[str, int]) -> list[Gold]:
    """The mentions of which each is the stretch between a word's start and a word's end."""
    mentions, names = mention_keys(document, type_index), list(type_index)
    found = gold_of(document, subwords, type_index, None)[0]
    return [g for g in found if (*_stretch(subwords, g.first, g.last), names[g.type]) in mentions]


def _exact_unknown(document: Document, subwords: SubWords) -> frozenset[Span]:
    """The first and the last sub-word of each span of which nobody knows what it is, as of `_exact_gold`."""
    marked = marked_unknown(document)
    found = unknown_spans(document, subwords).tolist() if marked else ()
    return frozenset((first, last) for first, last in found if _stretch(subwords, first, last) in marked)


def _stretch(subwords: SubWords, first: int, last: int) -> Span:
    """The characters of the words that two sub-words are of, and of what is between."""
    begin, end = (subwords.words[subwords.word_of[place]] for place in (first, last))
    return int(begin[0]), int(end[1])


def span_tables(
    task: DocumentTask[Any], recognizer: Recognizer, documents: Iterable[Document], seed: int
) -> dict[str, pa.Table]:
    """`candidates` (type, margin, gold) and `similarities` (type, kind, similarity) of dev spans: those of
    mentions, and the `OTHERS` that are furthest above their thresholds or nearest to them."""

    def near(spans: ScoredSpans) -> ScoredSpans:
        return _best(spans, np.zeros_like(spans.type), spans.score - spans.threshold, np.array([OTHERS]))

    spans = _gathered(scored_spans(task, recognizer, documents), near)
    if spans is None:
        return {}
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
    names = frozenset(task.names)
    support = Counter(key[2] for d in dev for key in annotated_keys(d, d, names)[0])
    limits = OTHERS_PER_MENTION * np.array([support[name] for name in task.names])

    def near(spans: ScoredSpans) -> ScoredSpans:
        return _best(spans, spans.type, spans.score, limits)

    found = shares(lambda part: _gathered(scored_spans(task, recognizer, part), near), dev)
    return from_first(lambda: _tuned(task, [part for part in found if part is not None], support))


def _tuned(task: DocumentTask[Any], parts: Sequence[ScoredSpans], support: Mapping[str, int]) -> Tensor:
    best: dict[str, float] = {}
    if parts:
        spans = _joined(parts)
        types = np.array(task.names)[spans.type]
        for name, candidates in candidates_from_columns(types, spans.score, spans.gold, support).items():
            if candidates.gold.any():
                best[name] = best_shift(candidates)["shift"]
    thresholds = torch.full((len(task.names), 3), -torch.inf)
    mean = sum(best.values()) / max(len(best), 1)
    thresholds[:, 2] = torch.tensor([best.get(name, mean) for name in task.names])
    return thresholds


def _joined(parts: Sequence[ScoredSpans]) -> ScoredSpans:
    return ScoredSpans(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _gathered(parts: Iterable[ScoredSpans], near: Callable[[ScoredSpans], ScoredSpans]) -> ScoredSpans | None:
    """The spans of all parts that are `near`, which are looked for each time that the rows have doubled."""
    held: list[ScoredSpans] = []
    rows, most = 0, ROWS_AT_ONCE
    for part in parts:
        held.append(part)
        rows += len(part.type)
        if rows > most:
            held = [near(_joined(held))]
            rows = len(held[0].type)
            most = max(ROWS_AT_ONCE, 2 * rows)
    return near(_joined(held)) if held else None


def _best(spans: ScoredSpans, group: np.ndarray, value: np.ndarray, limits: np.ndarray) -> ScoredSpans:
    """All gold, and of the others of each group those with the largest values, as many as its limit."""
    others = np.flatnonzero(~spans.gold)
    order = others[np.lexsort((-value[others], group[others]))]
    ranked = group[order]
    kept = spans.gold.copy()
    kept[order[np.arange(len(order)) - np.searchsorted(ranked, ranked) < limits[ranked]]] = True
    return ScoredSpans(*(column[kept] for column in spans))


@torch.inference_mode()
def _of_types(
    first_type: int,
    scores: SpanScores,
    starts: Tensor,
    ends: Tensor,
    gold: Sequence[Sequence[tuple[int, int, int]]],
    known: np.ndarray,
    decides: Callable[[int, int, int], bool],
) -> ScoredSpans:
    """Of the types from `first_type` on that have scores."""
    types, widths = scores.span.shape[1], scores.span.shape[3]
    cells = [
        (row, kind - first_type, first, width)
        for row, spans in enumerate(gold)
        for kind, first, width in spans
        if width < widths and first_type <= kind < first_type + types
    ]
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
        kind + first_type,
        scores.span.flatten(2)[window, kind, cell],
        scores.span_threshold[window, kind],
        is_gold.flatten(2)[window, kind, cell],
    )
    spans = ScoredSpans(*(column.cpu().numpy() for column in columns))
    rows, cell = window.cpu().numpy(), cell.cpu().numpy()
    # Many types have the same spans among their best.
    distinct, which = np.unique(rows * masked.shape[2] + cell, return_inverse=True)
    places = zip(*(column.tolist() for column in _place(distinct, masked.shape[2], widths)), strict=True)
    counts = known[rows, spans.type] & np.fromiter((decides(*place) for place in places), bool)[which]
    return ScoredSpans(*(column[counts] for column in spans))


def _place(cells: np.ndarray, of_window: int, widths: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The window, the first sub-word and the width of cells that are numbered over all windows."""
    return cells // of_window, cells % of_window // widths, cells % widths
