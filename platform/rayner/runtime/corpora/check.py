"""What is wrong with a corpus, alone or beside a recipe."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from rayner.config import BaseRecipe, CorpusSettings, DocumentRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.data import scans
from rayner.data.corpus_check import (
    Finding,
    Overlap,
    empty_split,
    type_findings,
)
from rayner.data.readers import FileUnit, find_units
from rayner.errors import RecipeError
from rayner.runtime.corpora.kept_parts import (
    SMALL_BYTES,
    clashes_of,
    mapper_for,
    with_patience,
)
from rayner.runtime.corpora.part_findings import Listed, PartCheck, SplitPart, unreadable
from rayner.runtime.corpora.seen_parts import SeenParts
from rayner.runtime.progress import track
from rayner.tasks.base import ParallelMap
from rayner.tasks.numbered_parts import in_order_of_parts
from rayner.tasks.registry import task_of, train_task
from rayner.tasks.splits import FoundDocuments, Split, change_of

DOING = "check"


def check(
    paths: Sequence[Path] | Mapping[str, Sequence[Path]],
    given: BaseRecipe | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Read a corpus and say what is wrong with it.

    Args:
        paths: the files of each split, or files of one corpus. With a recipe, those that it names are its
            splits, and its other splits are read too.
        given: a recipe. The documents are seen as it changes them: with `corpus.dictionary`, those of train
            have its labels in place of their mentions. Of one that finds mentions, types and the widest span
            of the model are checked as well; of a typer, whether its list of types has their parents; of
            both, whether training would refuse what its splits hold.
        workers: Ray tasks at once, which must see the files; 0 reads in this process, None decides by the
            size of the corpus. The result is the same.

    Returns:
        `documents, mentions, types, repaired, rejected, errors, warnings, notes`, `kinds` (kind -> findings)
        and `findings`, each with `kind, severity, where, what, hint, document_id, split`: what cannot be
        read, then the others, in the order of the documents. Of each kind and severity the first 10,000 are
        listed; where there are more, `unlisted` says how many.

    Raises:
        CorpusError: no such path, no known format, or a dictionary that cannot be read.
        RecipeError: the recipe's task has no documents.
        RaynerError: a file cannot be read now, or changed meanwhile.
    """
    if given is not None and not isinstance(getattr(given, "corpus", None), CorpusSettings):
        hint = "rayner kb check is for knowledge bases"
        raise RecipeError("--recipe", "the task learns from no corpus of documents", hint)
    recipe = cast(DocumentRecipe | None, given)
    task = train_task(recipe) if recipe else None
    # Others learn from documents too, but not the types of their mentions.
    typed = recipe if recipe and task_of(recipe).kind.have_types else None
    units = _units_by_split(paths, recipe)
    given_here = any(not os.path.isabs(unit.paths[0]) for of_split in units.values() for unit in of_split)
    check_part = PartCheck(
        {name: change_of(recipe.corpus, _kind_of(name)) for name in units} if recipe else {},
        "nested" if recipe and not typed else _overlap_of(typed),
        typed,
        task.max_width if task and typed else None,
        f"{Path.cwd()}/" if given_here else "",
        given is not None and task_of(given).stage == "types",
    )
    with TemporaryDirectory(prefix="rayner-check-") as folder:
        placed = {name: [_absolute(unit) for unit in of_split] for name, of_split in units.items()}
        files = [part for of_split in placed.values() for part in scans.cut_parts(of_split)]
        mapper = mapper_for(files, workers, SMALL_BYTES)
        seen = _seen(placed, files, check_part, mapper, Path(folder))
        summary = _Summary(list(units))
        for part, again in zip(seen.parts, seen.repetitions(), strict=True):
            summary.add(part, seen.rows(part.number), seen.told(part.number), again)
    # In a recipe, a type may stand for itself by its name.
    types = {t.name: next(iter(t.guidelines), t.name) for t in typed.types} if typed else None
    own = list(task.findings(mapper)) if task else []
    own += task.split_findings(summary.found(), mapper) if task else []
    return summary.result(types, own)


def _units_by_split(
    paths: Sequence[Path] | Mapping[str, Sequence[Path]], recipe: DocumentRecipe | None
) -> dict[str, list[FileUnit]]:
    splits: dict[str, list[Path]] = {}
    if recipe is not None:
        named = {"train": recipe.corpus.train, "dev": recipe.corpus.dev}
        splits = {name: corpus_paths(of_split) for name, of_split in named.items() if of_split}
    if isinstance(paths, Mapping):
        splits |= {name: list(of_split) for name, of_split in paths.items()}
    else:
        known = {path.resolve() for of_split in splits.values() for path in of_split}
        rest = [path for path in paths if path.resolve() not in known]
        splits |= {"corpus": rest} if rest else {}
    format = "auto" if recipe is None else recipe.corpus.format
    return {name: find_units(of_split, format) for name, of_split in splits.items()}


def _seen(
    placed: Mapping[str, Sequence[FileUnit]],
    files: Sequence[scans.Part],
    check_part: PartCheck,
    mapper: ParallelMap,
    folder: Path,
) -> SeenParts:
    """All parts, looked at."""
    in_large = (unit for part in files if part.size >= 2 * scans.PART_BYTES for unit in part.units)
    large = [unit for unit in in_large if scans.is_large(unit)]
    pieces = dict(zip(large, _cut(large, mapper), strict=True))
    parts: list[SplitPart] = []
    for name, of_split in placed.items():
        cut = (piece for unit in of_split for piece in pieces.get(unit, [unit]))
        parts += [SplitPart(0, name, part) for part in scans.cut_parts(cut)]
    parts = [part._replace(number=number) for number, part in enumerate(parts)]
    seen = SeenParts(folder, parts)
    for number, of_part in track(mapper(check_part, parts), len(parts), DOING):
        seen.put(number, of_part)
    _leave_out(seen, mapper, check_part)
    return seen


def _absolute(unit: FileUnit) -> FileUnit:
    """For the workers of a cluster, which have another working directory."""
    relative = any(not Path(path).is_absolute() for path in unit.paths)
    return replace(unit, paths=tuple(str(Path(path).absolute()) for path in unit.paths)) if relative else unit


def _cut(large: Sequence[FileUnit], mapper: ParallelMap) -> list[list[FileUnit]]:
    def tracked(work: Callable[[Any], Any], units: Sequence[Any]) -> Iterator[Any]:
        return track(mapper(work, units), len(units), "cut large files")

    return in_order_of_parts(tracked, _pieces_of, large)


def _pieces_of(unit: FileUnit) -> list[FileUnit]:
    return with_patience(lambda: scans.parts_of(None, unit), unit, kept=False)


def _leave_out(seen: SeenParts, mapper: ParallelMap, check_part: PartCheck) -> None:
    """Of a cut file, each document once, as of a file that is read at once: parts with others are looked at
    again without them."""
    again: dict[int, SplitPart] = {}
    clashes: dict[int, list[dict[str, Any]]] = {}
    twice: Counter[int] = Counter()
    for part, table in seen.in_cut_files():
        number = part.number
        left_out = again.get(number, part).left_out | set(table["number"].to_pylist())
        again[number] = part._replace(left_out=left_out)
        found = clashes_of(table)
        clashes.setdefault(number, []).extend(found)
        twice[number] += len(table) - len(found)
    for number, of_part in mapper(check_part, list(again.values())):
        of_part.repaired += twice[number]
        for row in clashes[number]:
            of_part.clashes.add(unreadable(**row, split=seen.parts[number].split))
        seen.put(number, of_part)


class _Summary:
    """What was seen of all parts, taken up in their order."""

    def __init__(self, splits: Sequence[str]) -> None:
        self._splits = splits
        self._documents, self._mentions = Counter[str](), Counter[str]()
        self._types = {split: Counter[str]() for split in splits}
        self._used: dict[str, str] = {}
        self._repaired = 0
        self._unreadable = {split: (Listed(), Listed()) for split in splits}
        self._others = {split: Listed() for split in splits}

    def add(
        self, part: SplitPart, documents: int, told: Mapping[str, Any], again: Mapping[int, Sequence[Any]]
    ) -> None:
        """A part.

        Args:
            told: see `SeenParts.told`.
            again: by the number of the document, what is wrong with it beside those before it.
        """
        self._documents[part.split] += documents
        self._mentions[part.split] += told["mentions"]
        self._types[part.split].update(told["types"])
        for name, where in told["used"].items():
            self._used.setdefault(name, where)
        self._repaired += told["repaired"]
        for listed, name in zip(self._unreadable[part.split], ("rejects", "clashes"), strict=True):
            listed.add_listed((row for _, row in told[name]["rows"]), _counter(told[name]["counts"]))
        listed = self._others[part.split]
        repeats = [(number, row) for number, rows in again.items() for row in rows]
        counts = _counter(told["own"]["counts"]) + Counter((r["severity"], r["kind"]) for _, r in repeats)
        rows = sorted([*told["own"]["rows"], *repeats], key=lambda found: found[0])
        listed.add_listed((row for _, row in rows), counts)

    def found(self) -> dict[str, FoundDocuments]:
        """What is in train, and in the other splits that have mentions; no units."""
        held = {split for split in self._splits if self._mentions[split]}
        held |= {"train"} if self._documents["train"] else set()
        return {split: FoundDocuments([], self._types[split], self._types[split], 0) for split in held}

    def result(self, types: Mapping[str, str | None] | None, own: Sequence[Finding]) -> dict[str, Any]:
        """What `check` returns.

        Args:
            types: the described types.
            own: what else is wrong by the recipe's task.
        """
        every = Listed()
        for listed in (listed for of_split in self._unreadable.values() for listed in of_split):
            every.add_listed((row for _, row in listed.rows), listed.counts)
        rejected = every.counts.total()
        told = {finding.split for finding in own}
        for split in self._splits:
            listed = self._others[split]
            every.add_listed((row for _, row in listed.rows), listed.counts)
            if not self._mentions[split] and split not in told:
                every.add(empty_split(split, self._documents[split]))
        for finding in [*(type_findings(types, self._used) if types is not None else ()), *own]:
            every.add(finding)
        kinds, severities = Counter[str](), Counter[str]()
        for (severity, kind), count in every.counts.items():
            kinds[kind] += count
            severities[severity] += count
        unlisted = every.counts.total() - len(every.rows)
        return {
            "documents": self._documents.total(),
            "mentions": self._mentions.total(),
            "types": dict(sum(self._types.values(), Counter[str]()).most_common()),
            "repaired": self._repaired,
            "rejected": rejected,
            "errors": severities["error"],
            "warnings": severities["warning"],
            "notes": severities["note"],
            "kinds": dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
            **({"unlisted": unlisted} if unlisted else {}),
            "findings": [row for _, row in every.rows],
        }


def _kind_of(name: str) -> Split:
    """How a split is read: the dictionary is for train alone."""
    return "train" if name == "train" else "dev"


def _counter(items: Sequence[Sequence[Any]]) -> Counter[tuple[str, str]]:
    """The counts by severity and kind, from JSON."""
    return Counter({(severity, kind): count for (severity, kind), count in items})


def _overlap_of(recipe: DocumentRecipe | None) -> Overlap:
    if recipe is None:
        return "unknown"
    return getattr(getattr(recipe, "decoding", None), "overlap", "outer")
