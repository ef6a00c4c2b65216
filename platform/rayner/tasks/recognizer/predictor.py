"""The bi-encoder as it answers (papers/000, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from rayner.config import SpanDecoding
from rayner.data.batches import COST_OF_A_FORWARD, tokens_per_batch_of
from rayner.data.schema import Document
from rayner.losses.span_contrast import SpanScores, candidate_spans
from rayner.metrics.judged_mentions import score_calibration_error
from rayner.metrics.score_calibration import ScoreCalibration
from rayner.metrics.spans import score_spans
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.span_search import Rule
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.document_windows import (
    Found,
    Gold,
    TextWindow,
    confidence,
    mentions_of,
    pad,
)
from rayner.tasks.recognizer.overlaps import without_overlaps
from rayner.tasks.recognizer.selection import MOST_FOUND, find_spans, rule_of
from rayner.tasks.recognizer.types import Threshold

_CELLS_AT_ONCE = 1 << 24
"""Scores of spans and types that are in memory at once."""


class Recognizer:
    """A bi-encoder and the vectors of the types that it looks for.

    Args:
        task: makes the windows.
        model: in evaluation mode.
        names: of the types.
        types: their vectors.
        decoding: how spans become mentions.
        new_types: those that were not in the training, with how their threshold is had.
        calibration: what makes probabilities of margins; None for the logistic function. It changes no
            mention but its score.
    """

    forward_cost = COST_OF_A_FORWARD
    whole = False

    def __init__(
        self,
        task: DocumentTask[Any],
        model: BiEncoder,
        names: Sequence[str],
        types: TypeVectors,
        decoding: SpanDecoding,
        new_types: Mapping[str, Threshold] | None = None,
        calibration: ScoreCalibration | None = None,
    ) -> None:
        self._task = task
        self.whole = task.reads_whole_documents
        self._model = model
        self.tokens_per_batch = tokens_per_batch_of(model)
        self.names = list(names)
        self.new_types: dict[str, Threshold] = dict(new_types or {})
        self._types = types
        self._decoding = decoding
        self._shift = 0.0
        self._most_found: int | None = None
        self._calibration = calibration

    @property
    def temperature(self) -> float:
        """The cosine of a span is its score times this."""
        return (-self._model.log_scale).exp()[2].item()

    def adjusted(self, options: Any) -> Recognizer:
        """The same types, their vectors not computed again, with the options' shift and overlap."""
        found = self.shifted(options.shift)
        if options.overlap is not None:
            found._decoding = self._decoding.model_copy(update={"overlap": options.overlap})
        # A request may ask for all spans, of a thousand types.
        found._most_found = MOST_FOUND if options.shift < 0 else None
        return found

    def shifted(self, shift: float) -> Recognizer:
        """The same, with the shift added to every threshold."""
        found = copy(self)
        found._shift = shift
        return found

    def with_thresholds(self, moved: Mapping[str, float]) -> Recognizer:
        """The same, with the threshold of each type that is named moved by its number."""
        if not moved:
            return self
        found = copy(self)
        scale = self._model.log_scale.exp()
        shifts = scale.new_tensor([moved.get(name, 0.0) for name in self.names])
        offsets = torch.zeros(len(self.names), 3, device=scale.device, dtype=scale.dtype)
        # A cosine, of which the span's share moves the whole margin by as much as was asked.
        offsets[:, 2] = shifts / scale.detach()[2] / self._decoding.span_weight
        before = self._types.offsets
        found._types = self._types._replace(offsets=offsets if before is None else before + offsets)
        return found

    def prepare(self, item: Document) -> list[TextWindow]:
        """The windows of a document."""
        return self._task.windows_of(item)

    def length_of(self, window: TextWindow) -> int:
        """Sub-words of the window, special tokens included."""
        return len(window)

    @torch.inference_mode()
    def scores(
        self, windows: Sequence[TextWindow]
    ) -> tuple[Iterator[tuple[int, SpanScores]], Tensor, Tensor]:
        """Scores of all spans up to `max_span_width`, of as many types at a time as have room, each with the
        number of the first; and [B, L] where a mention may start and end."""
        ids, mask, starts, ends = self._inputs(windows)
        return self._scores(self._model.encode_text(ids, mask), ids), starts, ends

    def _scores(self, hidden: Tensor, ids: Tensor) -> Iterator[tuple[int, SpanScores]]:
        first = 0
        for part in _parts_of(self._types, ids, self._model):
            with torch.inference_mode():
                scores = self._rule.scores(self._model.score(hidden, part))
            yield first, scores
            first += len(part.span)

    @torch.inference_mode()
    def gold_probabilities(
        self, windows: Sequence[TextWindow], gold: Sequence[Sequence[Gold]]
    ) -> list[list[float]]:
        """The score that each window gives to its gold mentions, found or not: as of found ones, whatever the
        shift; almost 0 of one that is too wide."""
        margins = [[-math.inf] * len(mentions) for mentions in gold]
        for first_type, scores in self.scores(windows)[0]:
            _, types, _, widest = scores.span.shape
            for row, (window, mentions) in enumerate(zip(windows, gold, strict=True)):
                for number, (kind, first, last) in enumerate(mentions):
                    kind -= first_type
                    if 0 <= kind < types and last - first < widest:
                        score = scores.span[row, kind, window.position(first), last - first]
                        margins[row][number] = (score - scores.span_threshold[row, kind]).item()
        return [
            [self._score(self.names[one.type], margin) for one, margin in zip(*of_window, strict=True)]
            for of_window in zip(gold, margins, strict=True)
        ]

    @torch.inference_mode()
    def uncertainties(self, windows: Sequence[TextWindow]) -> list[np.ndarray]:
        """[W] of the words that start in each window: minus the log-probability of what is decided about the
        spans that start there, added up over spans and types, whose decisions are independent."""
        parts, starts, ends = self.scores(windows)
        found = torch.zeros(starts.shape, device=starts.device)
        for _, scores in parts:
            margins = scores.span - (scores.span_threshold + self._shift)[:, :, None, None]
            candidates = candidate_spans(starts, ends, scores.span.shape[3]).unsqueeze(1)
            # Of a decision with the probability p: -log max(p, 1 - p).
            found += softplus(-margins.abs()).masked_fill(~candidates, 0).sum((1, 3))
        of_rows = found.cpu().numpy()
        return [row[window.word_positions] for row, window in zip(of_rows, windows, strict=True)]

    @torch.inference_mode()
    def forward(self, windows: Sequence[TextWindow]) -> list[list[Found]]:
        """The spans of each window that score above their threshold."""
        ids, mask, starts, ends = self._inputs(windows)
        given = self._model, ids, mask, self._types, starts, ends, self._shift
        selected = find_spans(*given, rule=self._rule, most=self._most_found)
        found: list[list[Found]] = [[] for _ in windows]
        columns = (selected.window, selected.type, selected.start, selected.end, selected.margin)
        for window, kind, first, last, margin in zip(*(c.tolist() for c in columns), strict=True):
            found[window].append(Found(kind, first, last, margin))
        return found

    def finish(
        self, item: Document, windows: Sequence[TextWindow], scores: Sequence[list[Found]]
    ) -> Document:
        """The document with its mentions, flat or nested."""
        mentions = list(mentions_of(windows, scores, self.names, self._score))
        if self._decoding.overlap == "flat":
            mentions = without_overlaps(mentions, self._decoding.flat)
        return replace(item, mentions=tuple(sorted(mentions, key=lambda m: (m.start, m.end, m.type))))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Span metrics over the types that were looked for, `calibration_error` of the scores, and
        `new_types`: those that were never learned, each with how its threshold is had."""
        return {
            **score_spans(gold, predicted, self.names),
            **score_calibration_error(gold, predicted, self.names),
            "new_types": self.new_types,
        }

    @property
    def _rule(self) -> Rule:
        return rule_of(self._decoding)

    def _score(self, name: str, margin: float) -> float:
        return (
            confidence(margin) if self._calibration is None else self._calibration.probability(name, margin)
        )

    def _inputs(self, windows: Sequence[TextWindow]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = [window.row for window in windows]
        ids, mask = self._task.padded([row["ids"] for row in rows])
        starts = torch.from_numpy(pad([row["first"] for row in rows], ids.shape[1], False, 1))
        ends = torch.from_numpy(pad([row["last"] for row in rows], ids.shape[1], False, 1))
        device = self._model.log_scale.device
        return ids.to(device), mask.to(device), starts.to(device), ends.to(device)


def _parts_of(types: TypeVectors, ids: Tensor, model: BiEncoder) -> Iterator[TypeVectors]:
    """As many types at a time as their scores in windows `ids` [B, L] have room for."""
    at_once = max(1, _CELLS_AT_ONCE // (ids.numel() * min(model.settings.max_span_width, ids.shape[1])))
    for first in range(0, len(types.span), at_once):
        yield types.part(slice(first, first + at_once))
