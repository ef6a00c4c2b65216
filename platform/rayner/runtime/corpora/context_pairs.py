"""Training rows of a context ranker: sentences of a corpus with contexts that help to read them or do not."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from rayner.config import ContextKindSettings, PromptSettings
from rayner.config.recipe_files import read_settings
from rayner.data.readers import find_units, read_unit
from rayner.data.readers.detect import COUNTS, REJECTS
from rayner.data.schema import UNKNOWN
from rayner.errors import CorpusError
from rayner.files.whole import text_file, write_json, write_json_lines
from rayner.files.working import kept_in_place
from rayner.runtime.corpora.context_sources import CountedCorpus, Drawn
from rayner.runtime.corpora.labelled_contexts import PARTS, Labelled, labelled_rows
from rayner.runtime.run_folder import check_apart
from rayner.supervision.context_prompts import (
    KINDS,
    THINGS,
    made_of_template,
    prompt_of,
)
from rayner.supervision.context_rows import ContextRow, row_to_json
from rayner.supervision.endpoint import Endpoint
from rayner.supervision.generation import NO_TEXT, Generation, generate_usable
from rayner.supervision.leakage import without_leaks
from rayner.supervision.local_model import LocalModel
from rayner.supervision.synthetic_contexts import (
    KEPT,
    OUTSIDE,
    UNTYPED,
    ContextRequest,
    can_help,
    context_requests,
    negative_rows,
    positive_rows,
    source_sentences,
)

ROWS = "rows.jsonl"
ANSWERS = "answers.jsonl"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Generated:
    """Contexts from templates, or with an endpoint from a model, which may be a local one.

    Args:
        prompts: a YAML file of `PromptSettings`; None takes those of papers/001.
        send: whether texts may leave for the endpoint.
        tries: how often it is asked for a context that mentions the entity.
    """

    endpoint: Endpoint | LocalModel | None = None
    prompts: Path | None = None
    send: bool = False
    tries: int = 3


def contexts(
    paths: Sequence[Path],
    out: Path,
    source: Generated | Labelled,
    leave_out: Sequence[Path] = (),
    seed: int = 0,
    fresh: bool = False,
    workers: int = 0,
) -> dict[str, Any]:
    """Write `rows.jsonl` (pairs for the task `ranker`), `rejects.jsonl` and `counts.json` to `out`.

    Answers of an endpoint are in `answers.jsonl`, and are never asked for again; an extractor goes on after
    the documents that it has labelled. Without `send`, texts are counted and nothing is written.

    Args:
        leave_out: corpora or texts to evaluate on: no row has a sentence of theirs.
        fresh: label all documents again. Answers that were paid for are kept.
        workers: Ray actors on which an extractor labels, each with what its recipe's `scaling` asks for, to
            the same rows; 0 labels in this process.

    Returns:
        `rows, relevant, documents, sentences, duplicates` (the same document again), `rejected, left_out,
        counts` (what became of requests or contexts, by what it is), `seconds`; with a model also `host`
        (that was asked; left out where the ledger does not say who answered), `texts` (that were not sent).

    Raises:
        CorpusError: no document can be read, none has a mention to ask for, or `out` must not be written to.
        InputError: an endpoint that refuses, or prompts that cannot be read.
        CheckpointError: a checkpoint that cannot label contexts.
    """
    check_apart(paths, out)
    with kept_in_place(out.absolute(), "writes these rows", fresh=fresh) as (folder, _):
        return _contexts(paths, folder, source, leave_out, seed, fresh, workers)


def _contexts(
    paths: Sequence[Path],
    out: Path,
    source: Generated | Labelled,
    leave_out: Sequence[Path],
    seed: int,
    fresh: bool,
    workers: int,
) -> dict[str, Any]:
    started = time.monotonic()
    corpus = CountedCorpus(paths)
    _guard(out)
    texts = list(_texts(leave_out)) if leave_out else []
    counts: Counter[str] = Counter()
    result: dict[str, Any] = {}
    if isinstance(source, Labelled):
        rows, left_out = labelled_rows(corpus, source, texts, out, seed, fresh, workers, counts)
    else:
        rows, left_out, result = _generated_rows(corpus, source, texts, out, seed, counts)
    shown = {
        "rows": len(rows),
        "relevant": sum(row.relevant for row in rows),
        "documents": len(corpus.ids),
        "sentences": corpus.sentences,
        "duplicates": corpus.duplicates,
        "rejected": len(corpus.rejects),
        "left_out": left_out.pop("", 0),
        "counts": dict(sorted((+counts).items())),
        **result,
        "seconds": round(time.monotonic() - started, 3),
    }
    if result.get("texts"):
        return shown
    if not rows:
        what, hint = _why_no_row(source, corpus, counts, shown)
        raise CorpusError(", ".join(map(str, paths)), what, hint)
    order = np.random.default_rng(seed).permutation(len(rows))
    with text_file(out / ROWS) as file:
        file.writelines(row_to_json(rows[place]) + "\n" for place in order)
    write_json_lines(out / REJECTS, (reject.to_row() for reject in corpus.rejects))
    write_json(out / COUNTS, shown | {"left_out_by_text": dict(left_out)})
    shutil.rmtree(out / PARTS, ignore_errors=True)
    return shown


def _why_no_row(
    source: Generated | Labelled, corpus: CountedCorpus, counts: Counter[str], shown: Mapping[str, Any]
) -> tuple[str, str]:
    """Why there is no row, and what to do."""
    told = ", ".join(f"{k} {v}" for k, v in shown["counts"].items())
    endpoint = source.endpoint if isinstance(source, Generated) else None
    hint = "name a corpus whose sentences have mentions"
    kinds = ("relevant", "not relevant")
    is_lost = any(counts[f"{kind} left out"] and not counts[kind] for kind in kinds)
    nothing_asked = shown["left_out"] and not (counts["requests"] or counts["contexts"])
    if is_lost or nothing_asked or counts["contexts left out"]:
        hint = "--leave-out has what would make rows: name other texts"
    elif counts["contexts"]:
        hint = "a ranker learns from contexts of both kinds: give more texts, or another --minimum-gain"
    elif isinstance(source, Labelled) and corpus.mentions:
        told = f"mentions {corpus.mentions}, none of the checkpoint's types in a sentence with contexts"
        hint = "name documents of several sentences, or another --method"
    elif corpus.mentions and not counts["requests"]:
        told, hint = _why_no_request(corpus.mentions, counts)
    if endpoint and counts["requests"]:
        dropped = {name.removeprefix("dropped: ") for name in +counts if name.startswith("dropped: ")}
        if not counts["answered"] and dropped <= NO_TEXT:
            hint = "the answers have no text: name another model or --temperature, give more --max-tokens"
            hint += f", or remove {ANSWERS} in --out to ask for the same again"
        elif isinstance(endpoint, Endpoint) and not counts["answered"]:
            hint = "see whether the endpoint runs, and run the same command again"
        elif not counts[KEPT]:
            hint = "no answer mentions its entity: name another model, or give more --tries or --max-tokens"
    return f"no row is left: {told or 'no mention'}", hint


def _why_no_request(mentions: int, counts: Counter[str]) -> tuple[str, str]:
    """Why nothing is asked about any of so many mentions, and what to do."""
    told = f"mentions {mentions}"
    if counts[OUTSIDE] == mentions:
        return f"{told}, none whole in a sentence", "name a corpus whose `sentences` cut no mention"
    if counts[OUTSIDE] + counts[UNTYPED] == mentions:
        what = f"{told}, those whole in a sentence of type {UNKNOWN}, which may be none"
        return what, "name a corpus whose mentions have types"
    hint = "write `kinds` for them in --prompts, or name a corpus of other types"
    return f"{told}, of types without a kind of context", hint


def _generated_rows(
    corpus: CountedCorpus,
    source: Generated,
    texts: Sequence[tuple[str, str]],
    out: Path,
    seed: int,
    counts: Counter[str],
) -> tuple[list[ContextRow], Counter[str], dict[str, Any]]:
    kinds, things = _prompts(source.prompts)
    drawn = Drawn(seed)
    requests = context_requests(drawn.passed(source_sentences(corpus, counts)), kinds, seed)
    corpus.sentences = drawn.seen
    # Before they are sent: what would be left out in the end is not paid for.
    may_be_asked, left_out = _kept((request.sentence for request in requests), texts)
    counts["requests left out"] = may_be_asked.count(False)
    requests = list(compress(requests, may_be_asked))
    counts["requests"] = len(requests)
    sentences = list(compress(drawn.sentences, _kept((s.text for s in drawn.sentences), texts)[0]))
    answers: Sequence[str | None]
    result: dict[str, Any] = {}
    if source.endpoint is None:
        answers = [made_of_template(r.kind, r.sentence, r.entity, r.type, seed, things) for r in requests]
    else:
        given = _ask(source.endpoint, requests, things, source, out / ANSWERS)
        answers = given.answers
        counts.update({name: count for name, count in given.counts.items() if name != "not sent"})
        result = {"host": given.host} if given.host else {}
        result["texts"] = given.counts["not sent"]
        if result["texts"]:
            return [], left_out, result
    positives, judged = positive_rows(requests, answers)
    # Their sentences occur in none of the texts, and negatives are drawn from what is left.
    positives, leaks = without_leaks(positives, texts)
    counts["contexts left out"] = leaks[""]
    negatives, drawn_counts = negative_rows(positives, sentences, seed)
    counts.update(judged)
    counts.update({f"negatives {name}": count for name, count in drawn_counts.items()})
    return [*positives, *negatives], left_out + leaks, result


def _ask(
    endpoint: Endpoint | LocalModel,
    requests: Sequence[ContextRequest],
    things: dict[str, str],
    source: Generated,
    ledger: Path,
) -> Generation:
    prompts = [prompt_of(r.kind, r.sentence, r.entity, r.type, things) for r in requests]
    given = generate_usable(
        endpoint,
        prompts,
        lambda place, answer: can_help(requests[place], answer),
        ledger,
        send=source.send,
        tries=source.tries,
    )
    log.info("%s", given)
    return given


def _kept(given: Iterable[str], texts: Sequence[tuple[str, str]]) -> tuple[list[bool], Counter[str]]:
    """Which of the given sentences occur in none of the texts that are left out, and how many others each
    text has."""
    rows = [ContextRow(text, text, True) for text in given]
    clean, left_out = without_leaks(rows, texts)
    kept = {row.sentence for row in clean}
    return [row.sentence in kept for row in rows], left_out


def _prompts(path: Path | None) -> tuple[Sequence[ContextKindSettings], dict[str, str]]:
    if path is None:
        return KINDS, dict(THINGS)
    settings = read_settings(path, PromptSettings, "a file of prompts")
    return settings.kinds, {**THINGS, **settings.things}


def _texts(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """The documents of corpora by their names, one file after another."""
    for unit in find_units([Path(path).absolute() for path in paths]):
        reading = read_unit(unit)
        if reading.rejects:
            # A text that is not compared may be the one that leaks.
            first = reading.rejects[0]
            raise CorpusError(first.where, f"cannot be compared: {first.what}", first.hint)
        yield from ((document.document_id, document.text) for document in reading.documents)


def _guard(out: Path) -> None:
    """Refuse an output with files of others."""
    ours = _is_counted(out) or any((out / name).exists() for name in (ANSWERS, PARTS))
    if not ours and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CorpusError(
            f"--out {out}", "is no folder, or holds files that are not from here", "name another"
        )


def _is_counted(out: Path) -> bool:
    """Whether the counts in a folder are of rows; other commands call theirs the same. An object that was
    lost at a URI is an empty file, where the work starts over."""
    try:
        text = (out / COUNTS).read_text("utf-8")
        return not text or "rows" in json.loads(text)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
