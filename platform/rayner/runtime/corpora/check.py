"""What is wrong with a corpus, alone or beside a recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from rayner.config import BaseRecipe, CorpusSettings, DocumentRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.data.corpus_check import Finding, Overlap, Widths
from rayner.data.corpus_check import check as find_faults
from rayner.data.readers import Reject, Unit, find_units, read_unit
from rayner.data.schema import Document
from rayner.data.windows import locate, split_into_subwords
from rayner.data.words import words_of
from rayner.errors import RecipeError
from rayner.tasks.registry import task_of, train_task
from rayner.tasks.splits import renamed


def check(
    paths: Sequence[Path] | Mapping[str, Sequence[Path]],
    given: BaseRecipe | None = None,
    format: str = "auto",
) -> dict[str, Any]:
    """Read a corpus and say what is wrong with it.

    Args:
        paths: the files of each split, or files of one corpus. With a recipe, those that it names are its
            splits, and its other splits are read too.
        given: a recipe. Of one that finds mentions, types and the widest span of the model are checked as
            well; of a typer, whether its list of types has their parents.

    Returns:
        `documents, mentions, types, repaired, rejected, errors, warnings, notes`, `kinds` (kind -> findings)
        and `findings`, each with `kind, severity, where, what, hint, document_id, split`.

    Raises:
        CorpusError: no such path, or no known format.
        RecipeError: the recipe's task has no documents.
    """
    if given is not None and not isinstance(getattr(given, "corpus", None), CorpusSettings):
        hint = "rayner kb check is for knowledge bases"
        raise RecipeError("--recipe", "the task learns from no corpus of documents", hint)
    recipe = cast(DocumentRecipe | None, given)
    finds_mentions = given is not None and task_of(given).kind.name == "documents"
    names = recipe.corpus.rename if recipe else {}
    splits = {name: _Split(units, names) for name, units in _units_by_split(paths, recipe, format).items()}
    task = train_task(recipe) if recipe else None
    # Others learn from documents too, but not the types of their mentions.
    typed = recipe if finds_mentions else None
    limit = getattr(task, "max_width", None) if typed else None
    found = find_faults(
        splits,
        # In a recipe, a type may stand for itself by its name.
        types={t.name: next(iter(t.guidelines), t.name) for t in typed.types} if typed else None,
        widths=_widths_of(typed) if typed and limit else None,
        max_span_width=limit,
        overlap="nested" if recipe and not typed else _overlap_of(typed),
        places={name: split.places for name, split in splits.items()},
    )
    rejects = [_as_finding(reject, name) for name, split in splits.items() for reject in split.rejects]
    parents = _without_parents(getattr(task, "missing_parents", {}))
    findings = [*rejects, *map(asdict, [*found.findings, *parents])]
    severities = Counter(finding["severity"] for finding in findings)
    types = sum((split.types for split in splits.values()), Counter())
    return {
        "documents": sum(len(split.places) for split in splits.values()),
        "mentions": types.total(),
        "types": dict(types.most_common()),
        "repaired": sum(split.repaired for split in splits.values()),
        "rejected": len(rejects),
        "errors": severities["error"],
        "warnings": severities["warning"],
        "notes": severities["note"],
        "kinds": dict(Counter(finding["kind"] for finding in findings).most_common()),
        "findings": findings,
    }


class _Split:
    """The documents of a split, one unit in memory at a time, with what is learned while they pass."""

    def __init__(self, units: Sequence[Unit], names: Mapping[str, str]) -> None:
        self.units = units
        self.names = names
        self.places: list[str] = []
        self.rejects: list[Reject] = []
        self.types: Counter[str] = Counter()
        self.repaired = 0

    def __iter__(self) -> Iterator[Document]:
        for unit in self.units:
            reading = read_unit(unit)
            self.places += reading.places
            self.rejects += reading.rejects
            self.repaired += reading.repaired.total()
            for document in reading.documents:
                document = renamed(document, self.names)
                self.types.update(mention.type for mention in document.mentions)
                yield document


def _units_by_split(
    paths: Sequence[Path] | Mapping[str, Sequence[Path]], recipe: DocumentRecipe | None, format: str
) -> dict[str, list[Unit]]:
    splits: dict[str, list[Path]] = {}
    if recipe is not None:
        format = recipe.corpus.format if format == "auto" else format
        named = {"train": recipe.corpus.train, "dev": recipe.corpus.dev}
        splits = {name: corpus_paths(of_split) for name, of_split in named.items() if of_split}
    if isinstance(paths, Mapping):
        splits |= {name: list(of_split) for name, of_split in paths.items()}
    else:
        known = {path.resolve() for of_split in splits.values() for path in of_split}
        rest = [path for path in paths if path.resolve() not in known]
        splits |= {"corpus": rest} if rest else {}
    return {name: find_units(of_split, format) for name, of_split in splits.items()}


def _widths_of(recipe: DocumentRecipe) -> Widths:
    from rayner.models.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(recipe.encoder)

    def widths(document: Document) -> list[int]:
        words = words_of(document, recipe.windows.words)
        subwords = split_into_subwords(document.text, words, tokenizer, tokenizer.unk_id)
        places = [locate(subwords, mention.start, mention.end) for mention in document.mentions]
        return [place[1] - place[0] + 1 if place else 0 for place in places]

    return widths


def _overlap_of(recipe: DocumentRecipe | None) -> Overlap:
    if recipe is None:
        return "unknown"
    return getattr(getattr(recipe, "decoding", None), "overlap", "outer")


def _without_parents(missing: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    for above, below in missing.items():
        more = f" and of {len(below) - 1} more" if len(below) > 1 else ""
        what = f"{above!r}, the parent of {below[0]!r}{more}, is none of the types"
        yield Finding("type without a parent", "warning", "types", what, "add it: else no answer holds it")


def _as_finding(reject: Reject, split: str) -> dict[str, Any]:
    return {"kind": "unreadable", "severity": "error", **reject.to_row(), "split": split}
