"""Parts of a corpus that other code made are not taken up again: their key has all code that shapes them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rayner.runtime.corpora import convert, resolve

FOLLOWED = {"data", "metrics", "models", "retrieval", "supervision", "tasks"}
"""Packages that can shape a part; the runtime only decides where and when it is made."""
OF_CONVERSION = {
    # Where files are cut, which is in the key, and how a training reads what others wrote.
    *("data/scans", "data/plans", "data/example_sets"),
    # What is logged, scored at the end, or used by type checkers alone.
    *("data/warned_once", "metrics/spans", "tasks/base"),
    # The names that it reads are in the key.
    "supervision/dictionary_files",
}
OF_RESOLVING = {
    # How files and settings of a checkpoint are found; its version is in the key.
    *("models/sources", "tasks/checkpoint_files", "tasks/predictor_options", "tasks/registry"),
    "tasks/stages",
    # What is learned from, and how: a resolver only answers.
    *("tasks/splits", "tasks/unit_task", "metrics/coreference"),
    *("data/corpus_check", "tasks/card", "tasks/contexts/in_recipes"),
    # Answers are the same however they are batched, in how many threads, and whatever is checked first.
    *("tasks/predict", "data/batches", "models/threads", "models/finite"),
}


def digested(package: Path, patterns: Iterable[str]) -> dict[str, set[str]]:
    """Pattern -> the modules whose source it names."""
    found = {pattern: [*package.glob(f"{pattern}.py")] for pattern in patterns}
    return {pattern: {named(package, path) for path in paths} for pattern, paths in found.items()}


def named(package: Path, path: Path) -> str:
    return path.relative_to(package).with_suffix("").as_posix().removesuffix("/__init__")


def source_of(package: Path, name: str) -> Path | None:
    places = (package / f"{name}.py", package / name / "__init__.py")
    return next((path for path in places if path.is_file()), None)


def imported(package: Path, path: Path) -> Iterator[str]:
    """The modules of the package that a module imports anywhere, also in a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rayner."):
            module = str(node.module).removeprefix("rayner.").replace(".", "/")
            below = (f"{module}/{alias.name}" for alias in node.names)
            yield from (name if source_of(package, name) else module for name in below)


def reached(package: Path, roots: Iterable[str], apart: set[str]) -> tuple[set[str], set[str]]:
    """The modules by which the roots come to their result, and those apart at which the search ended."""
    found, ended, waiting = set[str](), set[str](), [*roots]
    while waiting:
        name = waiting.pop()
        if name in apart:
            ended.add(name)
        elif name not in found and (path := source_of(package, name)):
            found.add(name)
            waiting += (one for one in imported(package, path) if one.partition("/")[0] in FOLLOWED)
    return found, ended


@pytest.mark.parametrize(
    ("roots", "own", "others", "apart"),
    [
        (
            ("runtime/corpora/convert", "runtime/corpora/kept_parts"),
            convert.SOURCES,
            (),
            OF_CONVERSION,
        ),
        (
            ("runtime/corpora/resolve",),
            resolve.SOURCES,
            convert.SOURCES,
            OF_RESOLVING | OF_CONVERSION - {"data/scans", "metrics/spans", "supervision/dictionary_files"},
        ),
    ],
)
def test_the_key_of_a_part_has_all_code_that_shapes_it(
    root: Path, roots: tuple[str, ...], own: tuple[str, ...], others: tuple[str, ...], apart: set[str]
) -> None:
    package = root / "platform/rayner"
    found, ended = reached(package, roots, apart)
    by_pattern = digested(package, own)
    listed = set[str]().union(*by_pattern.values())
    assert found - listed - set[str]().union(*digested(package, others).values()) == set()
    assert {pattern for pattern, modules in by_pattern.items() if not modules} == set()
    empty = {"supervision/resolvers"}
    assert listed - found - empty == set(), "no part is made by these"
    assert apart - ended == set(), "these are imported no more"
