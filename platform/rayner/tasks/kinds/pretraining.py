"""Documents that a pre-training learns from: scored as others, and of use to other tasks only."""

from __future__ import annotations

from rayner.config import DocumentRecipe
from rayner.tasks.kinds.base import FOLDER, Card
from rayner.tasks.kinds.documents import Documents


class PretrainingDocuments(Documents):
    """Documents with mentions, from which an encoder learns."""

    def card(self, recipe: DocumentRecipe) -> Card:
        """The types, and how another task starts from the encoder."""
        override = f"encoder={FOLDER}"
        return (
            super()
            .card(recipe)
            ._replace(
                commands=[f"rayner train RECIPE --set {override} --out RUN"],
                python=[
                    "from rayner.models.encoder import load_encoder",
                    "",
                    f'encoder = load_encoder("{FOLDER}")',
                ],
            )
        )
