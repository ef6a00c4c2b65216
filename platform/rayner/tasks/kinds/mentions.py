"""Mentions without their texts, each a string with the entities that it may be."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rayner.config import StandardizerRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.config.standardizer import ColumnSettings
from rayner.counted import counted
from rayner.data.knowledge_bases import Columns
from rayner.data.knowledge_bases.fields import FLAGS
from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Document
from rayner.data.split import parts_by
from rayner.metrics.linking import RANKS, coverage_points, judge, roc_points
from rayner.metrics.linking_intervals import linking_intervals
from rayner.retrieval.names import Found
from rayner.tasks.base import Mode, ParallelMap, Predictor
from rayner.tasks.kinds.base import FOLDER, Card, GoldItems, Kind, Source, lines_file, shell_path
from rayner.tasks.standardizer.predictor import Answer, Standardizer

log = logging.getLogger(__name__)

_CURVE_POINTS = 50
_FOUND = pa.struct(
    [
        ("entity_id", pa.string()),
        ("name", pa.string()),
        ("matched", pa.string()),
        ("score", pa.float64()),
        ("dense", pa.float64()),
        ("lexical", pa.float64()),
        ("ranker", pa.float64()),
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


class Mentions(Kind):
    """Mention strings, scored by the entities that they are linked to."""

    name = "mentions"
    metrics: Mapping[str, Mode] = dict.fromkeys(
        ("top1", "top3", "top5", "mrr", "nil_precision", "nil_recall", "nil_auc"), "max"
    )
    evaluation_options: Mapping[str, Any] = {"top_k": RANKS}
    report_parts: Sequence[str] = ("top", "entity_confidence", "calibration", "mistakes")
    about_scores = "Intervals: bootstrap over distinct strings."

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: StandardizerRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
        mapper: ParallelMap = map,
    ) -> GoldItems:
        """Mentions in JSON lines `{"mention", "entity_id"}` (null for NIL), or any format of
        `read_mention_strings`.

        Ids of mentions are understood as in training: other ids of an entity are its own, and a prefix may be
        missing. A mention of an entity that the index lacks counts as one whose entity is not found. The
        notes have `rejected`, rows that could not be read, and `unknown`, mentions whose ids the index lacks.

        Args:
            types: of a corpus, only mentions of these types; those of the recipe by default, all if empty.
        """
        wanted = tuple(recipe.mentions.types if types is None else types)
        assert isinstance(predictor, Standardizer)
        asked = (recipe.mentions.abbreviations, predictor.reads_sentences)
        reading = read_mention_strings(list(paths), format, wanted, *asked)
        if reading.ignored:
            log.info("left out: %s", ", ".join(f"{what} {count}" for what, count in reading.ignored.items()))
        if reading.rejects:
            first = reading.rejects[0]
            rows = counted(len(reading.rejects), "row")
            log.warning("cannot be read: %s; the first: %s: %s", rows, first.where, first.what)
        gold, unknown = _known(reading.mentions, predictor)
        return GoldItems(gold, {"rejected": len(reading.rejects), "unknown": unknown})

    def intervals(
        self, gold: Sequence[MentionString], predicted: Sequence[Answer], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Of linking metrics."""
        return linking_intervals(gold, predicted)

    def curves(self, gold: Sequence[MentionString], predicted: Sequence[Answer]) -> dict[str, Any]:
        """`roc` and `coverage`."""
        judged = judge(gold, predicted)
        return {
            "roc": roc_points(judged, _CURVE_POINTS),
            "coverage": coverage_points(judged, _CURVE_POINTS),
        }

    def to_tables(self, gold: Sequence[MentionString], predicted: Sequence[Answer]) -> dict[str, pa.Table]:
        """`answers`."""
        return {"answers": answers_to_table(gold, predicted)}

    def from_tables(self, tables: Mapping[str, pa.Table]) -> tuple[list[MentionString], list[Answer]]:
        """What `to_tables` was given."""
        return answers_from_table(tables["answers"])

    def card(self, recipe: StandardizerRecipe) -> Card:
        """The knowledge base, and how to build an index."""
        mentions = recipe.mentions
        held_out = f"{mentions.dev_fraction:.0%} of the distinct strings of the mentions"
        return Card(
            train=(*recipe.knowledge_base.paths, *mentions.train),
            dev=mentions.dev or ((held_out,) if mentions.dev_fraction else ()),
            about=[
                "## Entities",
                "",
                "It places names; the entities come with an index, which can be of another knowledge base.",
                "`standardizer.json` holds what combines vectors and n-grams, and the calibration of NIL.",
            ],
            commands=[
                _build_command(recipe),
                f"rayner standardize {FOLDER} mentions.jsonl --index index",
            ],
            python=[f'answers = rayner.load("{FOLDER}", index="index").predict(["Some name"])'],
        )

    def source(self, recipe: StandardizerRecipe) -> Source:
        """Mentions, of which equal strings (ignoring case) stay together."""
        mentions = recipe.mentions

        def strings(paths: Sequence[str], types: Sequence[str]) -> Sequence[MentionString]:
            given = corpus_paths(paths)
            return read_mention_strings(given, mentions.format, types, mentions.abbreviations).mentions

        others: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        if mentions.dev and (mentions.types or mentions.format != "auto"):
            others["dev"] = (mentions.dev, mentions.types)
        if mentions.negatives and mentions.format != "auto":
            # Of all types, as without a sweep.
            others["negatives"] = (mentions.negatives, ())
        return Source(
            section="mentions",
            items=lambda: strings(mentions.train, mentions.types),
            parts=_parts,
            writing=lines_file(_line),
            suffix=".jsonl",
            others={name: partial(strings, *given) for name, given in others.items()},
            settled={"format": "auto", "types": []},
        )


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


def _known(mentions: Sequence[MentionString], standardizer: Standardizer) -> tuple[list[MentionString], int]:
    """The mentions with the ids of the index, and how many have ids of which it lacks all."""
    found, unknown = [], []
    for mention in (m.parted_for(standardizer.entity_of) for m in mentions):
        ids = [standardizer.entity_of(id_) or id_ for id_ in mention.entity_ids]
        found.append(replace(mention, entity_ids=tuple(dict.fromkeys(ids))))
        if ids and not any(map(standardizer.entity_of, ids)):
            unknown.append(found[-1])
    if unknown:
        what = "the index lacks the ids of %d of %s, and none of them can be found: %r is of %s"
        log.warning(
            what,
            len(unknown),
            counted(len(found), "mention"),
            unknown[0].text,
            "|".join(unknown[0].entity_ids),
        )
    return found, len(unknown)


def reading_options(format: str, columns: ColumnSettings | Columns) -> list[str]:
    """The options of a command that reads a knowledge base in this format, with these columns."""
    found = [] if format == "auto" else ["--format", format]
    for field, option in FLAGS.items():
        if (column := getattr(columns, field)) is not None:
            found += [option, column]
    return found


def _build_command(recipe: StandardizerRecipe) -> str:
    """What builds the index of the recipe's knowledge base, with all mentions that it names as aliases."""
    base = recipe.knowledge_base
    words = [shell_path(path) for path in base.paths]
    words += map(shlex.quote, reading_options(base.format, base.columns))
    if recipe.mentions.are_aliases:
        words += [word for path in recipe.mentions.train for word in ("--mentions", shell_path(path))]
    return f"rayner index build {FOLDER} {' '.join(words)} --out index"


def _parts(mentions: Iterable[MentionString], fractions: Mapping[str, float], seed: int) -> np.ndarray:
    """By the string without case, as documents are by their group."""
    return parts_by([Document(m.text.casefold(), m.text.casefold()) for m in mentions], fractions, seed)


def _line(mention: MentionString) -> str:
    row: dict[str, Any] = {"mention": mention.text}
    if mention.type is not None:
        row["type"] = mention.type
    ids = list(mention.entity_ids)
    # What a field holds depends on the knowledge base: `C++` may be one id of it.
    if mention.whole is not None:
        row["entity_ids"] = mention.whole
    else:
        row["entity_id"] = ids[0] if len(ids) == 1 else ids or None
    return json.dumps(row, ensure_ascii=False)
