"""Training rows of a context ranker: a sentence, a context, and whether it helps to read the sentence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rayner.data.readers.base import Reject, is_encodable
from rayner.data.readers.files import decode, read_bytes, read_span, split_lines
from rayner.data.schema import Span


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A row. `entities` are the mentions of the sentence, `group` is what a split must not cut (a book)."""

    sentence: str
    context: str
    relevant: bool
    entities: tuple[str, ...] = ()
    group: str | None = None

    @property
    def text(self) -> str:
        """Both texts."""
        return f"{self.sentence}\n{self.context}"


@dataclass(slots=True)
class ContextRows:
    """The rows of a file, and the lines that are none."""

    rows: list[ContextRow] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def read_context_rows(path: str | Path, span: tuple[int, int] | None = None, before: int = 0) -> ContextRows:
    """The rows of a JSONL file: `sentence`, `context`, `relevant`; `tags`, `entities`, `group` where known.

    Sentence and context are texts, or lists of words, which are joined by spaces. `tags` are IOB2 tags of the
    words of the sentence.

    Args:
        span: the bytes of whole lines that are read, from the first to before the second; by default all.
        before: the lines of the file before these.

    Raises:
        FileError: a file that cannot be opened.
        CorpusError: a file that is not UTF-8.
    """
    found = ContextRows()
    data = read_bytes(path) if span is None else read_span(path, span)
    text = decode(data, path, before)
    lines = split_lines(text if before else text.removeprefix("\ufeff"))
    for number, line in enumerate(lines, before + 1):
        if not line.strip():
            continue
        try:
            found.rows.append(_row(json.loads(line)))
        except RecursionError:
            found.rejects.append(Reject(f"{path}:{number}", "JSON that is nested too deep", "write a row"))
        except ValueError as error:
            hint = 'write {"sentence": "...", "context": "...", "relevant": true}'
            found.rejects.append(Reject(f"{path}:{number}", str(error), hint))
    return found


def row_to_json(row: ContextRow) -> str:
    """The row as a line of JSONL."""
    known: dict[str, Any] = {"sentence": row.sentence, "context": row.context, "relevant": row.relevant}
    if row.entities:
        known["entities"] = row.entities
    if row.group is not None:
        known["group"] = row.group
    return json.dumps(known, ensure_ascii=False)


def _row(row: Any) -> ContextRow:
    """The row of a JSON value; ValueError says what is wrong with it."""
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    relevant = row.get("relevant")
    if relevant not in (0, 1):
        raise ValueError(f"relevant is {relevant!r}, not true or false")
    group = row.get("group")
    if not isinstance(group, str | None):
        raise ValueError(f"group is {group!r}, not a text")
    entities = row.get("entities")
    if entities is None:
        entities = _tagged(row.get("sentence"), row["tags"]) if row.get("tags") else []
    if not isinstance(entities, list) or not all(isinstance(entity, str) for entity in entities):
        raise ValueError("entities are not a list of texts")
    sentence, context = _text(row, "sentence"), _text(row, "context")
    return ContextRow(sentence, context, bool(relevant), tuple(entities), group)


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"no text under `{name}`")
    if not is_encodable(value):
        raise ValueError(f"half a surrogate pair under `{name}`")
    return value


def _tagged(words: Any, tags: Any) -> list[str]:
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        raise ValueError("tags are not as many as the words of the sentence")
    if not all(isinstance(value, str) for value in (*words, *tags)):
        raise ValueError("a word or tag that is no text")
    return list(dict.fromkeys(" ".join(words[start:end]) for start, end in _spans(tags)))


def _spans(tags: Sequence[str]) -> list[Span]:
    spans: list[Span] = []
    for place, tag in enumerate(tags):
        if tag.startswith("I-") and spans and spans[-1][1] == place and tags[place - 1][2:] == tag[2:]:
            spans[-1] = spans[-1][0], place + 1
        elif tag[:2] in ("B-", "I-"):
            spans.append((place, place + 1))
    return spans
