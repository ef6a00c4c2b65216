"""Rows of a context ranker, read from JSONL, and what of them occurs in a text."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.errors import FileError
from rayner.supervision.context_rows import ContextRow, read_context_rows, row_to_json
from rayner.supervision.leakage import without_leaks

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


def written(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_words_and_texts_are_read(tmp_path: Path) -> None:
    published = {
        "sentence": ["Winston", "Smith", "met", "Julia", "O'Brien", "Winston", "Smith"],
        "tags": ["B-PER", "I-PER", "O", "B-PER", "I-LOC", "B-PER", "I-PER"],
        "context": ["Julia", "smiled", "."],
        "side": "right",
        "relevant": 1,
    }
    own = {
        "sentence": "It rained.",
        "context": "It poured.",
        "relevant": False,
        "entities": ["It"],
        "group": "b",
    }
    found = read_context_rows(written(tmp_path, published, "", own))
    assert not found.rejects
    entities = ("Winston Smith", "Julia", "O'Brien")
    sentence = "Winston Smith met Julia O'Brien Winston Smith"
    assert found.rows == [
        ContextRow(sentence, "Julia smiled .", True, entities),
        ContextRow("It rained.", "It poured.", False, ("It",), "b"),
    ]


GOOD = {"sentence": "a", "context": "b", "relevant": 1}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested too deep"),
        ("[]", "not a JSON object"),
        ({**GOOD, "relevant": 2}, "relevant is 2"),
        ({**GOOD, "relevant": None}, "relevant is None"),
        ({**GOOD, "sentence": " "}, "no text under `sentence`"),
        ({**GOOD, "context": ["a", 1]}, "no text under `context`"),
        ({**GOOD, "context": "\ud800"}, "half a surrogate pair under `context`"),
        ({**GOOD, "sentence": ["a"], "tags": ["O", "O"]}, "tags are not as many"),
        ({**GOOD, "sentence": ["a"], "tags": [1]}, "a word or tag that is no text"),
        ({**GOOD, "entities": "a"}, "entities are not a list"),
        ({**GOOD, "group": 3}, "group is 3"),
    ],
)
def test_a_line_that_is_no_row_is_rejected_by_number(tmp_path: Path, line: object, what: str) -> None:
    path = written(tmp_path, GOOD, line, GOOD)
    found = read_context_rows(path)
    assert [row.sentence for row in found.rows] == ["a", "a"]
    (reject,) = found.rejects
    assert reject.where == f"{path}:2"
    assert what in reject.what


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.jsonl"):
        read_context_rows(tmp_path / "none.jsonl")


@given(words, words, st.booleans(), st.lists(words).map(tuple), st.none() | words)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    sentence: str,
    context: str,
    relevant: bool,
    entities: tuple[str, ...],
    group: str | None,
) -> None:
    row = ContextRow(sentence, context, relevant, entities, group)
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text(row_to_json(row) + "\n", encoding="utf-8")
    assert read_context_rows(path).rows == [row]


NOVEL = "Call me Ishmael. Some years ago -- never mind how long\nprecisely -- I didn't sail."


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("call me ishmael .", True),
        ("I did n't sail .", True),
        ("how long precisely", True),
        ("Ishmael. Some years ago never mind", True),
        ("all me Ishmael", False),
        ("Call me Ish", False),
        ("Call you Ishmael", False),
        ("-- ?", False),
        ("precisely I didn't sail then", False),
    ],
)
def test_what_occurs_in_a_text_leaks(text: str, leaks: bool) -> None:
    rows = [ContextRow(text, "A context of its own.", True), ContextRow("Another sentence.", text, False)]
    kept, counts = without_leaks(rows, [("moby", NOVEL), ("other", "Nothing of that.")])
    assert kept == ([] if leaks else rows)
    assert counts == ({"moby": 2, "": 2} if leaks else {})


def test_a_row_that_several_texts_have_counts_once() -> None:
    row = ContextRow("Call me Ishmael", "I didn't sail", True)
    assert without_leaks([row], [("a", NOVEL), ("b", NOVEL)])[1] == {"a": 1, "b": 1, "": 1}
    assert without_leaks([row], []) == ([row], {})


def test_each_text_counts_the_rows_that_it_has_in_the_order_of_the_texts() -> None:
    texts = [("b", "one two"), ("a", "two. three"), ("b", "three four")]
    words = ("one", "two", "three", "four", "five")
    rows = [ContextRow(sentence, context, True) for sentence in words for context in words]
    kept, counts = without_leaks(rows, texts)
    of_text = {"b": {"one", "two", "three", "four"}, "a": {"two", "three"}}
    leaks = [[n for n, has in of_text.items() if has & {row.sentence, row.context}] for row in rows]
    assert kept == [row for row, names in zip(rows, leaks, strict=True) if not names]
    expected = Counter(name for names in leaks if names for name in (*names, ""))
    assert (counts, list(counts)) == (expected, list(expected))


@given(st.lists(st.sampled_from(["a", "b", "ab", "ba", "B", "-", "é"]), max_size=12), st.data())
def test_every_run_of_words_of_a_text_is_found(text: list[str], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    part = text[begin : data.draw(st.integers(begin, len(text)))]
    row = ContextRow(" ".join(part) or "z", "zz", True)
    kept, _ = without_leaks([row], [("", " ".join(text))])
    assert kept == ([] if any(word != "-" for word in part) else [row])


def test_the_published_rows_and_the_novels(corpora: Path) -> None:
    """More than the rows of which the sentence is one of a first chapter: contexts come from there too."""
    found = read_context_rows(corpora / "synthetic-context-retrieval" / "alpaca-7b.jsonl")
    assert (len(found.rows), len(found.rejects)) == (2260, 0)
    assert sum(row.relevant for row in found.rows) == 1266
    assert all(row.entities for row in found.rows if row.relevant)
    path = corpora / "dekker-full-novels" / "MobyDick.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        kept, counts = without_leaks(found.rows, [("MobyDick", file.read())])
    assert counts == {"MobyDick": 154, "": 154}
    assert len(kept) == 2260 - 154
