"""The one way from items to answers, behind evaluation, annotation and serving."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from rayner.counted import counted
from rayner.data.batches import forwards
from rayner.data.readers.base import is_encodable, strings_of
from rayner.data.readers.rows import fault_of_offsets, fault_of_values
from rayner.data.schema import Document, Mention
from rayner.data.sections import Section, join_mentions, part_of, sections, to_be_cut
from rayner.errors import InputError
from rayner.models.threads import one_thread, usable_cores
from rayner.tasks.base import Predictor

Item = TypeVar("Item")
Out = TypeVar("Out")

BATCHES_PER_ROUND = (4, 32)
"""How many batches are sorted by length together: padding against memory and delay. Each round has twice as
many as the one before, from the first number to the second, so that a small job has several: while the model
works on one, the next can be prepared."""
PIECES_PER_ROUND = 8192
"""Of which a round has no more: who streams documents waits for no more than these."""


class Predicted(NamedTuple):
    """An answer, and how many windows the model read for it."""

    out: Any
    windows: int


@dataclass(frozen=True, slots=True)
class Piece:
    """An item, or a section of a long document, which is cut `out_of` what `to_be_cut` makes of it."""

    item: Any
    section: Section | None = None
    is_last: bool = True
    out_of: Any = None

    @property
    def part(self) -> Any:
        """What the predictor is given."""
        return self.item if self.section is None else part_of(self.out_of, self.section)


_Round = list[tuple[Piece, Any, list[Any]]]


def predict(
    predictor: Predictor[Item, Any, Any, Out],
    items: Iterable[Item],
    tokens_per_batch: int | None = None,
    ahead: bool = False,
) -> Iterator[Out]:
    """The answer to each item, in order.

    Windows of many items share a batch, by length. A long document is worked on in sections, unless the
    predictor asks for whole ones: working memory is bounded by some batches and by the windows of one
    section, however many windows a document has. The stages of a chain work one after the other, each some
    batches ahead of the next.

    Args:
        tokens_per_batch: padded tokens a batch; by default the predictor's. Stages behind the first keep
            their own where that is less.
        ahead: whether a thread reads and prepares the next windows while the model works, which changes no
            answer: for where `has_spare_core` says so. Where a GPU does the model's work it always does.

    Raises:
        InputError: batches of no number of tokens.
    """
    if tokens_per_batch is not None and (not isinstance(tokens_per_batch, Integral) or tokens_per_batch < 1):
        what = f"{_shown(tokens_per_batch)} is no whole number of 1 or more"
        raise InputError("tokens_per_batch", what, "give the padded tokens of a batch, or leave it out")
    return (predicted.out for predicted in predict_and_count(predictor, items, tokens_per_batch, ahead))


def predict_and_count(
    predictor: Predictor[Item, Any, Any, Out],
    items: Iterable[Item],
    tokens_per_batch: int | None = None,
    ahead: bool = False,
) -> Iterator[Predicted]:
    """As `predict`, with the number of windows that the first stage read for each answer."""
    first, *others = stages_of(predictor)
    # Not the others: what they read comes from the model of the stage before, which is no work for that core.
    answers = _one_stage(first, items, tokens_per_batch, ahead)
    for stage in others:
        answers = _next_stage(stage, answers, tokens_of(stage, tokens_per_batch))
    return answers


def tokens_of(stage: Predictor[Any, Any, Any, Any], asked: int | None) -> int | None:
    """The padded tokens of a batch of a stage behind the first: its own, and no more than were asked for."""
    return asked and min(asked, stage.tokens_per_batch)


def stages_of(predictor: Any) -> Sequence[Predictor[Any, Any, Any, Any]]:
    """The stages of a chain, in order; a predictor that is no chain is its only stage."""
    return getattr(predictor, "stages", (predictor,))


def _one_stage(
    predictor: Predictor[Any, Any, Any, Any],
    items: Iterable[Any],
    tokens_per_batch: int | None,
    ahead: bool = False,
) -> Iterator[Predicted]:
    tokens = tokens_per_batch or predictor.tokens_per_batch
    return joined(_answers(predictor, pieces_of(items, predictor.whole), tokens, ahead))


def _next_stage(
    predictor: Predictor[Any, Any, Any, Any], answers: Iterator[Predicted], tokens_per_batch: int | None
) -> Iterator[Predicted]:
    windows: deque[int] = deque()

    def items() -> Iterator[Any]:
        for answer in answers:
            windows.append(answer.windows)
            yield answer.out

    for found in _one_stage(predictor, items(), tokens_per_batch):
        yield Predicted(found.out, windows.popleft())


def joined(answers: Iterable[tuple[Piece, Any, int]]) -> Iterator[Predicted]:
    """The answers to items, from those to all their pieces, in order, with the windows of each."""
    parts: list[tuple[Section, tuple[Mention, ...]]] = []
    count = 0
    for piece, out, windows in answers:
        if piece.section is None:
            yield Predicted(out, windows)
            continue
        parts.append((piece.section, out.mentions))
        count += windows
        if piece.is_last:
            yield Predicted(replace(piece.item, mentions=join_mentions(parts)), count)
            parts, count = [], 0


def checked(items: Any) -> Iterator[Any]:
    """What a caller of Python gives to be read: one text or several, plain or with a `text` of their own.

    Raises:
        InputError: it is something else, or a document with spans outside its text, by its place.
    """
    if hasattr(items, "columns") and not isinstance(items, list):
        what = f"{type(items).__name__} holds columns, and texts are wanted"
        raise InputError("items", what, "give one of its columns")
    given: Any = [items] if isinstance(items, str) or hasattr(items, "text") else items
    # An array of NumPy without a dimension has `__iter__`, too.
    if not isinstance(given, Iterable) or isinstance(given, Mapping) or getattr(given, "ndim", 1) == 0:
        raise InputError("items", f"{_shown(items)} holds no text", "give a text, a document or a list")
    for place, item in enumerate(given):
        where, text = f"items[{place}]", item if isinstance(item, str) else getattr(item, "text", None)
        if not isinstance(text, str):
            raise InputError(where, f"{_shown(item)} is no text", "give a string or a document")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            what = f"half a surrogate pair at character {error.start}, which is no character"
            raise InputError(where, what, "decode the text from UTF-8 again") from None
        if isinstance(item, Document):
            _check(item, where)
        yield item


def as_documents(items: Iterable[Any], refusal: Callable[[], tuple[str, str]] | None) -> Iterator[Document]:
    """What `checked` gives as documents, texts numbered.

    Args:
        refusal: what is wrong with a text alone and what to do about it, where nothing finds mentions in it.

    Raises:
        InputError: something else that has a text, or such a text, by its place.
    """
    for place, item in enumerate(items):
        where = f"items[{place}]"
        if isinstance(item, str) and refusal is not None:
            what, hint = refusal()
            raise InputError(where, what, f"give a document with its mentions, or {hint}")
        if not isinstance(item, str | Document):
            what = f"{type(item).__name__} is no document"
            raise InputError(where, what, "give a string or a rayner.Document")
        yield Document(str(place), item) if isinstance(item, str) else item


def as_mentions(items: Iterable[Any]) -> Iterator[Any]:
    """What `checked` gives for a standardizer alone: strings, or mentions of files.

    Raises:
        InputError: a document, or something else that has a text, by its place.
    """
    for place, item in enumerate(items):
        where = f"items[{place}]"
        if isinstance(item, Document):
            what = "a document, and a standardizer alone links strings"
            hint = "load a pipeline file that names it: `stages:` and below it `- checkpoint: RUN/best`"
            raise InputError(where, what, hint)
        if not isinstance(item, str) and not hasattr(item, "sentence"):
            raise InputError(where, f"{type(item).__name__} is no mention", "give a string")
        yield item


def _check(document: Document, where: str) -> None:
    try:
        # A generator would be used up here.
        _ = len(document.mentions), len(document.words or ()), len(document.sentences or ())
        if fault := fault_of_offsets(document) or _outside(document):
            hint = "offsets are Python's int and count the characters of its text from 0"
            raise InputError(where, fault, hint)
        if fault := fault_of_values(document):
            raise InputError(where, fault, "numbers are Python's int and float, names are strings")
        if fault := _unequal(document):
            raise InputError(where, fault, "give each of its sentences a tuple of contexts")
        if (half := next((s for s in strings_of(document) if not is_encodable(s)), None)) is not None:
            what = f"half a surrogate pair in {half[:20]!a}, which is no character"
            raise InputError(where, what, "decode it from UTF-8 again")
    except (AttributeError, TypeError, ValueError):
        what = "its mentions, words, sentences or contexts are not such as a document has"
        raise InputError(
            where, what, "give tuples of rayner.Mention, of (start, end), of rayner.Context"
        ) from None


def _outside(document: Document) -> str:
    size = len(document.text)
    first = next((m for m in document.mentions if not 0 <= m.start < m.end <= size), None)
    return "" if first is None else f"the mention [{first.start}, {first.end}) is no part of its text"


def _unequal(document: Document) -> str:
    """What is wrong with the number of its sentences' contexts: a text without sentences is one."""
    if document.sentence_contexts is None:
        return ""
    given, wanted = len(document.sentence_contexts), len(document.sentences or ((),))
    # A blank text has neither.
    if given == wanted or not (given or document.sentences):
        return ""
    return f"sentence_contexts are of {counted(given, 'sentence')}, and it has {wanted}"


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


def pieces_of(items: Iterable[Any], whole: bool) -> Iterator[Piece]:
    """The items, long documents in sections unless they are asked for whole."""
    for item in items:
        cut = sections(item.text) if isinstance(item, Document) and not whole else []
        if len(cut) < 2:
            yield Piece(item)
        else:
            out_of = to_be_cut(item)
            yield from (Piece(item, section, section is cut[-1], out_of) for section in cut)


def _answers(
    predictor: Predictor[Any, Any, Any, Any], pieces: Iterable[Piece], tokens_per_batch: int, ahead: bool
) -> Iterator[tuple[Piece, Any, int]]:
    rounds = _rounds(predictor, pieces, tokens_per_batch)
    for held in _ahead(rounds) if ahead or torch.cuda.is_available() else rounds:
        yield from _answer(predictor, held, tokens_per_batch)


def has_spare_core(cpus: float | None = None) -> bool:
    """Whether this process has more CPUs than its model has threads.

    Args:
        cpus: those that it was given; by default those that it may run on.
    """
    return (usable_cores() if cpus is None else cpus) > torch.get_num_threads()


def _rounds(
    predictor: Predictor[Any, Any, Any, Any], pieces: Iterable[Piece], tokens_per_batch: int
) -> Iterator[_Round]:
    """Pieces with their windows, as many as are sorted by length together."""
    held: _Round = []
    tokens = 0
    batches, most = BATCHES_PER_ROUND
    for piece in pieces:
        part = piece.part
        windows = predictor.prepare(part)
        held.append((piece, part, windows))
        # One for the item: texts without words must not pile up for long.
        tokens += 1 + sum(predictor.length_of(w) for w in windows)
        if tokens >= batches * tokens_per_batch or len(held) >= PIECES_PER_ROUND:
            yield held
            held, tokens, batches = [], 0, min(2 * batches, most)
    yield held


def _ahead(rounds: Iterator[_Round]) -> Iterator[_Round]:
    """The rounds, the next one made by a thread while the caller works on the one before."""
    with one_thread("prepare") as pool:
        waiting = pool.submit(next, rounds, None)
        while (found := waiting.result()) is not None:
            waiting = pool.submit(next, rounds, None)
            yield found


def _answer(
    predictor: Predictor[Any, Any, Any, Any],
    held: _Round,
    tokens_per_batch: int,
) -> Iterator[tuple[Piece, Any, int]]:
    windows = [window for _, _, prepared in held for window in prepared]
    lengths = np.array([predictor.length_of(window) for window in windows])
    scores: list[Any] = [None] * len(windows)
    for batch in forwards(np.arange(len(windows)), lengths, tokens_per_batch, predictor.forward_cost):
        for index, score in zip(batch, predictor.forward([windows[i] for i in batch]), strict=True):
            scores[index] = score
    begin = 0
    for piece, part, prepared in held:
        end = begin + len(prepared)
        yield piece, predictor.finish(part, prepared, scores[begin:end]), len(prepared)
        begin = end
