"""Documents with mentions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rayner.config import CorpusSettings, DocumentRecipe, TyperRecipe, TypeSettings
from rayner.data.schema import Document, documents_from_table, documents_to_table
from rayner.data.split import split
from rayner.data.writers import write_parquet
from rayner.metrics.intervals import span_intervals
from rayner.tasks.base import Mode, Predictor
from rayner.tasks.kinds.base import FOLDER, Card, GoldItems, Source
from rayner.tasks.splits import read_annotated, split_documents

log = logging.getLogger(__name__)

_TYPES_ON_A_CARD = 50


class Documents:
    """Documents, scored by the spans of their mentions."""

    name = "documents"
    metrics: Mapping[str, Mode] = dict.fromkeys(
        ("f1", "precision", "recall", "macro_f1", "start_f1", "end_f1", "loose_f1"), "max"
    )
    evaluation_options: Mapping[str, Any] = {}

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: DocumentRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
    ) -> GoldItems:
        """The documents of files in any format that `corpus convert` reads; the recipe's `corpus.rename`
        holds for them too. Mentions of types that are not looked for do not count; the log says so."""
        documents = documents_of(paths, format, recipe)
        _name_other_types(documents, types or getattr(predictor, "names", None))
        return GoldItems(documents, {})

    def intervals(
        self, gold: Sequence[Document], predicted: Sequence[Document], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Of span metrics."""
        return span_intervals(gold, predicted, list(metrics.get("per_type", {})) or None)

    def curves(self, gold: Sequence[Document], predicted: Sequence[Document]) -> dict[str, Any]:
        """None."""
        return {}

    def to_tables(self, gold: Sequence[Document], predicted: Sequence[Document]) -> dict[str, pa.Table]:
        """`gold` and `predictions`."""
        return {"gold": documents_to_table(gold), "predictions": documents_to_table(predicted)}

    def from_tables(self, tables: Mapping[str, pa.Table]) -> tuple[list[Document], list[Document]]:
        """What `to_tables` was given."""
        gold, predicted = (list(documents_from_table(tables[name])) for name in ("gold", "predictions"))
        return gold, predicted

    def card(self, recipe: DocumentRecipe) -> Card:
        """The types, and how to annotate."""
        return Card(
            train=recipe.corpus.train,
            dev=recipe.corpus.dev,
            about=["## Types", "", *types_on_a_card(recipe.types, "recipe.yaml")],
            commands=[
                f"rayner evaluate {FOLDER} CORPUS",
                f"rayner annotate {FOLDER} texts.jsonl --out annotated",
            ],
            python=[f'documents = rayner.load("{FOLDER}").predict(["Some text."])'],
        )

    def source(self, recipe: DocumentRecipe) -> Source:
        """Documents, of which no group (book, patient) is cut."""
        corpus = recipe.corpus
        changed = corpus.format != "auto" or corpus.annotated

        def documents(paths: Sequence[str]) -> Sequence[Document]:
            return read_annotated(paths, corpus).documents

        return Source(
            section="corpus",
            read=lambda: documents(corpus.train),
            cut=split,
            write=_write,
            suffix=".parquet",
            others={"dev": lambda: documents(corpus.dev)} if corpus.dev and changed else {},
            settled={"format": "auto", "annotated": {}},
        )


def types_on_a_card(types: Sequence[TypeSettings], file: str) -> list[str]:
    """A line a type, the others in one that names the file with all."""
    lines = [f"- **{t.name}**" + (f": {t.guidelines[0]}" if t.guidelines else "") for t in types]
    more = len(lines) - _TYPES_ON_A_CARD
    return lines if more <= 0 else [*lines[:_TYPES_ON_A_CARD], f"- and {more:,} more, in `{file}`"]


def documents_of(
    paths: Sequence[Path], format: str, recipe: DocumentRecipe | TyperRecipe
) -> Sequence[Document]:
    """The documents of files as they are evaluated; the recipe's `corpus.rename` holds for them too."""
    named = tuple(map(str, paths))
    settings = CorpusSettings(train=named, dev=named, format=format, rename=recipe.corpus.rename)
    return split_documents(settings, "dev")


def _write(documents: Sequence[Document], path: Path) -> None:
    write_parquet(documents, path)


def _name_other_types(documents: Sequence[Document], types: Sequence[str] | None) -> None:
    """Say which mentions are no part of the score."""
    if types is None:
        return
    known = set(types)
    others = Counter(m.type for d in documents for m in d.mentions if m.type not in known)
    if others:
        named = ", ".join(f"{name} ({count})" for name, count in others.most_common(10))
        log.warning("mentions of types that are not looked for do not count: %s", named)
