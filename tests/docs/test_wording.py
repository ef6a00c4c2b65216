"""Words over which readers whose first language is another stumble are nowhere: in code, messages or docs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT

WORDS = re.compile(
    r"(?<![a-z])(mend(?:s|ed|ing)?|cure[sd]?|stands|verbs?|surer|a wish for|is of an?)(?![a-z0-9])", re.I
)
FOLDERS = ("platform", "jobs", "serve", "tune_spaces", "benchmarks", "tests", "docs")
SUFFIXES = {".py", ".md", ".yaml", ".js", ".html", ".css", ".toml"}
OWN = {
    "tests/docs/test_wording.py",
    # They are about verbs.
    "platform/rayner/retrieval/nouns.py",
    "platform/rayner/supervision/resolvers/lexicon.py",
    "platform/rayner/supervision/resolvers/noun_phrases.py",
}


def texts() -> list[Path]:
    found = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile"]
    found += (path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES)
    return [path for path in found if str(path.relative_to(ROOT)) not in OWN]


def test_words_to_avoid_are_nowhere() -> None:
    found = []
    for path in texts():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            # Sentences go on over lines; these words do not.
            found += [f"{path.relative_to(ROOT)}:{number}: {m[0]}" for m in WORDS.finditer(line)]
    assert not found, "\n".join(found)


def test_they_are_seen() -> None:
    seen = [m[0] for m in WORDS.finditer("The run is of a task that stands_alone; a verb. Commend, secure.")]
    assert seen == ["is of a", "stands", "verb"]
