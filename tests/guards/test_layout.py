"""The shape of the repository, where a slip breaks jobs on a cluster or an installed package."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

OPERATOR_FOLDERS = ("jobs", "serve", "tune_spaces", "benchmarks")
ROLES = {"__init__", "base", "task", "predictor", "stage", "neighbours"}
"""What a folder, or the folder of a system, has one of."""
ONE_SUBJECT = {
    "annotate": {"cli", "runtime/annotation"},
    "bioc": {"data/readers", "data/writers"},
    "brat": {"data/readers", "data/writers"},
    "coreference": {"config", "data/readers", "metrics", "tasks", "tasks/kinds"},
    "docbin": {"data/readers", "data/writers"},
    "doctor": {"cli", "runtime/doctor"},
    "documents": {"config", "tasks/kinds"},
    "end_to_end": {"metrics", "tasks"},
    "evaluate": {"cli", "runtime/evaluation"},
    "gaussian": {"config", "losses", "models"},
    "index": {"cli", "config"},
    "jsonl": {"data/knowledge_bases", "data/readers", "data/writers"},
    "masked_lm": {"losses", "models"},
    "parquet": {"data/knowledge_bases", "data/readers", "data/writers"},
    "predict": {"cli", "tasks"},
    "pubtator": {"data/readers", "data/writers"},
    "quickstart": {"cli", "runtime/quickstart", "serving"},
    "ranker": {"config", "models"},
    "report": {"cli", "runtime/reports"},
    "self_training": {"losses", "tasks/recognizer"},
    "standardize": {"cli", "runtime/linking"},
    "tagger": {"config", "models"},
    "train": {"cli", "runtime/training"},
    "typed_mentions": {"metrics", "tasks/kinds"},
    "typer": {"config", "models"},
    "typing": {"losses", "metrics"},
}
"""Systems, formats, commands and kinds that have modules of one name in several layers."""


def importable_names(folder: Path) -> set[str]:
    """What `import` finds with the folder on sys.path; a folder without __init__.py loses to any package."""
    return {p.stem for p in folder.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}


@pytest.fixture(scope="module")
def installed() -> set[str]:
    """The import names of the environment's distributions, without those of this project."""
    return {
        name
        for name, distributions in importlib.metadata.packages_distributions().items()
        if "rayner" not in distributions
    }


def test_platform_is_a_source_root_and_nothing_else(root):
    assert importable_names(root / "platform") == {"rayner"}, "Ray jobs hang if platform/ shadows the stdlib"


def test_no_root_name_shadows_the_standard_library_or_a_dependency(root, installed):
    names = importable_names(root)
    assert not names & sys.stdlib_module_names
    assert not names & installed


@pytest.mark.parametrize("folder", OPERATOR_FOLDERS)
def test_no_operator_file_shadows_the_standard_library_or_a_dependency(root, installed, folder):
    if not (root / folder).is_dir():
        pytest.skip(f"no {folder}/")
    names = importable_names(root / folder) - {"__init__"}
    assert not names & sys.stdlib_module_names
    assert not names & installed


def test_the_house_has_its_rooms(root):
    files = ("cluster.yaml", "Makefile", "pyproject.toml", "constraints.txt", ".ci/run", "README.md")
    folders = ("jobs/recipes", "tune_spaces", "serve", "tests", "docs")
    assert [f for f in files if not (root / f).is_file()] == []
    assert [f for f in folders if not (root / f).is_dir()] == []


def test_the_licence_is_apache(root):
    text = (root / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_readme_stays_short(root):
    assert len((root / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_no_module_is_long(root):
    files = [
        *(root / "platform").rglob("*.py"),
        *(p for f in OPERATOR_FOLDERS for p in (root / f).rglob("*.py")),
    ]
    lengths = {str(p.relative_to(root)): len(p.read_text(encoding="utf-8").splitlines()) for p in files}
    assert {path: n for path, n in lengths.items() if n > 350} == {}


def test_tests_lie_as_the_package_does(root):
    package, tests = root / "platform/rayner", root / "tests"
    folders = [path.parent.relative_to(package) for path in package.rglob("__init__.py")]
    assert [str(folder) for folder in folders if not any((tests / folder).glob("**/test_*.py"))] == []


def test_only_modules_of_one_subject_have_the_same_name(root):
    package = root / "platform/rayner"
    folders: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        folders.setdefault(path.stem, set()).add(str(path.parent.relative_to(package)))
    recurring = {name: found for name, found in folders.items() if len(found) > 1 and name not in ROLES}
    assert recurring == ONE_SUBJECT


def test_a_flat_module_of_the_runtime_serves_several_of_its_folders(root):
    runtime = root / "platform/rayner/runtime"
    named = re.compile(r"rayner\.runtime\.(\w+)|from rayner\.runtime import (\w+)")
    used = {
        path: {"".join(found) for found in named.findall(path.read_text(encoding="utf-8"))}
        for path in runtime.rglob("*.py")
    }
    flat = {path.stem for path in runtime.glob("*.py")} - {"__init__"}

    def folders(module: str) -> set[str]:
        users = [path for path, modules in used.items() if module in modules]
        own = {path.parent.name for path in users if path.parent != runtime}
        return own.union(*(folders(path.stem) for path in users if path.parent == runtime))

    assert {module: found for module in flat if len(found := folders(module)) < 2} == {}


def test_no_test_imports_another(root):
    """What several use lies in a module beside them: tests that are imported are run by what imports them."""
    imported = re.compile(r"^\s*(from|import) tests\.([\w.]+\.)?test_", re.MULTILINE)
    paths = sorted((root / "tests").rglob("*.py"))
    assert [path.name for path in paths if imported.search(path.read_text(encoding="utf-8"))] == []


def test_no_module_defines_a_constant_twice(root):
    twice = {}
    for path in (root / "platform").rglob("*.py"):
        found = Counter(
            target.id
            for statement in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        )
        if again := [name for name, times in found.items() if times > 1]:
            twice[path.name] = again
    assert twice == {}


def test_every_package_is_pinned(root):
    lines = (root / "constraints.txt").read_text(encoding="utf-8").split()
    assert [line for line in lines if line.count("==") != 1 or "+" in line] == []
    assert "torch==2.13.0" in lines
