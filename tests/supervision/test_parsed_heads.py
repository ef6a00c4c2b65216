"""Heads by a parser that is installed, and by rule where it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.supervision import parsed_heads
from rayner.supervision.parsed_heads import head_finder

TEXT = "the patient in front of her slept"
SPANS = [(0, 27), (24, 27)]


@pytest.fixture(autouse=True)
def nothing_loaded() -> Iterator[None]:
    """Each test loads its own stand-in."""
    parsed_heads._pipeline.cache_clear()
    yield
    parsed_heads._pipeline.cache_clear()


class Parsed:
    """A parse as spaCy gives it: the root of a span is its first word, of one longer than the span."""

    def __init__(self, text: str) -> None:
        self.text = text

    def char_span(self, start: int, end: int, alignment_mode: str) -> Any:
        assert alignment_mode == "expand"
        word = self.text[start:].split()[0] if start < 24 else "her slept"
        return SimpleNamespace(root=SimpleNamespace(idx=start, text=word))


def test_heads_are_the_roots_of_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = ModuleType("spacy")
    vars(spacy)["load"] = lambda model, exclude: Parsed
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    name, heads = head_finder("auto")
    assert name == "spacy:en_core_web_sm"
    assert [TEXT[slice(*head)] for head in heads(Document("d", TEXT), SPANS)] == ["the", "her"]
    assert heads(Document("d", ""), []) == []


def test_a_long_text_is_parsed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []

    def parse(text: str) -> Parsed:
        parsed.append(text)
        return Parsed(text)

    monkeypatch.setattr(parsed_heads, "AT_ONCE", 40)
    monkeypatch.setattr(parsed_heads, "_pipeline", lambda: parse)
    long = "word " * 9 + "end."
    text = f"{TEXT}. {long} {TEXT}. Ada slept."
    second = len(TEXT) + 2 + len(long) + 1
    spans = [(0, 27), (second, second + 27), (second + 24, second + 27), (len(TEXT) + 2, len(TEXT) + 11)]
    found = [text[slice(*head)] for head in parsed_heads._heads_by_parse(Document("d", text), spans)]
    assert found == ["the", "the", "her", "word"]
    assert parsed == [f"{TEXT}.", f"{TEXT}."]


def test_without_a_parser_the_rule_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    name, heads = head_finder("auto")
    assert name == "rule"
    assert [TEXT[slice(*head)] for head in heads(Document("d", TEXT), SPANS)] == ["patient", "her"]
    with pytest.raises(InputError, match="python -m spacy download"):
        head_finder("spacy")
