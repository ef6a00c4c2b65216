"""Tag sequences (IOB1, IOB2, BIOES, BILOU) to spans, broken ones repaired."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

TAG = re.compile(r"O|[BIESLU]-\S.*")

CHUNKS = {"NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP", "NC", "VC", "PC"}
"""What phrases are called in columns of chunks, in English and in the German of CoNLL-2003."""
CONTINUES_NOTHING = "tag that continues nothing: starts a mention"
WITHOUT_END = "mention without its end tag: ends there"


@lru_cache(maxsize=4096)
def is_tag(text: str) -> bool:
    """Whether a field is a tag."""
    return TAG.fullmatch(text) is not None


def is_chunks(tags: Iterable[str]) -> bool:
    """Whether the tags are of phrases, and none of mentions."""
    types = {tag[2:] for tag in tags if len(tag) > 1}
    return bool(types) and types <= CHUNKS


def scheme_of(sequences: Iterable[Sequence[str]]) -> str:
    """The scheme of a file: "BIOES" (or BILOU), "IOB1" (B- only parts neighbours of one type) or "IOB2"."""
    begins = inside_first = False
    for tags in sequences:
        before = "O"
        for tag in tags:
            if tag[0] in "ESLU":
                return "BIOES"
            if tag[2:] != before[2:]:
                begins |= tag[0] == "B"
                inside_first |= tag[0] == "I"
            before = tag
    return "IOB1" if inside_first and not begins else "IOB2"


def spans_of(tags: Sequence[str], scheme: str, repaired: Counter[str]) -> list[tuple[int, int, str]]:
    """(first word, word after the last, type) of each mention; what had to be repaired is counted."""
    spans: list[tuple[int, int, str]] = []
    start, kind = -1, ""
    for place, tag in enumerate(tags):
        prefix, type_ = tag[0], tag[2:]
        if start >= 0 and (prefix in "OBSU" or type_ != kind):
            spans.append((start, place, kind))
            start = -1
            if scheme == "BIOES":
                repaired[WITHOUT_END] += 1
        if prefix == "O":
            continue
        if start < 0:
            start, kind = place, type_
            if prefix in "IEL" and scheme != "IOB1":
                repaired[CONTINUES_NOTHING] += 1
        if prefix in "ESLU":
            spans.append((start, place + 1, kind))
            start = -1
    if start >= 0:
        spans.append((start, len(tags), kind))
        if scheme == "BIOES":
            repaired[WITHOUT_END] += 1
    return spans
