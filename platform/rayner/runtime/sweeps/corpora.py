"""The corpora of a sweep's runs: folds for cross-validation, and a part that no trial sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe, DocumentRecipe, StandardizerRecipe
from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import MentionString
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.split import split
from rayner.data.writers import write_parquet
from rayner.data.writers.base import text_file
from rayner.errors import InputError
from rayner.recipes import corpus_paths, with_settings

FOLDER = "corpora"
_HELD_OUT_SEED = 1
"""Other than that of `dev_fraction` and of folds, so that what is held out cuts through all of them."""

Changes = Mapping[str, Any]
"""Settings that put a part of a recipe's corpus in the corpus's place."""


@dataclass(frozen=True, slots=True)
class Corpora:
    """The corpora of a sweep, as changes of its recipe.

    `folds` has one entry a run, a single one without changes where there is no cross-validation; `rest` is
    all that is not held out; `held_out` has the held-out part as its dev, None where nothing is held out.
    """

    folds: Sequence[Changes]
    rest: Changes
    held_out: Changes | None


@dataclass(frozen=True, slots=True)
class _Source:
    """The training items of a recipe: the section that names them, and how to cut and write them."""

    section: str
    read: Callable[[], Sequence[Any]]
    others: Mapping[str, Callable[[], Sequence[Any]]]
    """Parts of the section beside `train` that `settled` would change."""
    cut: Callable[[Sequence[Any], Mapping[str, float], int], Mapping[str, Sequence[Any]]]
    write: Callable[[Sequence[Any], Path], None]
    suffix: str
    settled: Changes
    """Settings that reading has done already, for the training items and for `others`."""


def cut_corpora(recipe: BaseRecipe, folder: Path, folds: int, held_out: float) -> Corpora:
    """Write the parts of the recipe's training corpus that a sweep needs, the same each time.

    Groups (books, patients) and equal mention strings stay together. The recipe's own dev keeps its items; a
    cross-validation leaves it for the run of the winner.

    Raises:
        InputError: there is nothing to choose settings by.
        CorpusError: a part would be empty.
    """
    source = _source(recipe)
    section = getattr(recipe, source.section)
    if not folds and not section.dev and not section.dev_fraction:
        hint = f"give {source.section}.dev, {source.section}.dev_fraction or --folds"
        raise InputError(source.section, "has no dev to choose settings by", hint)
    if not folds and not held_out:
        return Corpora([{}], {}, None)

    def written(items: Sequence[Any], name: str) -> list[str]:
        path = folder / f"{name}{source.suffix}"
        if not path.exists():
            source.write(items, path)
        return [str(path)]

    items = source.read()
    settled = {name: written(read(), name) for name, read in source.others.items()}
    settled |= source.settled
    rest: Changes = {}
    alone: Changes | None = None
    if held_out:
        parts = source.cut(items, {"rest": 1 - held_out, "held_out": held_out}, _HELD_OUT_SEED)
        items = parts["rest"]
        rest = {**settled, "train": written(items, "rest")}
        apart = written(parts["held_out"], "held_out")
        alone = {**rest, "dev": apart, "dev_fraction": 0}
    fold_changes = [rest]
    if folds:
        parts = source.cut(items, {str(fold): 1 / folds for fold in range(folds)}, 0)
        fold_changes = []
        for name, dev in parts.items():
            others = [item for other, part in parts.items() if other != name for item in part]
            train, own = written(others, f"fold{name}_train"), written(dev, f"fold{name}_dev")
            fold_changes.append({**settled, "train": train, "dev": own, "dev_fraction": 0})
    found = Corpora(
        folds=[_dotted(source.section, changes) for changes in fold_changes],
        rest=_dotted(source.section, rest),
        held_out=None if alone is None else _dotted(source.section, alone),
    )
    for changes in (*found.folds, found.rest, found.held_out or {}):
        with_settings(recipe, changes, "the parts of the corpus")
    return found


def _dotted(section: str, changes: Changes) -> dict[str, Any]:
    return {f"{section}.{key}": value for key, value in changes.items()}


def _source(recipe: BaseRecipe) -> _Source:
    if isinstance(recipe, DocumentRecipe):
        corpus = recipe.corpus

        def documents(paths: Sequence[str]) -> Sequence[Document]:
            return read_corpus(corpus_paths(paths), corpus.format).documents

        return _Source(
            section="corpus",
            read=lambda: documents(corpus.train),
            others={"dev": lambda: documents(corpus.dev)} if corpus.dev and corpus.format != "auto" else {},
            cut=_cut_documents,
            write=_write_documents,
            suffix=".parquet",
            settled={"format": "auto"},
        )
    if isinstance(recipe, StandardizerRecipe):
        mentions = recipe.mentions

        def strings(paths: Sequence[str], types: Sequence[str]) -> Sequence[MentionString]:
            return read_mention_strings(corpus_paths(paths), mentions.format, types).mentions

        others: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        if mentions.dev and (mentions.types or mentions.format != "auto"):
            others["dev"] = (mentions.dev, mentions.types)
        if mentions.negatives and mentions.format != "auto":
            # Of all types, as without a sweep.
            others["negatives"] = (mentions.negatives, ())
        return _Source(
            section="mentions",
            read=lambda: strings(mentions.train, mentions.types),
            others={name: partial(strings, *given) for name, given in others.items()},
            cut=_cut_mentions,
            write=_write_mentions,
            suffix=".jsonl",
            settled={"format": "auto", "types": []},
        )
    raise InputError(
        "rayner tune", f"knows no items of the task {getattr(recipe, 'task', recipe)!r} to split"
    )


def _write_documents(documents: Sequence[Document], path: Path) -> None:
    write_parquet(documents, path)


def _cut_documents(
    documents: Sequence[Document], fractions: Mapping[str, float], seed: int
) -> Mapping[str, Sequence[Document]]:
    return split(documents, fractions, seed)


def _cut_mentions(
    mentions: Sequence[MentionString], fractions: Mapping[str, float], seed: int
) -> Mapping[str, Sequence[MentionString]]:
    """By the string without case, as documents are by their group."""
    strings = {m.text.casefold(): Document(m.text.casefold(), m.text) for m in mentions}
    parts = split(list(strings.values()), fractions, seed)
    part_of = {document.document_id: name for name, part in parts.items() for document in part}
    cut: dict[str, list[MentionString]] = {name: [] for name in parts}
    for mention in mentions:
        cut[part_of[mention.text.casefold()]].append(mention)
    return cut


def _write_mentions(mentions: Sequence[MentionString], path: Path) -> None:
    with text_file(path) as file:
        for mention in mentions:
            row: dict[str, Any] = {"mention": mention.text}
            if mention.type is not None:
                row["type"] = mention.type
            ids = list(mention.entity_ids)
            # What a field holds depends on the knowledge base: `C++` may be one id of it.
            if mention.whole is not None:
                row["entity_ids"] = mention.whole
            else:
                row["entity_id"] = ids[0] if len(ids) == 1 else ids or None
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
