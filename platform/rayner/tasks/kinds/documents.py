"""Documents with mentions."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rayner.config import CorpusSettings, DocumentRecipe, TyperRecipe, TypeSettings
from rayner.config.coreference import CoreferenceRecipe
from rayner.config.documents import listed_types
from rayner.data.schema import UNKNOWN, Document, documents_from_table, documents_to_table
from rayner.data.split import split_keys, splits_of
from rayner.data.writers.parquet import parquet_file
from rayner.files.fetching import is_there
from rayner.files.uris import expanded, uri_of
from rayner.metrics.intervals import span_intervals
from rayner.tasks.base import Mode, ParallelMap, Predictor, type_names
from rayner.tasks.kinds.base import FOLDER, Card, GoldItems, Kind, Source, held_out_documents
from rayner.tasks.splits import Change, FoundDocuments, Split, change_of, document_units, read_documents

log = logging.getLogger(__name__)

MOST_TYPES = 10
"""That a line of the log names."""

_TYPES_ON_A_CARD = 50
_DOCUMENTS_AT_ONCE, _CHARACTERS_AT_ONCE = 1024, 1 << 20


@dataclass(frozen=True)
class StreamedDocuments:
    """The documents of a split, read part by part each time that they are gone through: none are held.

    Attributes:
        mapper: how the files are read once before, to see what is in them.

    Raises:
        InputError: as `splits.document_units` and `splits.read_documents`, when it is first asked for any.
    """

    corpus: CorpusSettings
    split: Split
    mapper: ParallelMap = map

    @cached_property
    def change(self) -> Change:
        """What the corpus makes of a document that was read."""
        return change_of(self.corpus, self.split)

    @cached_property
    def found(self) -> FoundDocuments:
        """Where the documents are, and how many mentions each type has in them."""
        return document_units(self.corpus, self.split, self.change, self.mapper)

    def __iter__(self) -> Iterator[Document]:
        for unit in self.found.units:
            yield from read_documents(unit, self.change)


class AnyDocuments(Kind):
    """Documents, however they are scored."""

    are_documents = True

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: DocumentRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
        mapper: ParallelMap = map,
    ) -> GoldItems:
        """As `documents_of`, in any format that `corpus convert` reads; the log says where no mention is."""
        return GoldItems(_annotated_documents(paths, format, recipe, mapper), {})

    def scored(self, item: Document) -> Document:
        """Its mentions, without the text: a corpus is larger than what is said of it."""
        return replace(item, text="", words=None, sentences=None, contexts=(), sentence_contexts=None)

    def to_tables(self, gold: Sequence[Document], predicted: Sequence[Document]) -> dict[str, pa.Table]:
        """`gold` and `predictions`."""
        return {"gold": documents_to_table(gold), "predictions": documents_to_table(predicted)}

    def from_tables(self, tables: Mapping[str, pa.Table]) -> tuple[list[Document], list[Document]]:
        """What `to_tables` was given."""
        gold, predicted = (list(documents_from_table(tables[name])) for name in ("gold", "predictions"))
        return gold, predicted

    def source(self, recipe: DocumentRecipe) -> Source:
        """Documents, of which no group (book, patient) is cut."""
        corpus = recipe.corpus
        changed = corpus.format != "auto" or corpus.annotated
        # As they are in the files, but for what was said of these: the parts are read by the same recipe.
        plain = {"rename": {}, "dictionary": None, "phrases": None, "dev_fraction": 0}
        plainly = corpus.model_copy(update=plain)
        return Source(
            section="corpus",
            items=lambda: StreamedDocuments(plainly, "train"),
            parts=_parts,
            writing=parquet_file,
            suffix=".parquet",
            others={"dev": lambda: StreamedDocuments(plainly, "dev")} if corpus.dev and changed else {},
            settled={"format": "auto", "annotated": {}},
        )


class Documents(AnyDocuments):
    """Documents, scored by the spans of their mentions."""

    name = "documents"
    metrics: Mapping[str, Mode] = dict.fromkeys(
        ("f1", "precision", "recall", "macro_f1", "start_f1", "end_f1", "loose_f1"), "max"
    )
    have_types = True
    report_parts: Sequence[str] = (
        "types",
        "added_types",
        "thresholds",
        "similarities",
        "mention_confidence",
        "errors",
    )
    about_scores = (
        "Intervals: bootstrap over documents. "
        "Start, end and loose F1 ask for the right type and that boundary, or any overlap."
    )

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: DocumentRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
        mapper: ParallelMap = map,
    ) -> GoldItems:
        """As `documents_of`, in any format that `corpus convert` reads. Mentions of types that are not looked
        for do not count; the log says so, and where there is no mention at all."""
        documents = _annotated_documents(paths, format, recipe, mapper)
        outcome = "mentions of types that are not looked for do not count"
        name_other_types(documents.found.mentions, types or type_names(predictor) or None, outcome)
        return GoldItems(documents, {})

    def intervals(
        self, gold: Sequence[Document], predicted: Sequence[Document], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Of span metrics."""
        return span_intervals(gold, predicted, list(metrics.get("per_type", {})) or None)

    def card(self, recipe: DocumentRecipe) -> Card:
        """The types, where the recipe lists some, and how to annotate."""
        types = listed_types(recipe)
        return Card(
            train=recipe.corpus.train,
            dev=held_out_documents(recipe.corpus),
            about=["## Types", "", *types_on_a_card(types, "recipe.yaml")] if types else [],
            commands=[
                f"rayner evaluate {FOLDER} CORPUS",
                f"rayner annotate {FOLDER} texts.jsonl --out annotated",
            ],
            python=[f'documents = rayner.load("{FOLDER}").predict(["Some text."])'],
        )


def types_on_a_card(types: Sequence[TypeSettings], file: str) -> list[str]:
    """A line a type, the others in one that names the file with all."""
    lines = [f"- **{t.name}**" + (f": {t.guidelines[0]}" if t.guidelines else "") for t in types]
    more = len(lines) - _TYPES_ON_A_CARD
    return lines if more <= 0 else [*lines[:_TYPES_ON_A_CARD], f"- and {more:,} more, in `{file}`"]


def documents_of(
    paths: Sequence[Path],
    format: str,
    recipe: DocumentRecipe | TyperRecipe | CoreferenceRecipe,
    mapper: ParallelMap = map,
) -> StreamedDocuments:
    """The documents of files as they are evaluated; the recipe's `corpus.rename` holds for them too, and what
    `corpus.annotated` says of the same files."""
    named, annotated = tuple(map(str, paths)), _annotated(recipe.corpus, paths)
    corpus = CorpusSettings(
        train=(*named, *annotated),
        dev=named,
        format=format,
        rename=recipe.corpus.rename,
        annotated=annotated,
    )
    return StreamedDocuments(corpus, "dev", mapper)


def _annotated_documents(
    paths: Sequence[Path], format: str, recipe: DocumentRecipe, mapper: ParallelMap
) -> StreamedDocuments:
    """Documents to score answers on: the log says where they have no mention."""
    documents = documents_of(paths, format, recipe, mapper)
    if not documents.found.mentions:
        named = ", ".join(map(str, paths))
        log.warning("%s: no mentions to score against; name an annotated corpus", named)
    return documents


def _annotated(corpus: CorpusSettings, paths: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """What a recipe says that paths were annotated for, or a part of them; a path counts as it is given."""
    found: dict[str, tuple[str, ...]] = {}
    for name, types in corpus.annotated.items():
        place = _place(Path(expanded(name)))
        for path in paths:
            read = _place(path)
            if f"{read}/".startswith(f"{place}/"):
                found[str(path)] = types
            elif place.startswith(f"{read}/") and is_there(part := path / os.path.relpath(place, read)):
                found[str(part)] = types
    return found


def _place(path: Path) -> str:
    return uri_of(path) or os.path.abspath(path)


def _parts(documents: Iterable[Document], fractions: Mapping[str, float], seed: int) -> np.ndarray:
    """Of each document, only what decides where it goes is held."""
    keys, held, characters = [split_keys([], seed)], list[Document](), 0
    for document in documents:
        held.append(document)
        characters += len(document.text)
        if characters >= _CHARACTERS_AT_ONCE or len(held) == _DOCUMENTS_AT_ONCE:
            keys.append(split_keys(held, seed))
            held, characters = [], 0
    return splits_of(pa.concat_tables([*keys, split_keys(held, seed)]), fractions)


def name_other_types(mentions: Mapping[str, int], types: Sequence[str] | None, outcome: str) -> None:
    """Say which annotated types are not looked for, what becomes of them, and whether none is looked for.

    Args:
        mentions: of each annotated type.
        types: those that are looked for; None for all.
    """
    known = set(mentions if types is None else types)
    if known.isdisjoint(mentions):
        log.warning("no mention is annotated of a type that is looked for: scores of 0 tell nothing")
    others = Counter({name: count for name, count in mentions.items() if name not in {*known, UNKNOWN}})
    if others:
        named = ", ".join(f"{name} ({count})" for name, count in others.most_common(MOST_TYPES))
        more = f" and {len(others) - MOST_TYPES:,} more" if len(others) > MOST_TYPES else ""
        log.warning("%s: %s%s", outcome, named, more)
