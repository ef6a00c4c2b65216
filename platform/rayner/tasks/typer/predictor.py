"""A typer that answers: documents whose mentions get fine types, by thresholds and hierarchies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from rayner.config import TypeDecoding, TyperRecipe
from rayner.data.batches import COST_OF_A_FORWARD, tokens_per_batch_of
from rayner.data.fine_types import ancestors, gold_types, is_among, types_of_mentions
from rayner.data.schema import Document
from rayner.losses.full_precision import exact
from rayner.metrics.thresholds import best_shifts, candidates_from_columns
from rayner.metrics.typed_mentions import typed_items
from rayner.metrics.typing import METRICS, ItemCounts, score_types, scores_of
from rayner.models.kept_tensors import KeptTensors
from rayner.models.typer import Typer, TypeTable
from rayner.tasks.typer.mention_windows import MentionWindow

GRID = np.arange(0.02, 0.981, 0.02)
"""The probabilities that are tried as the threshold of all types."""
FLOOR = float(GRID[0])
"""What is less probable is not looked at when thresholds are tuned."""

Scored = Mapping[str, float]
"""Types and their probabilities: all above their thresholds and the most probable one."""

CELLS = 4_000_000
"""Scores of mentions and types that are in memory at once."""


class ReadsMentions(Protocol):
    """What the predictor asks of the task."""

    recipe: TyperRecipe

    @cached_property
    def vocabulary(self) -> Mapping[str, int]:
        """How often each type occurs in training."""
        ...

    def windows_of(self, document: Document) -> list[MentionWindow]:
        """Where the mentions of a document are read."""
        ...

    def padded(self, rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Sub-words with special tokens, padded: ids and mask, [B, longest + 2]."""
        ...


class FoundTypes(NamedTuple):
    """The types of a window's mentions that are above their thresholds, and the most probable one of each.

    All arrays are [n]: the number of the mention in its document, that of the type, its logit, and whether
    the logit is above the threshold.
    """

    mention: np.ndarray
    type: np.ndarray
    logit: np.ndarray
    above: np.ndarray


class TypePredictor:
    """Fills `Mention.types` of the mentions that are there, best first.

    Args:
        table: the types as they are held against mentions.
        thresholds: [K] logits.
    """

    forward_cost = COST_OF_A_FORWARD
    whole = True

    def __init__(
        self,
        task: ReadsMentions,
        model: Typer,
        types: Sequence[str],
        table: TypeTable,
        thresholds: Tensor,
        states: KeptTensors | None = None,
    ) -> None:
        self._states = states
        self._task, self._model, self._table, self._thresholds = task, model.eval(), table, thresholds
        self.tokens_per_batch = tokens_per_batch_of(model)
        self.fine_types = list(types)
        self._known = frozenset(self.fine_types)

    def prepare(self, item: Document) -> list[MentionWindow]:
        """The windows that hold the document's mentions."""
        return self._task.windows_of(item)

    def length_of(self, window: MentionWindow) -> int:
        """Sub-words of the window, special tokens included."""
        return len(window)

    @torch.inference_mode()
    def forward(self, windows: Sequence[MentionWindow]) -> list[FoundTypes]:
        """What is found in each window: only scores above their thresholds leave the device."""
        vectors = self._vectors(windows)
        parts: list[list[np.ndarray]] = []
        begin = 0
        for part in vectors.split(max(1, CELLS // len(self.fine_types))):
            mention, *columns = (column.cpu().numpy() for column in self._kept(part))
            parts.append([mention + begin, *columns])
            begin += len(part)
        mention, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        numbers = np.concatenate([window.mentions for window in windows])
        ends = np.searchsorted(mention, np.cumsum([len(window.places) for window in windows]))
        pieces = [np.split(column, ends[:-1]) for column in (numbers[mention], *columns)]
        return [FoundTypes(*piece) for piece in zip(*pieces, strict=True)]

    def finish(
        self, item: Document, windows: Sequence[MentionWindow], scores: Sequence[FoundTypes]
    ) -> Document:
        """The document with the types of its mentions; a mention that touches no word has none."""
        settings, mentions = self._task.recipe.decoding, [replace(m, types=()) for m in item.mentions]
        for number, (scored, above) in self.scored(scores).items():
            types = decode(scored, above, settings, self._known)
            mentions[number] = replace(mentions[number], types=types)
        return replace(item, mentions=tuple(mentions))

    def scored(self, scores: Sequence[FoundTypes]) -> dict[int, tuple[dict[str, float], list[str]]]:
        """By the number of the mention: the probabilities of its types, and which are above thresholds."""
        found: dict[int, tuple[dict[str, float], list[str]]] = {}
        for part in scores:
            columns = part.mention.tolist(), part.type.tolist(), probability(part.logit).tolist()
            for number, kind, score, is_above in zip(*columns, part.above.tolist(), strict=True):
                of_mention, above = found.setdefault(number, ({}, []))
                name = self.fine_types[kind]
                of_mention[name] = score
                if is_above:
                    above.append(name)
        return found

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """The metrics of `score_types`; types that the model lacks count as not found."""
        return score_types(*typed_items(gold, predicted), frequencies=self._task.vocabulary)

    def _vectors(self, windows: Sequence[MentionWindow]) -> Tensor:
        """[M, D] of the mentions of the windows, in their order."""
        if self._states is None:
            return self._model.vectors(*self._tensors(windows))
        keys = [(window.ids.tobytes(), window.places.tobytes()) for window in windows]
        known = {key: states for key in keys if (states := self._states.get(key)) is not None}
        new = [(key, window) for key, window in zip(keys, windows, strict=True) if key not in known]
        if new:
            sizes = [len(window.places) for _, window in new]
            read = self._model.states(*self._tensors([window for _, window in new])).split(sizes)
            for (key, _), states in zip(new, read, strict=True):
                known[key] = states
                self._states.keep(key, states)
        return self._model.head.mentions(torch.cat([known[key] for key in keys]))

    def _tensors(self, windows: Sequence[MentionWindow]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ids and mask [B, L], row and place [M] of each mention, on the model's device."""
        device = self._table.weight.device
        ids, mask = self._task.padded([window.ids for window in windows])
        rows = np.repeat(np.arange(len(windows)), [len(window.places) for window in windows])
        places = 1 + np.concatenate([window.places for window in windows])
        rest = torch.from_numpy(rows).to(device), torch.from_numpy(places.astype(np.int64)).to(device)
        return ids.to(device), mask.to(device), *rest

    def _kept(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        logits = exact(self._table.scores(vectors))
        above = logits > self._thresholds
        kept = above.clone()
        kept[torch.arange(len(kept), device=kept.device), logits.argmax(1)] = True
        mention, kind = kept.nonzero(as_tuple=True)
        return mention, kind, logits[mention, kind], above[mention, kind]


class TypeStage(TypePredictor):
    """A typer after a stage that finds mentions: its metrics beside those of that stage."""

    def __init__(self, predictor: TypePredictor) -> None:
        vars(self).update(vars(predictor))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """`types_accuracy, types_macro_f1, types_micro_f1, ...`; mentions are the same if their spans are.

        Of gold mentions without any type that the typer knows, each is None.
        """
        known = set(self.fine_types)
        if not any(known.intersection(gold_types(m)) for document in gold for m in document.mentions):
            return {f"types_{name}": None for name in METRICS}
        scores = score_types(*typed_items(gold, predicted))
        return {f"types_{name}": scores[name] for name in METRICS}


class GoldScore(NamedTuple):
    """The types of a span that thresholds are tuned on.

    `scored` are all above `FLOOR` and the most probable one; `gold` those that somebody looked for, of which
    `annotated` tells: None for all.
    """

    scored: Scored
    gold: Collection[str]
    annotated: Collection[str] | None = None

    def counts(self, name: str) -> bool:
        """Whether an answer of the type is right or wrong: where nobody looked for it, it is neither."""
        return is_among(name, self.annotated)


class GoldScores(TypePredictor):
    """All types above the thresholds, undecoded, with the gold types of each span."""

    def finish(self, item: Document, windows: Sequence[MentionWindow], scores: Sequence[FoundTypes]) -> Any:
        found = self.scored(scores)
        return [
            GoldScore(found.get(number, ({}, []))[0], types.names, types.looked_for)
            for number, types in enumerate(types_of_mentions(item))
            if types is not None
        ]


def probability(logits: np.ndarray) -> np.ndarray:
    """The sigmoid, without overflow."""
    return 1 / (1 + np.exp(-np.clip(logits, -60, 60)))


def logit(value: float) -> float:
    """The inverse of `probability`; of 1, which float32 rounds to, that of the number before it."""
    value = min(value, 1 - 2.0**-24)
    return float(np.log(value) - np.log1p(-value))


def decode(
    scored: Scored, above: Collection[str], settings: TypeDecoding, known: Collection[str]
) -> tuple[tuple[str, float], ...]:
    """The types of a mention, best first, by name among equals.

    A type that a more special one adds has at least its probability, so that no special type comes before a
    general one.

    Args:
        scored: those above their thresholds, and the most probable one.
        above: those of them that are above their thresholds.
        known: all types that there are: only those are added, and only their absence drops what is below.
    """
    best = max(scored, key=lambda name: (scored[name], name), default=None)
    kept = {name: scored[name] for name in above}
    forced = best is not None and settings.always_best
    if settings.hierarchy == "drop_orphans":
        kept = {n: s for n, s in kept.items() if all(a in kept for a in ancestors(n) if a in known)}
    if forced and best is not None:
        kept[best] = scored[best]
    if settings.hierarchy != "none":
        for name, score in list(kept.items()):
            for above_it in ancestors(name):
                if above_it in known:
                    kept[above_it] = max(kept.get(above_it, 0.0), score)
    return tuple(sorted(kept.items(), key=lambda item: (-item[1], item[0])))


def tuned_threshold(mentions: Sequence[GoldScore], settings: TypeDecoding, known: Collection[str]) -> float:
    """The probability in `GRID` whose types have the best loose macro F1 on dev, as `typed_items` counts; of
    equals the one nearest to `settings.value`."""
    gold = np.array([len(set(one.gold)) for one in mentions], np.int64)
    answers = (
        (row, name in one.gold, end)
        for row, one in enumerate(mentions)
        for name, end in _ends(one.scored, settings, known).items()
        if one.counts(name)
    )
    given = np.fromiter(answers, [("row", np.int64), ("right", bool), ("end", np.float64)])
    found = []
    for value in GRID:
        kept = given[given["end"] > value]
        right, predicted = (
            np.bincount(part["row"], minlength=len(gold)) for part in (kept[kept["right"]], kept)
        )
        sums = ItemCounts(right, predicted, gold).terms().sum(0)
        found.append(float(scores_of(sums)["macro_f1"]))
    order = np.lexsort((np.abs(GRID - settings.value), -np.round(found, 12)))
    return float(GRID[order[0]])


def _ends(scored: Scored, settings: TypeDecoding, known: Collection[str]) -> dict[str, float]:
    """By type, the threshold of all types from which on `decode` gives it no more; a higher one never gives
    more types."""
    ends = dict(scored)
    if settings.hierarchy == "drop_orphans":
        ends = {
            name: min([score, *(scored.get(above, 0.0) for above in ancestors(name) if above in known)])
            for name, score in scored.items()
        }
    if scored and settings.always_best:
        ends[max(scored, key=lambda name: (scored[name], name))] = np.inf
    if settings.hierarchy != "none":
        for name, end in list(ends.items()):
            for above in ancestors(name):
                if above in known:
                    ends[above] = max(ends.get(above, 0.0), end)
    return ends


def tuned_per_type(mentions: Sequence[GoldScore], settings: TypeDecoding, known: Sequence[str]) -> np.ndarray:
    """[K] the logit of each type's threshold with its best F1 on dev, from `FLOOR` on; of types of which dev
    has none that is right there, `value`'s."""
    rows: list[tuple[str, float, bool]] = []
    support: dict[str, int] = {}
    for one in mentions:
        right = one.gold
        shown = [(name, s) for name, s in one.scored.items() if s > FLOOR and one.counts(name)]
        rows += [(name, logit(s), name in right) for name, s in shown]
        for name in right:
            support[name] = support.get(name, 0) + 1
    types, logits, right = zip(*rows, strict=True) if rows else ((), (), ())
    usual = logit(settings.value)
    margins = np.asarray(logits, np.float64) - usual
    shifts = best_shifts(candidates_from_columns(types, margins, right, support))
    seen = {name for name, _, is_right in rows if is_right}
    # Below the lowest of these a shift goes half a gap further, where other mentions were not looked at.
    return np.array(
        [max(usual + shifts[name]["shift"], logit(FLOOR)) if name in seen else usual for name in known]
    )
