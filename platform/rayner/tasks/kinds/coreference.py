"""Documents with coreference chains, which a model finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayner.data.schema import Document
from rayner.tasks.base import Mode
from rayner.tasks.kinds.base import FOLDER, Card
from rayner.tasks.kinds.documents import Documents


class Coreference(Documents):
    """Read, stored and cut as documents are; scored by their chains."""

    name = "coreference"
    metrics: Mapping[str, Mode] = dict.fromkeys(
        ("conll_f1", "muc_f1", "b_cubed_f1", "ceaf_e_f1", "lea_f1"), "max"
    )

    def intervals(
        self, gold: Sequence[Document], predicted: Sequence[Document], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """None."""
        return {}

    def card(self, recipe: Any) -> Card:
        """How to resolve texts with it."""
        return Card(
            train=recipe.corpus.train,
            dev=recipe.corpus.dev,
            about=["Finds coreference chains by mention ranking (Lee et al. 2017)."],
            commands=[
                f"rayner evaluate {FOLDER} CORPUS",
                f"rayner corpus resolve TEXTS --resolver rules --resolver ranking:{FOLDER} --out stories",
            ],
            python=[
                "from rayner.tasks.checkpoint import load_checkpoint",
                "from rayner.tasks.predict import predict",
                "",
                f'documents = predict(load_checkpoint(Path("{FOLDER}")).predictor(), documents)',
            ],
        )
