"""The bi-encoder as it answers (papers/000, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.losses.span_scores import SpanScores
from rayner.metrics.spans import score_spans
from rayner.models.bi_encoder import BiEncoder
from rayner.models.recognize import recognize
from rayner.tasks.base import Options
from rayner.tasks.documents import Found, TextWindow, mentions_of, pad, without_overlaps

if TYPE_CHECKING:
    from rayner.tasks.recognizer import RecognizerTask


class Recognizer:
    """A bi-encoder and the vectors of the types that it looks for, encoded once.

    Args:
        options: `types` may name any that have a description. Those in `new_types` were not in the training:
            where thresholds are learned or tuned, they have the mean of the others'.
    """

    def __init__(self, task: RecognizerTask, model: BiEncoder, options: Options) -> None:
        self._task = task
        self._model = model.eval()
        self._shift = options.shift
        self._overlap = options.overlap or task.recipe.decoding.overlap
        types = task.recipe.types if options.types is None else options.types
        if not types:
            raise InputError("types", "no types to look for", "name some, or leave them out for the recipe's")
        self.names = [t.name for t in types]
        known = {t.name: index for index, t in enumerate(task.recipe.types)}
        self.new_types = [name for name in self.names if name not in known]
        ids = torch.tensor([known.get(name, -1) for name in self.names], device=model.log_scale.device)
        with torch.inference_mode():
            self._types = self._model.encode_types(task.inputs(model, types), ids)

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
    def forward(self, windows: Sequence[TextWindow]) -> list[list[Found]]:
        """The spans of each window that score above their threshold."""
        ids, mask, starts, ends = self._inputs(windows)
        joint = self._task.recipe.decoding.joint
        selected = recognize(self._model, ids, mask, self._types, starts, ends, self._shift, joint=joint)
        found: list[list[Found]] = [[] for _ in windows]
        columns = (selected.window, selected.type, selected.start, selected.end, selected.margin)
        for window, kind, first, last, margin in zip(*(c.tolist() for c in columns), strict=True):
            found[window].append(Found(kind, first - 1, last - 1, margin))
        return found

    def finish(
        self, item: Document, windows: Sequence[TextWindow], scores: Sequence[list[Found]]
    ) -> Document:
        """The document with its mentions, flat or nested as the recipe says."""
        mentions = list(mentions_of(windows, scores, self.names))
        if self._overlap == "flat":
            mentions = without_overlaps(mentions)
        return replace(item, mentions=tuple(sorted(mentions, key=lambda m: (m.start, m.end, m.type))))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """Span metrics over the types that were looked for."""
        return score_spans(gold, predicted, self.names)

    def _inputs(self, windows: Sequence[TextWindow]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = [window.row for window in windows]
        ids, mask = self._task.padded([row["ids"] for row in rows])
        starts = torch.from_numpy(pad([row["first"] for row in rows], ids.shape[1], False, 1))
        ends = torch.from_numpy(pad([row["last"] for row in rows], ids.shape[1], False, 1))
        device = self._model.log_scale.device
        return ids.to(device), mask.to(device), starts.to(device), ends.to(device)
