"""Which contexts help an extractor to find the mentions of a sentence that are known to be there.

Labels for a context ranker without generation and without a second model: a context is relevant if it raises
the probability that the extractor gives to the gold mentions of the sentence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rayner.config import ContextSettings
from rayner.data.schema import Context, Document, Mention, Span
from rayner.errors import CheckpointError
from rayner.models.sources import ENCODER
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.checkpoint import Checkpoint
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.document_windows import Gold, TextWindow, gold_of
from rayner.tasks.encoder_task import encoders
from rayner.tasks.predict import predict
from rayner.tasks.sentence_vectors import sentence_vectors


@runtime_checkable
class KnowsGold(Protocol):
    """A predictor that says how probable mentions are, whether it finds them or not."""

    def gold_probabilities(
        self, windows: Sequence[TextWindow], gold: Sequence[Sequence[Gold]]
    ) -> list[list[float]]:
        """The probability of each gold mention of each window."""
        ...


@dataclass(frozen=True, slots=True)
class Gain:
    """By how much a context raises the mean probability of the mentions of a sentence."""

    sentence: str
    context: str
    gain: float
    entities: tuple[str, ...]
    group: str

    def row(self, minimum: float) -> ContextRow | None:
        """A row for a ranker; None where the context neither helps by `minimum` nor leaves all as it was."""
        if 0 < self.gain < minimum:
            return None
        return ContextRow(self.sentence, self.context, self.gain > 0, self.entities, self.group)


class GoldWindow(NamedTuple):
    """A window, the gold mentions that it decides about, and how many its document has."""

    window: TextWindow
    gold: Sequence[Gold]
    of: int


class _GoldPredictor:
    """The mean probability of the gold mentions of each document; None where no window holds one.

    One that no window holds has none: a context leaves less room, and it would not be found beside that.
    """

    whole = True

    def __init__(self, task: DocumentTask[Any], extractor: Any) -> None:
        self._task, self._extractor = task, extractor
        self._type_index = {name: index for index, name in enumerate(task.names)}
        self.forward_cost, self.tokens_per_batch = extractor.forward_cost, extractor.tokens_per_batch

    def prepare(self, item: Document) -> list[GoldWindow]:
        windows = self._task.windows_of(item)
        if not windows:
            return []
        gold, _ = gold_of(item, windows[0].subwords, self._type_index, self._task.max_width)
        return [
            GoldWindow(
                window, [g for g in gold if _holds(window, g) and window.decides(g.first, g.last)], len(gold)
            )
            for window in windows
        ]

    def length_of(self, window: GoldWindow) -> int:
        return self._extractor.length_of(window.window)

    def forward(self, windows: Sequence[GoldWindow]) -> list[list[float]]:
        held, gold, _ = zip(*windows, strict=True)
        return self._extractor.gold_probabilities(held, gold)

    def finish(
        self, item: Document, windows: Sequence[GoldWindow], scores: Sequence[list[float]]
    ) -> float | None:
        found = [probability for of_window in scores for probability in of_window]
        return sum(found) / windows[0].of if found else None

    def evaluate(self, predicted: Sequence[Any], gold: Sequence[Document]) -> dict[str, Any]:
        return {}


def check_extractor(checkpoint: Checkpoint) -> tuple[DocumentTask[Any], KnowsGold]:
    """The task and the predictor of a checkpoint that can label contexts.

    Raises:
        CheckpointError: it finds no mentions, or reads no contexts.
    """
    where = str(checkpoint.folder)
    extractor = checkpoint.predictor()
    if not isinstance(extractor, KnowsGold):
        what = f"is of the task {checkpoint.recipe.task}, which does not say how probable given mentions are"
        raise CheckpointError(where, what, "name the checkpoint of a recognizer or a tagger")
    # What knows gold mentions was made by a task over documents.
    task: Any = checkpoint.task
    if not task.recipe.windows.context:
        what = "reads no contexts (windows.context is 0)"
        raise CheckpointError(where, what, "train one with windows.context and context")
    return task, extractor


def context_gains(
    checkpoint: Checkpoint, documents: Iterable[Document], settings: ContextSettings
) -> Iterator[Gain]:
    """The gain of each candidate context of each sentence with a mention that lies whole in it.

    Args:
        settings: `methods` and `candidates` say which contexts are tried; the others are not read.

    Raises:
        CheckpointError: as `check_extractor`.
    """
    task, extractor = check_extractor(checkpoint)
    vectors = partial(sentence_vectors, encoders(checkpoint.model)[ENCODER], checkpoint.task.tokenizer)
    stage = ContextStage(settings, encode=vectors)
    asked: deque[tuple[Document, Context | None]] = deque()

    def items() -> Iterator[Document]:
        for document in documents:
            for sentence, contexts in _sentences(stage, document):
                for context in (None, *contexts):
                    asked.append((sentence, context))
                    chosen = () if context is None else (context,)
                    yield replace(sentence, sentence_contexts=(chosen,))

    alone: float | None = None
    for probability in predict(_GoldPredictor(task, extractor), items()):
        sentence, context = asked.popleft()
        if context is None:
            alone = probability
        elif alone is not None:
            yield Gain(
                _plain(sentence.text),
                _plain(context.text),
                (probability or 0.0) - alone,
                tuple(dict.fromkeys(_plain(sentence.text[m.start : m.end]) for m in sentence.mentions)),
                sentence.group or sentence.document_id,
            )


def mean_gains(gains: Iterable[Gain]) -> list[Gain]:
    """Each context of each sentence of a group once, with its mean gain and all mentions: what a text
    repeats would be several rows, of both labels maybe."""
    same: defaultdict[tuple[str, str, str], list[Gain]] = defaultdict(list)
    for gain in gains:
        same[gain.sentence, gain.context, gain.group].append(gain)
    return [
        replace(
            found[0],
            gain=fmean(gain.gain for gain in found),
            entities=tuple(dict.fromkeys(entity for gain in found for entity in gain.entities)),
        )
        for found in same.values()
    ]


def _sentences(stage: ContextStage, document: Document) -> Iterator[tuple[Document, list[Context]]]:
    """The sentences with mentions as documents, each with its candidate contexts."""
    found = stage.candidates(document)
    texts, spans = found.sentences.texts, found.document.sentences or ()
    mentions = _inside(spans, [(m.start, m.end) for m in document.mentions])
    words = _inside(spans, document.words or ())
    for number, (span, candidates) in enumerate(zip(spans, found.of_sentence, strict=True)):
        if mentions[number] and candidates:
            contexts = [Context(texts[c.sentence], 1.0, c.sentence < number) for c in candidates]
            yield _sentence(document, span, mentions[number], words[number]), contexts


def _inside(sentences: Sequence[Span], spans: Sequence[Span]) -> list[list[int]]:
    """The numbers of the spans that lie whole in each sentence, in their order."""
    starts = [start for start, _ in sentences]
    inside: list[list[int]] = [[] for _ in sentences]
    for number, (start, end) in enumerate(spans):
        place = bisect_right(starts, start) - 1
        if place >= 0 and end <= sentences[place][1]:
            inside[place].append(number)
    return inside


def _sentence(document: Document, span: Span, mentions: Sequence[int], words: Sequence[int]) -> Document:
    start, end = span
    own = document.words
    return replace(
        document,
        text=document.text[start:end],
        mentions=tuple(_moved(document.mentions[number], span) for number in mentions),
        words=None if own is None else tuple((own[n][0] - start, own[n][1] - start) for n in words),
        sentences=((0, end - start),),
        group=document.group or document.document_id,
    )


def _moved(mention: Mention, span: Span) -> Mention:
    return replace(mention, start=mention.start - span[0], end=mention.end - span[0], head=None)


def _holds(window: TextWindow, gold: Gold) -> bool:
    begin, end = window.span
    return begin <= gold.first and gold.last < end


def _plain(text: str) -> str:
    return " ".join(text.split())
