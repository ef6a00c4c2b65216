"""Documents that a pre-training learns from: scored as others, and of use to other tasks only."""

from __future__ import annotations

from rayner.config import DocumentRecipe
from rayner.tasks.kinds.base import OF_ENCODER, Card
from rayner.tasks.kinds.documents import Documents


class PretrainingDocuments(Documents):
    """Documents with mentions, from which an encoder learns."""

    def card(self, recipe: DocumentRecipe) -> Card:
        """The types, and how another task starts from the encoder."""
        return super().card(recipe)._replace(**OF_ENCODER)
