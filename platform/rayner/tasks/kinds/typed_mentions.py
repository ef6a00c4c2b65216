"""Documents whose mentions are given and have fine types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rayner.config import TyperRecipe
from rayner.counted import counted
from rayner.data.fine_types import gold_types
from rayner.data.schema import Document
from rayner.errors import CorpusError
from rayner.metrics.typed_mentions import typed_items
from rayner.metrics.typing_intervals import typing_intervals
from rayner.tasks.base import Mode, ParallelMap, Predictor, Unit, fine_type_names
from rayner.tasks.kinds.base import FOLDER, Card, GoldItems, held_out_documents
from rayner.tasks.kinds.documents import AnyDocuments, documents_of, name_other_types, types_on_a_card
from rayner.tasks.splits import Change, read_documents


class TypedMentions(AnyDocuments):
    """Documents, scored by the fine types of their mentions. `types` of a mention are its gold types; of one
    without any, its own type is."""

    name = "typed_mentions"
    metrics: Mapping[str, Mode] = dict.fromkeys(
        (
            "macro_f1",
            "micro_f1",
            "accuracy",
            "macro_precision",
            "macro_recall",
            "micro_precision",
            "micro_recall",
        ),
        "max",
    )
    report_parts: Sequence[str] = ("types", "type_confidence")

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: TyperRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
        mapper: ParallelMap = map,
    ) -> GoldItems:
        """The documents of files in any format that `corpus convert` reads; the recipe's `corpus.rename`
        holds for them too. The notes have `untyped`, mentions whose types nobody said: they do not count. The
        log names types that the predictor does not look for.

        Args:
            types: only mentions that have one of these types.

        Raises:
            CorpusError: no mention has a type.
        """
        documents = documents_of(paths, format, recipe, mapper)
        wanted = None if types is None else frozenset(types)
        # Gone through once more before anything is answered: it costs little beside the answers.
        counts = mapper(partial(_typed, documents.change, wanted), documents.found.units)
        typed: Counter[Any] = sum(counts, Counter())
        untyped, mentions = typed.pop(False, 0), typed.pop(True, 0)
        if not mentions:
            what = f"{counted(untyped, 'mention')}, none with a type"
            raise CorpusError(", ".join(map(str, paths)), what, "name a corpus whose mentions have types")
        outcome = "types that are not looked for count as not found"
        name_other_types(typed, fine_type_names(predictor) or None, outcome)
        return GoldItems((_of_types(d, wanted) for d in documents), {"untyped": untyped})

    def intervals(
        self, gold: Sequence[Document], predicted: Sequence[Document], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Of typing metrics, over documents."""
        items = [typed_items([one], [other]) for one, other in zip(gold, predicted, strict=True)]
        right = [types for of_document, _ in items for types in of_document]
        answered = [types for _, of_document in items for types in of_document]
        return typing_intervals(right, answered, [len(of_document) for of_document, _ in items])

    def card(self, recipe: TyperRecipe) -> Card:
        """The types, and how to type mentions."""
        return Card(
            train=recipe.corpus.train,
            dev=held_out_documents(recipe.corpus),
            about=[
                "## Types",
                "",
                "It types mentions that are there: in a pipeline, after a stage that finds them.",
                "`types.json` lists the types, with how often each occurs in training.",
                "",
                *types_on_a_card(recipe.types, "types.json"),
            ],
            commands=[
                f"rayner evaluate {FOLDER} CORPUS",
                f"rayner annotate {FOLDER} documents_with_mentions.jsonl --out typed",
            ],
            python=[
                "from rayner.data.schema import Document, Mention",
                "",
                'document = Document("1", "Ada wrote it.", (Mention(0, 3, "mention"),))',
                f'documents = rayner.load("{FOLDER}").predict([document])',
            ],
        )


def _typed(change: Change, wanted: Set[str] | None, unit: Unit) -> Counter[str | bool]:
    """How many mentions of a unit have gold types (True), have none (False), and have each type."""
    found = Counter[str | bool]()
    for document in read_documents(unit, change):
        for types in map(gold_types, _of_types(document, wanted).mentions):
            found.update([bool(types), *types])
    return found


def _of_types(document: Document, wanted: Set[str] | None) -> Document:
    """The document with those of its mentions that have one of the types."""
    if wanted is None:
        return document
    return replace(document, mentions=tuple(m for m in document.mentions if wanted & {*gold_types(m)}))
