"""What is told of the project agrees: version, licence, papers, classifiers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import rayner
from benchmarks.figures import read_results
from benchmarks.papers_page import PAGE, page, read_claims


@pytest.fixture
def citation(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))


def test_the_ledger_is_what_the_command_makes() -> None:
    assert PAGE.read_text("utf-8") == page(read_claims(), read_results()), "python -m benchmarks.papers_page"


def test_a_claim_without_a_figure_is_not_measured() -> None:
    papers = read_claims()
    measured = [claim for paper in papers for claim in paper.claims if claim.ours]
    shown = page(papers, read_results())
    others = sum(len(paper.claims) for paper in papers) - len(measured)
    assert shown.count("| not measured |") == others > 0 < len(measured)


def test_the_citation_is_of_this_version_and_these_papers(citation: dict[str, Any]) -> None:
    assert citation["version"] == rayner.__version__
    assert {(one["url"], one["year"]) for one in citation["references"]} == {
        (paper.link, paper.year) for paper in read_claims()
    }


def test_the_licence_and_the_changes_are_those_of_the_package(root: Path, citation: dict[str, Any]) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["license"] == project["license"]
    assert "Operating System :: POSIX :: Linux" in project["classifiers"]
    assert f"## {rayner.__version__}" in (root / "CHANGELOG.md").read_text("utf-8")


def test_the_folder_of_corpora_has_no_default(root: Path) -> None:
    """Each place that asks for RAYNER_DATA goes without, or says that it is not set."""
    asked = [
        f"{path.relative_to(root)}: {found[0]}"
        for folder in ("platform", "benchmarks", "jobs", "serve", "tune_spaces", "tests")
        for path in (root / folder).rglob("*.py")
        for found in re.finditer(
            r"""environ\.get\(["']RAYNER_DATA["'], (?!""\))[^)]*""", path.read_text("utf-8")
        )
    ]
    assert asked == []
