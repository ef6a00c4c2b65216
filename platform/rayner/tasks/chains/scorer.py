"""How well an encoder places mentions of a chain together: retrieval among all mentions of dev."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from rayner.data.batches import COST_OF_A_FORWARD, tokens_per_batch_of
from rayner.data.schema import Document, chained
from rayner.metrics.retrieval import reciprocal_ranks
from rayner.tasks.chains.story_rows import rows
from rayner.tasks.document_windows import TextWindow


class EncodesMentions(Protocol):
    """What the scorer asks of the task."""

    def windows_of(self, document: Document) -> list[TextWindow]:
        """The windows of a document."""
        ...

    def unmasked(self, examples: Sequence[Mapping[str, Any]]) -> Any:
        """Rows as tensors, with nothing masked."""
        ...

    def vectors(self, model: nn.Module, batch: Any, device: torch.device) -> Tensor:
        """[M, H] of the mentions of a batch."""
        ...


@dataclass(frozen=True, eq=False)
class MentionVectors:
    """The mentions of a document that are in chains: the number of the chain [M], the vector [M, D], and the
    number of the story that the document is of."""

    chains: np.ndarray
    vectors: np.ndarray
    story: int

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MentionVectors)
            and self.story == other.story
            and np.array_equal(self.chains, other.chains)
            and np.array_equal(self.vectors, other.vectors)
        )


class ChainScorer:
    """Vectors of the mentions of documents, nothing masked, for the metric on dev. It answers nobody."""

    forward_cost = COST_OF_A_FORWARD
    whole = True

    def __init__(self, task: EncodesMentions, model: nn.Module) -> None:
        self._task = task
        self._model = model.eval()
        self.tokens_per_batch = tokens_per_batch_of(model)

    def prepare(self, item: Document) -> list[Mapping[str, Any]]:
        """The rows of a document; none where it has no chain."""
        windows = self._task.windows_of(item)
        return list(rows(item, windows)) if windows and chained(item) else []

    def length_of(self, window: Mapping[str, Any]) -> int:
        """Sub-words of the window, special tokens included."""
        return window["length"]

    @torch.inference_mode()
    def forward(self, windows: Sequence[Mapping[str, Any]]) -> list[np.ndarray]:
        """The vectors of the mentions of each window, [M, D] float32."""
        device = next(self._model.parameters()).device
        batch = self._task.unmasked(windows)
        vectors = self._task.vectors(self._model, batch, device).float().cpu().numpy()
        ends = np.cumsum([len(window["chain"]) for window in windows])
        return np.split(vectors, ends[:-1])

    def finish(
        self, item: Document, windows: Sequence[Mapping[str, Any]], scores: Sequence[np.ndarray]
    ) -> MentionVectors:
        """The mentions of all windows."""
        if not windows:
            return MentionVectors(np.zeros(0, np.int64), np.zeros((0, 0), np.float32), 0)
        chains = np.concatenate([np.asarray(window["chain"], np.int64) for window in windows])
        return MentionVectors(chains, np.concatenate(scores), windows[0]["story"])

    def evaluate(self, predicted: Sequence[MentionVectors], gold: Sequence[Document]) -> dict[str, Any]:
        """For each mention, the rank of the nearest of its chain among all other mentions of all documents:
        the mean of one over it (`mrr`), and how often it is 1 (`top1`).

        `mrr_other_stories` has beside the mentions of the chain only those of other stories, as the contrast
        of `negatives: other_stories`; None where all are of one story.
        """
        found = [answer for answer in predicted if len(answer.chains)]
        nothing = {"mrr": None, "mrr_other_stories": None, "top1": None, "mentions": 0}
        if not found:
            return nothing
        vectors = np.concatenate([answer.vectors for answer in found])
        chains = np.concatenate([answer.chains for answer in found])
        stories = np.repeat([answer.story for answer in found], [len(answer.chains) for answer in found])
        ranks, among_others = reciprocal_ranks(vectors, chains, stories)
        if not len(ranks):
            # A chain may be one mention that is given twice, or hold no other word.
            return nothing
        return {
            "mrr": float(ranks.mean()),
            "mrr_other_stories": float(among_others.mean()) if len(np.unique(stories)) > 1 else None,
            "top1": float((ranks == 1).mean()),
            "mentions": len(ranks),
        }
