from __future__ import annotations

import itertools
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from rayner.config import TypeSettings
from rayner.data.readers import jsonl
from rayner.data.readers.formats import FORMATS
from rayner.data.schema import Document, Mention
from rayner.data.words import find_words

CORPUS = Path(str(files("rayner") / "examples" / "software"))
SPLITS = ("train", "dev", "test")


def _documents(split: str) -> list[Document]:
    (unit,) = FORMATS["jsonl"].units([CORPUS / f"{split}.jsonl"])
    reading = jsonl.read(unit)
    assert not reading.rejects
    assert not reading.repaired
    return reading.documents


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Document]]:
    return {split: _documents(split) for split in SPLITS}


@pytest.fixture(scope="module")
def documents(splits: dict[str, list[Document]]) -> list[Document]:
    return [document for split in SPLITS for document in splits[split]]


@pytest.fixture(scope="module")
def types() -> list[TypeSettings]:
    return [
        TypeSettings(**row) for row in yaml.safe_load((CORPUS / "types.yaml").read_text(encoding="utf-8"))
    ]


def _inside(inner: Mention, outer: Mention) -> bool:
    return outer is not inner and outer.start <= inner.start and inner.end <= outer.end


def _four_words(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[i:] for i in range(4)), strict=False))


def test_size_and_types(documents: list[Document], types: list[TypeSettings]) -> None:
    assert len(documents) >= 300
    assert len({t.name for t in types}) == len(types) == 5
    assert all(t.description and t.keyword for t in types)
    assert {m.type for d in documents for m in d.mentions} == {t.name for t in types}
    assert all(25 <= len(d.text.split()) <= 70 for d in documents)


def test_mentions_are_words_of_the_text(documents: list[Document]) -> None:
    for document in documents:
        words = find_words(document.text)
        starts, ends = {start for start, _ in words}, {end for _, end in words}
        for mention in document.mentions:
            assert mention.start in starts, document.document_id
            assert mention.end in ends, document.document_id


def test_mentions_nest_and_never_cross(documents: list[Document]) -> None:
    for document in documents:
        for left, right in itertools.combinations(document.mentions, 2):
            assert (left.start, left.end) != (right.start, right.end), document.document_id
            apart = left.end <= right.start or right.end <= left.start
            assert apart or _inside(left, right) or _inside(right, left), document.document_id


def test_nested_and_long_mentions(documents: list[Document]) -> None:
    # Intake notes are lists of names, without phrases for parts of systems.
    told = [d for d in documents if not d.document_id.startswith("intake-")]
    mentions = [(d, m) for d in told for m in d.mentions]
    nested = sum(any(_inside(m, other) for other in d.mentions) for d, m in mentions)
    assert nested >= 0.12 * len(mentions)
    assert sum(len(d.text[m.start : m.end].split()) > 6 for d, m in mentions) >= 40


def test_every_split_can_measure_every_type(
    splits: dict[str, list[Document]], types: list[TypeSettings]
) -> None:
    for split in SPLITS:
        counts = Counter(m.type for d in splits[split] for m in d.mentions)
        assert min(counts[t.name] for t in types) >= 25, split


def test_splits_share_nothing(splits: dict[str, list[Document]], documents: list[Document]) -> None:
    assert len({d.document_id for d in documents}) == len(documents)
    assert len({d.text for d in documents}) == len(documents)
    groups = [{d.group for d in splits[split] if d.group} for split in SPLITS]
    assert all(not left & right for left, right in itertools.combinations(groups, 2))


def test_no_two_documents_are_alike(documents: list[Document]) -> None:
    shingles = [_four_words(d.text) for d in documents]
    for left, right in itertools.combinations(shingles, 2):
        assert len(left & right) <= 0.15 * min(len(left), len(right))


def test_names_are_marked_wherever_they_occur(documents: list[Document]) -> None:
    """A name of a product, language or organization is not left unmarked elsewhere in the corpus."""
    named = {"Software", "Language", "Organization"}
    names = {d.text[m.start : m.end] for d in documents for m in d.mentions if m.type in named}
    names -= {"C"}  # also a letter
    pattern = re.compile(
        r"(?<!\w)(?:" + "|".join(sorted(map(re.escape, names), key=len, reverse=True)) + r")(?!\w)"
    )
    for document in documents:
        marked = [m for m in document.mentions if m.type in named]
        for found in pattern.finditer(document.text):
            assert any(m.start <= found.start() and found.end() <= m.end for m in marked), (
                f"{document.document_id}: {found[0]}"
            )


def test_the_readme_counts_what_is_there(splits: dict[str, list[Document]]) -> None:
    readme = (CORPUS / "README.md").read_text(encoding="utf-8")
    for split in SPLITS:
        counts = Counter(m.type for d in splits[split] for m in d.mentions)
        numbers = " | ".join(str(n) for n in (len(splits[split]), *(counts[t] for t in sorted(counts))))
        assert f"| `{split}.jsonl` | {numbers} |" in readme
