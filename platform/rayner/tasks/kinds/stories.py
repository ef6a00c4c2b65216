"""Documents with coreference chains, of which an encoder is pre-trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rayner.data.schema import Document
from rayner.tasks.base import Mode
from rayner.tasks.kinds.base import OF_ENCODER, Card, held_out_documents
from rayner.tasks.kinds.documents import AnyDocuments


class Stories(AnyDocuments):
    """Read and cut as documents are; scored by the retrieval of mentions. Their vectors are not stored."""

    name = "stories"
    metrics: Mapping[str, Mode] = {"mrr": "max", "mrr_other_stories": "max", "top1": "max"}

    def to_tables(self, gold: Sequence[Document], predicted: Sequence[Any]) -> dict[str, pa.Table]:
        """None."""
        return {}

    def from_tables(self, tables: Mapping[str, pa.Table]) -> tuple[list[Document], list[Any]]:
        """Nothing."""
        return [], []

    def card(self, recipe: Any) -> Card:
        """How to begin another training with the encoder."""
        return Card(
            train=recipe.corpus.train,
            dev=held_out_documents(recipe.corpus),
            about=[
                "A pre-trained encoder (EnCore, Mtumbuka and Schockaert 2024): it answers nothing itself."
            ],
            **OF_ENCODER,
        )
