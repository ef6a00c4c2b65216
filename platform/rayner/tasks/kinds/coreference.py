"""Documents with coreference chains, which a model finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rayner.config.coreference import CoreferenceRecipe
from rayner.data.schema import Document
from rayner.errors import CorpusError
from rayner.tasks.base import Mode, ParallelMap, Predictor
from rayner.tasks.kinds.base import FOLDER, Card, GoldItems, held_out_documents
from rayner.tasks.kinds.documents import AnyDocuments, documents_of


class Coreference(AnyDocuments):
    """Read, stored and cut as documents are; scored by their chains."""

    name = "coreference"
    metrics: Mapping[str, Mode] = dict.fromkeys(
        ("conll_f1", "muc_f1", "b_cubed_f1", "ceaf_e_f1", "lea_f1"), "max"
    )

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: CoreferenceRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
        mapper: ParallelMap = map,
    ) -> GoldItems:
        """Documents in any format that `corpus convert` reads.

        Raises:
            CorpusError: none has a chain of two mentions, so that there is nothing to hold answers against.
        """
        documents = documents_of(paths, format, recipe, mapper)
        if not documents.found.stories:
            what, hint = "no coreference chain of two mentions", "name an annotated corpus, such as LitBank"
            raise CorpusError(", ".join(map(str, paths)), what, hint)
        return GoldItems(documents, {})

    def scored(self, item: Document) -> Document:
        """Its mentions, with the text: pronouns are scored apart from others."""
        return replace(super().scored(item), text=item.text)

    def card(self, recipe: Any) -> Card:
        """How to resolve texts with it."""
        return Card(
            train=recipe.corpus.train,
            dev=held_out_documents(recipe.corpus),
            about=["Finds coreference chains by mention ranking (Lee et al. 2017)."],
            commands=[
                f"rayner evaluate {FOLDER} CORPUS",
                f"rayner corpus resolve TEXTS --resolver rules --resolver ranking:{FOLDER} --out stories",
            ],
            python=[
                f'documents = rayner.load("{FOLDER}").predict(["Ada wrote it, and she signed it."])',
            ],
        )
