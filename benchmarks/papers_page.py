"""docs/papers.md: what each paper reports, beside what was measured here.

python -m benchmarks.papers_page            # writes docs/papers.md from docs/claims.yaml and docs/results
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, model_validator

from benchmarks.command import call_main
from benchmarks.figures import RESULTS, ROOT, Figure, Result, Strict, Text, read_results
from benchmarks.results_page import PAGE as RESULTS_PAGE
from benchmarks.results_page import anchor_of, lines_of, shown_value

CLAIMS = ROOT / "docs" / "claims.yaml"
PAGE = ROOT / "docs" / "papers.md"
INTRODUCTION = f"""\
# Papers

Made by `python -m benchmarks.papers_page` from docs/{CLAIMS.name} and the files of [results](results): do not
edit this page. Docstrings, tables and recipes cite papers by number ("papers/000, section 3").
[Where each method is](code.md) lists the files.

"Ours" is a figure of [results](results.md), with ± the standard deviation over seeds or folds. Our
encoder is all-MiniLM-L6-v2, our figures are of development parts unless the last column says otherwise:
most cannot be compared with a published figure as they are, and that column says why. "no" says that our
figure does not show what is claimed, which under other conditions refutes nothing; "not measured" is said
of every claim without a figure of ours."""


class Ours(Strict):
    """A figure of docs/results: the file, labels that tell the row, and the key."""

    file: Text
    row: Mapping[str, str | int]
    key: Text

    def find(self, results: Mapping[str, Result]) -> Figure:
        """The figure.

        Raises:
            ValueError: no such file or figure, or several.
        """
        if self.file not in results:
            raise ValueError(f"docs/results has no {self.file}.json")
        rows = [row for row in results[self.file].rows if self.row.items() <= row.items()]
        found = [figure for row in rows if isinstance(figure := row.get(self.key), Figure)]
        if len(found) != 1:
            raise ValueError(f"{self.file}: {len(found)} figures {self.key} of {dict(self.row)}")
        return found[0]


class Claim(Strict):
    """What a paper reports, and what was found of it."""

    claim: Text
    conditions: Text
    ours: tuple[Ours, ...]
    found: Literal["yes", "no", "in part", "other conditions"] | None = None
    differs: Text

    @model_validator(mode="after")
    def _found_if_measured(self) -> Claim:
        if bool(self.ours) != (self.found is not None):
            raise ValueError(f"{self.claim}: `found` goes with `ours`")
        return self


class Paper(Strict):
    """A publication and its claims."""

    id: Annotated[str, Field(pattern=r"^papers/\d{3}$")]
    authors: Text
    title: Text
    venue: Text
    year: int
    link: Annotated[str, Field(pattern=r"^https://")]
    tasks: tuple[str, ...]
    claims: tuple[Claim, ...]


def read_claims(path: Path = CLAIMS) -> list[Paper]:
    """The papers of the file, in its order."""
    # As JSON, in which a strict tuple may be a list.
    return [Paper.model_validate_json(json.dumps(row)) for row in yaml.safe_load(path.read_text("utf-8"))]


def page(papers: Sequence[Paper], results: Sequence[Result]) -> str:
    """The whole page."""
    named = {result.name: result for result in results}
    cited = [(p.id, f"{p.authors}: [{p.title}]({p.link})", f"{p.venue} {p.year}", _tasks(p)) for p in papers]
    parts = [
        INTRODUCTION,
        "\n".join(lines_of(("cited as", "publication", "venue", "task"), cited)),
        "## Claims",
    ]
    for paper in papers:
        rows = [
            (claim.claim, claim.conditions, _ours(claim, named), claim.found or "not measured", claim.differs)
            for claim in paper.claims
        ]
        parts.append(f"### {paper.id}: {_short(paper.authors)}")
        parts.append("\n".join(lines_of(("claim", "conditions", "ours", "found", "what differs"), rows)))
        used = dict.fromkeys(one.file for claim in paper.claims for one in claim.ours)
        parts += [_source(named[name]) for name in used]
    return "\n\n".join(parts) + "\n"


def _short(authors: str) -> str:
    """As papers are cited: the family names of two, the first of more."""
    names = [author.split()[-1] for author in authors.split(", ")]
    return " and ".join(names) if len(names) < 3 else f"{names[0]} et al."


def _tasks(paper: Paper) -> str:
    return ", ".join(f"`{task}`" for task in paper.tasks)


def _ours(claim: Claim, results: Mapping[str, Result]) -> str:
    shown = []
    for file, ours in groupby(claim.ours, key=lambda one: one.file):
        figures = "; ".join(_figure(one, results) for one in ours)
        shown.append(f"[{file}](results/{file}.json): {figures}")
    return "; ".join(shown) or "-"


def _figure(one: Ours, results: Mapping[str, Result]) -> str:
    labels = [_label(name, value) for name, value in one.row.items() if value != "-"]
    return " ".join([*labels, one.key.replace("_", " "), shown_value(one.find(results))])


def _label(name: str, value: str | int) -> str:
    """Words tell enough; a number needs the name of what it is."""
    return str(value) if str(value)[0].isalpha() else f"{name.replace('_', ' ')} {value}"


def _source(result: Result) -> str:
    title = f"[{result.title}]({RESULTS_PAGE.name}#{anchor_of(result.title)})"
    return f"{title}: commit {result.commit}, {result.date}.\n\n    {result.command}"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="docs/results if unset")
    parser.add_argument("--out", type=Path, default=PAGE, help="docs/papers.md if unset")
    options = parser.parse_args()
    options.out.write_text(page(read_claims(), read_results(options.results)), encoding="utf-8")


if __name__ == "__main__":
    call_main(main)
