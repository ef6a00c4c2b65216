"""Mentions and the answers to them as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rayner.data.mention_strings import MentionString
from rayner.retrieval.names import Found
from rayner.tasks.answers import Answer

_FOUND = pa.struct(
    [
        ("entity_id", pa.string()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("dense", pa.float64()),
        ("lexical", pa.float64()),
    ]
)

ANSWER_SCHEMA = pa.schema(
    [
        pa.field("text", pa.string(), nullable=False),
        ("entity_ids", pa.list_(pa.string())),
        ("type", pa.string()),
        ("entity_id", pa.string()),
        ("score", pa.float64()),
        ("margin", pa.float64()),
        ("probability", pa.float64()),
        ("candidates", pa.list_(_FOUND)),
        ("reason", pa.string()),
    ]
)
"""`entity_ids` are the right ones, `entity_id` is the answer."""

_ANSWER = ("entity_id", "score", "margin", "probability", "reason")


def answers_to_table(gold: Sequence[MentionString], answers: Sequence[Answer]) -> pa.Table:
    """One row a mention."""
    rows = []
    for mention, answer in zip(gold, answers, strict=True):
        row = {"text": mention.text, "entity_ids": list(mention.entity_ids), "type": mention.type}
        found = [{name: getattr(one, name) for name in _FOUND.names} for one in answer.candidates]
        rows.append(row | {name: getattr(answer, name) for name in _ANSWER} | {"candidates": found})
    return pa.Table.from_pylist(rows, ANSWER_SCHEMA)


def answers_from_table(table: pa.Table) -> tuple[list[MentionString], list[Answer]]:
    """What `answers_to_table` was given."""
    gold, answers = [], []
    for row in table.to_pylist():
        gold.append(MentionString(row["text"], tuple(row["entity_ids"]), row["type"]))
        candidates = tuple(Found(**found) for found in row["candidates"])
        values = {name: row[name] for name in _ANSWER}
        answers.append(Answer(text=row["text"], candidates=candidates, **values))
    return gold, answers
