"""The README and docs/, taken apart: blocks of code, commands, headings, links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"commands.md"}
"""Made from the command line: usages, not commands."""
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHELL = {"", "bash", "sh", "console"}
_COMMAND = re.compile(
    r"(?:^(?:\$ )?|-- |&& |\| |; |\b[A-Z_]+=\S+ )(?:rayner|(?:\.venv/bin/)?python -m jobs\.\w+)(?= |$)"
)
_END = re.compile(r"\s(?:&&|\|\|?|&$|>|<).*$|;.*$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")


@dataclass(frozen=True)
class Block:
    """A block of code: its page, the line of its first line, what is behind its fence, and its text."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8"))


def blocks(page: Path) -> Iterator[Block]:
    for token in tokens(page):
        if token.type in ("fence", "code_block") and token.map:
            first = token.map[0] + 1 + (token.type == "fence")
            yield Block(page, first, token.info.strip(), token.content)
            yield from _heredocs(page, first, token.content)


def _heredocs(page: Path, line: int, text: str) -> Iterator[Block]:
    """Files that a block of shell writes, each a block of its suffix."""
    for found in re.finditer(r"cat > (\S+) <<'EOF'\n(.*?\n)EOF\n", text, re.DOTALL):
        at = line + text[: found.start()].count("\n") + 1
        language = {".yaml": "yaml"}.get(Path(found[1]).suffix)
        if language:
            yield Block(page, at, language, found[2])


def inline(page: Path) -> Iterator[tuple[int, Token]]:
    """Links, images and code within text, with their lines."""
    for token in tokens(page):
        for child in token.children or ():
            yield (token.map or [0])[0] + 1, child
            yield from (((token.map or [0])[0] + 1, inner) for inner in child.children or ())


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Where each command of rayner is written, and its arguments: `["corpus", "check", "DIR"]`."""
    for block in blocks(page) if page.name not in GENERATED else ():
        if block.language in SHELL:
            joined = re.sub(r"\\\n\s*", " ", block.text)
            for line in re.sub(r"<<'?(\w+)'?\n.*?\n\1(?=\n|$)", "", joined, flags=re.DOTALL).splitlines():
                yield from ((block.where, found) for found in commands_of(line))
    for line, token in inline(page):
        if token.type == "code_inline":
            yield from ((f"{page.relative_to(ROOT)}:{line}", found) for found in commands_of(token.content))


def commands_of(text: str) -> Iterator[list[str]]:
    line = _COMMENT.sub("", text).strip()
    for found in _COMMAND.finditer(line):
        words = shlex.split(_END.sub("", line[found.start() :]))
        name = next(i for i, word in enumerate(words) if word == "rayner" or word.startswith("jobs."))
        module = words[name].removeprefix("jobs.")
        yield words[name + 1 :] if module == "rayner" else [module, *words[name + 1 :]]


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes from the headings of a page."""
    made: dict[str, int] = {}
    found = set()
    parsed = tokens(page)
    for opening, heading in pairwise(parsed):
        if opening.type != "heading_open":
            continue
        parts = (t.content for t in heading.children or () if t.type in ("text", "code_inline"))
        kept = (c for c in "".join(parts).lower() if c.isalnum() or c in " -_")
        slug = "".join(kept).replace(" ", "-")
        count = made.get(slug, 0)
        made[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found
