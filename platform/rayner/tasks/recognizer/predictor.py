"""The bi-encoder as it answers (papers/000, algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rayner.config import SpanDecoding
from rayner.data.batches import COST_OF_A_FORWARD, TOKENS_PER_BATCH
from rayner.data.schema import Document
from rayner.losses.span_scores import SpanScores
from rayner.metrics.spans import score_spans
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.recognize import recognize
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.recognizer.types import Threshold
from rayner.tasks.windows import (
    Found,
    Gold,
    TextWindow,
    confidence,
    mentions_of,
    pad,
    without_overlaps,
)


class Recognizer:
    """A bi-encoder and the vectors of the types that it looks for.

    Args:
        task: makes the windows.
        model: in evaluation mode.
        names: of the types.
        types: their vectors.
        decoding: how spans become mentions.
        shift: added to every threshold.
        new_types: those that were not in the training, with how their threshold is had.
    """

    forward_cost = COST_OF_A_FORWARD
    tokens_per_batch = TOKENS_PER_BATCH
    whole = False

    def __init__(
        self,
        task: DocumentTask[Any],
        model: BiEncoder,
        names: Sequence[str],
        types: TypeVectors,
        decoding: SpanDecoding,
        shift: float = 0.0,
        new_types: Mapping[str, Threshold] | None = None,
    ) -> None:
        self._task = task
        self.whole = task.reads_whole_documents
        self._model = model
        self.names = list(names)
        self.new_types: dict[str, Threshold] = dict(new_types or {})
        self._types = types
        self._decoding = decoding
        self._shift = shift

    @property
    def temperature(self) -> float:
        """The cosine of a span is its score times this."""
        return 1 / self._model.log_scale.exp()[2].item()

    def adjusted(self, options: Any) -> Recognizer:
        """The same types, their vectors not computed again, with the options' shift and overlap."""
        decoding = self._decoding
        if options.overlap is not None:
            decoding = decoding.model_copy(update={"overlap": options.overlap})
        return Recognizer(
            self._task, self._model, self.names, self._types, decoding, options.shift, self.new_types
        )

    def prepare(self, item: Document) -> list[TextWindow]:
        """The windows of a document."""
        return self._task.windows_of(item)

    def length_of(self, window: TextWindow) -> int:
        """Sub-words of the window, special tokens included."""
        return len(window)

    @torch.inference_mode()
    def score(self, windows: Sequence[TextWindow]) -> tuple[SpanScores, Tensor, Tensor]:
        """Scores of all spans up to `max_span_width`, and [B, L] where a mention may start and end."""
        ids, mask, starts, ends = self._inputs(windows)
        return self._model(ids, mask, self._types), starts, ends

    @torch.inference_mode()
    def gold_probabilities(
        self, windows: Sequence[TextWindow], gold: Sequence[Sequence[Gold]]
    ) -> list[list[float]]:
        """The confidence that each window gives to its gold mentions, found or not; almost 0 to one that is
        too wide."""
        scores, _, _ = self.score(windows)
        widest = scores.span.shape[3]
        found: list[list[float]] = []
        for row, (window, mentions) in enumerate(zip(windows, gold, strict=True)):
            found.append([])
            for kind, first, last in mentions:
                margin = -math.inf
                if last - first < widest:
                    score = scores.span[row, kind, window.place(first) + 1, last - first]
                    margin = (score - scores.span_threshold[row, kind]).item() - self._shift
                found[-1].append(confidence(margin))
        return found

    @torch.inference_mode()
    def forward(self, windows: Sequence[TextWindow]) -> list[list[Found]]:
        """The spans of each window that score above their threshold."""
        ids, mask, starts, ends = self._inputs(windows)
        joint = self._decoding.joint
        selected = recognize(self._model, ids, mask, self._types, starts, ends, self._shift, joint=joint)
        found: list[list[Found]] = [[] for _ in windows]
        columns = (selected.window, selected.type, selected.start, selected.end, selected.margin)
        for window, kind, first, last, margin in zip(*(c.tolist() for c in columns), strict=True):
            found[window].append(Found(kind, first - 1, last - 1, margin))
        return found

    def finish(
        self, item: Document, windows: Sequence[TextWindow], scores: Sequence[list[Found]]
    ) -> Document:
        """The document with its mentions, flat or nested."""
        mentions = list(mentions_of(windows, scores, self.names))
        if self._decoding.overlap == "flat":
            mentions = without_overlaps(mentions)
        return replace(item, mentions=tuple(sorted(mentions, key=lambda m: (m.start, m.end, m.type))))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Span metrics over the types that were looked for, and `new_types`: those that were never learned,
        each with how its threshold is had."""
        return {**score_spans(gold, predicted, self.names), "new_types": self.new_types}

    def _inputs(self, windows: Sequence[TextWindow]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = [window.row for window in windows]
        ids, mask = self._task.padded([row["ids"] for row in rows])
        starts = torch.from_numpy(pad([row["first"] for row in rows], ids.shape[1], False, 1))
        ends = torch.from_numpy(pad([row["last"] for row in rows], ids.shape[1], False, 1))
        device = self._model.log_scale.device
        return ids.to(device), mask.to(device), starts.to(device), ends.to(device)
