"""Several stages as one predictor over documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rayner.data.schema import Document
from rayner.metrics.counts import looked_for
from rayner.tasks.base import type_names
from rayner.tasks.link_scores import Linking, score_links
from rayner.tasks.registry import Stage


@dataclass(frozen=True, slots=True)
class Chain:
    """Stages in order, as one predictor; `predict.predict` runs them one after the other."""

    stages: Sequence[Stage]

    @property
    def names(self) -> Sequence[str]:
        """The types that are looked for."""
        return [name for stage in self.stages for name in type_names(stage)]

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """The metrics of all stages, of mentions of the types that are looked for.

        Those of entities are of all knowledge bases together.
        """
        metrics: dict[str, Any] = {}
        linking = [stage for stage in self.stages if isinstance(stage, Linking)]
        predicted, gold = (looked_for(documents, self.names or None) for documents in (predicted, gold))
        for stage in self.stages:
            if stage not in linking:
                metrics |= stage.evaluate(predicted, gold)
        return metrics | score_links(linking, predicted, gold) if linking else metrics


def chain(stages: Sequence[Stage]) -> Any:
    """The stages as one predictor over documents."""
    return stages[0] if len(stages) == 1 else Chain(tuple(stages))
