"""The bi-encoder recognizer of papers/000 as a task."""

from __future__ import annotations

import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import torch
from pydantic import Field
from torch import Tensor, nn

from rayner.config import AddedTypes, RecognizerRecipe, TypeSettings
from rayner.data.plans import Plan
from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.losses.span_contrast import SpanTargets, loss_weights, span_contrast
from rayner.models.bi_encoder import BiEncoder, TypeInputs
from rayner.models.encoder import Tokenizer, load_tokenizer
from rayner.models.own_vectors import OwnVectors
from rayner.models.sources import ENCODER
from rayner.models.tokenizer import tokenizer_from
from rayner.tasks.base import Counts, Options, Output, Progress, Seed, Size, State
from rayner.tasks.document_task import DocumentTask, bool_rows
from rayner.tasks.document_windows import Gold, TextWindow, pad
from rayner.tasks.encoder_task import load_trained
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.added_types import base_of, effects_of_flat_decoding, read_base, require_added
from rayner.tasks.recognizer.dev_spans import span_tables, tuned_thresholds
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.recognizer.types import Threshold, new_types, type_inputs
from rayner.tasks.splits import Documents
from rayner.tasks.uncertainty import OfWords

STEPS_OF_AN_EPOCH = 20
"""At least so many where only added types learn: few examples are then gone through several times."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """Windows [B, L] with special tokens, real where `mask`, and what is known of their spans."""

    ids: Tensor
    mask: Tensor
    targets: SpanTargets


class RecognizerOptions(Options):
    """What a caller may ask of a recognizer; None means what the recipe says.

    `types`: those to look for, by description, also ones that were not learned. `shift` is added to every
    threshold: a negative one finds more, a positive one less. `overlap`: whether mentions may be nested.
    """

    types: tuple[TypeSettings, ...] | None = None
    shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    overlap: Literal["flat", "nested"] | None = None


class RecognizerTask(DocumentTask[RecognizerRecipe]):
    """Learns to tell the mentions of each type from all other spans (papers/000, equation 10)."""

    def __init__(self, recipe: RecognizerRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self.max_width = recipe.model.max_span_width
        self._thresholded = recipe.model.threshold != "tuned"
        self.weights = {
            k: w for k, w in loss_weights(recipe.loss, thresholded=self._thresholded).items() if w
        }
        self._inputs: TypeInputs | None = None

    def example_settings(self) -> Mapping[str, Any]:
        """The negatives, too: with all of them, mentions are gold that are too wide otherwise."""
        settings = {**super().example_settings(), "negatives": self.recipe.loss.negatives}
        # The tokenizer is that of the checkpoint.
        added = self.recipe.added
        return settings if added is None else {**settings, "checkpoint": added.version}

    @property
    def origin(self) -> Path | None:
        """The checkpoint that types are added to."""
        return None if self.recipe.added is None else base_of(self.recipe.added)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """That of the checkpoint that types are added to, or the encoder's."""
        if self._tokenizer is None and self.origin is not None:
            return tokenizer_from(self.origin / ENCODER)
        return self._tokenizer or load_tokenizer(self.recipe.encoder)

    def require(self, found: Documents) -> None:
        """Refuse documents without a mention of any of the types, or with too few of an added one."""
        super().require(found)
        if self.recipe.added is not None:
            require_added(found.mentions, self.recipe.added)

    def plan(
        self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int, state: State | None = None
    ) -> Plan:
        """As of every task; few examples of added types are gone through several times."""
        first = super().plan(lengths, groups, epoch, state)
        if self.recipe.added is None or not len(first):
            return first
        rounds = math.ceil(STEPS_OF_AN_EPOCH / len(first))
        plans = [super(RecognizerTask, self).plan(lengths, groups, epoch * rounds + r) for r in range(rounds)]
        sizes = np.concatenate([np.diff(plan.borders) for plan in plans])
        order = np.concatenate([plan.order[plan.borders[0] : plan.borders[-1]] for plan in plans])
        return Plan(order, np.append(0, np.cumsum(sizes)))

    def examples(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        """One row a window; `gold` (type, first, last), `cut_starts`, `cut_ends` (type, place) are flat.

        What the window's edge or the width limit keeps from being gold is cut: its ends are no negatives.
        With `negatives: all` every width is scored, so that no mention within the window is too wide.
        """
        is_band = self.recipe.loss.negatives == "band"
        widest = self.recipe.model.max_span_width if is_band else self.recipe.windows.length
        reach = 0
        for row, window, gold in self.rows(items):
            begin, end = window.span
            if window.index == 0:
                reach = max((g.last - g.first + 1 for g in gold), default=0)
            low = bisect_right(gold, begin - reach, key=lambda g: g.first)
            near = gold[low : bisect_left(gold, end, key=lambda g: g.first)]
            inside = [g for g in near if begin <= g.first and g.last < end and g.last - g.first < widest]
            cut = [g for g in near if g not in inside]
            row["rejects"] = [*row["rejects"], *self._crossing(row["document_id"], window, cut)]
            place = window.place
            row["gold"] = _flat((g.type, place(g.first), place(g.last)) for g in inside)
            row["cut_starts"] = _flat((g.type, place(g.first)) for g in cut if begin <= g.first)
            row["cut_ends"] = _flat((g.type, place(g.last)) for g in cut if begin <= g.last < end)
            yield row

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> SpanBatch:
        """Rows as tensors; positions move by one for [CLS]."""
        ids, mask = self.padded([np.asarray(e["ids"]) for e in examples])

        def marked(column: str) -> Tensor:
            return torch.from_numpy(
                pad(bool_rows([e[column] for e in examples]), ids.shape[1], False, shift=1)
            )

        return SpanBatch(
            ids,
            mask,
            SpanTargets(
                word_start=marked("first"),
                word_end=marked("last"),
                gold=_stack([e["gold"] for e in examples], columns=3),
                known=torch.from_numpy(self.known_of(examples)),
                excluded_starts=_stack([e["cut_starts"] for e in examples], columns=2),
                excluded_ends=_stack([e["cut_ends"] for e in examples], columns=2),
            ),
        )

    def counts(self, batch: SpanBatch, progress: Progress) -> Counts:
        """Mentions for the mention parts, (window, type) pairs for the threshold parts."""
        targets = _of_types(batch.targets, self._types_of_step(progress))
        window, kind = targets.gold[:, 0], targets.gold[:, 1]
        mentions, pairs = float(targets.known[window, kind].sum()), float(targets.known.sum())
        return {part: pairs if part.endswith("threshold") else mentions for part in self.weights}

    def size_of(self, batch: SpanBatch) -> Size:
        """That of its windows."""
        return Size(int(batch.targets.word_start.sum()), int(batch.mask.sum()), batch.mask.numel())

    def build(self) -> BiEncoder:
        """Both encoders start from the recipe's encoder; with added types, all is the checkpoint's."""
        if self.recipe.added is not None and self._loading is None:
            return self._built_on(self.recipe.added)
        settings = self.recipe.model
        text_encoder = self.encoder()
        self.check_windows(text_encoder)
        separate = settings.encoders == "separate" and settings.type_encoding != "atomic"
        type_encoder = self.encoder() if separate else None
        return BiEncoder(settings, text_encoder, type_encoder, len(self.names), self._own_vectors())

    def _own_vectors(self) -> OwnVectors | None:
        added, settings = self.recipe.added, self.recipe.model
        if added is None:
            return None
        size = settings.projection_size * (1 if settings.shared_linear else 3)
        return OwnVectors(len(added.earlier), len(added.types), size)

    def _built_on(self, added: AddedTypes) -> BiEncoder:
        """The checkpoint's model, with vectors of the added types that start from their descriptions."""
        folder = base_of(added)
        before, base = load_trained(folder, read_base(folder), RecognizerTask, "cpu")
        assert isinstance(before, RecognizerTask)
        assert isinstance(base, BiEncoder)
        settings, own = self.recipe.model, self._own_vectors()
        model = BiEncoder(settings, base.text_encoder, base.type_encoder, len(self.names), own)
        weights = {k: v for k, v in base.state_dict().items() if not k.startswith(("own.", "thresholds"))}
        model.load_state_dict(weights, strict=False)
        assert model.own is not None
        types = self.recipe.types[-len(added.types) :]
        model.own.start_from(base.own, base.described(before.inputs(base, types), len(types)))
        if settings.threshold != "dynamic":
            mean = base.thresholds[: base.encoded_types].mean(0).expand(len(types), 3)
            with torch.no_grad():
                model.thresholds.copy_(torch.cat([base.thresholds, mean]))
        return model

    def forward(self, model: nn.Module, batch: SpanBatch, progress: Progress) -> Output:
        """The sums of the parts of equation 10."""
        assert isinstance(model, BiEncoder)
        types = self._types_of_step(progress)
        scores = model(
            batch.ids,
            batch.mask,
            self._inputs_of(model, types),
            widths=None if self.recipe.loss.negatives == "band" else batch.ids.shape[1],
            type_ids=types.to(batch.ids.device),
        )
        targets = _of_types(batch.targets, types)
        sums = span_contrast(scores, targets, self.recipe.loss, thresholded=self._thresholded)
        return Output({part: sums[part] for part in self.weights})

    def fit(self, model: nn.Module, dev: Sequence[Document]) -> None:
        """Tune one threshold a type and part on dev, where the recipe asks for it (papers/000, section 4)."""
        assert isinstance(model, BiEncoder)
        if self.recipe.model.threshold == "tuned":
            model.set_thresholds(tuned_thresholds(self, self.predictor(model), dev))

    def uncertainty(self, model: nn.Module) -> OfWords:
        """As `Recognizer.uncertainties`, of the recipe's types."""
        return self.predictor(model).uncertainties

    def predictor(self, model: nn.Module, options: RecognizerOptions | None = None) -> Recognizer:
        """The model as it answers, for the recipe's types or for any others that have a description."""
        assert isinstance(model, BiEncoder)
        options = options or RecognizerOptions()
        types = self.recipe.types if options.types is None else options.types
        if not types:
            raise InputError("types", "no types to look for", "name some, or leave them out for the recipe's")
        names = [t.name for t in types]
        new = new_types(self.recipe, names)
        if means := [name for name, threshold in new.items() if threshold == "mean"]:
            log.warning("not learned, so held against the mean threshold of the others: %s", ", ".join(means))
        known = {name: index for index, name in enumerate(self.names)}
        ids = torch.tensor([known.get(name, -1) for name in names], device=model.log_scale.device)
        self._name_redescribed(options.types or ())
        with torch.inference_mode():
            vectors = model.eval().encode_types(self.inputs(model, types), ids)
        found = Recognizer(self, model, names, vectors, self.recipe.decoding, new_types=new)
        return found.adjusted(options)

    def new_types(self, options: RecognizerOptions) -> Mapping[str, Threshold]:
        """Types among the options that the model never learned, each with how its threshold is had."""
        return new_types(self.recipe, [t.name for t in options.types or ()])

    def inspect(self, model: nn.Module, dev: Sequence[Document]) -> Mapping[str, pa.Table]:
        """`candidates` near their thresholds, and a sample of `similarities` (papers/000, figure 2)."""
        assert isinstance(model, BiEncoder)
        return span_tables(self, self.predictor(model), dev, self.recipe.seed)

    def measure(self, model: nn.Module, dev: Sequence[Document]) -> Mapping[str, Any]:
        """`flat_decoding`: what the mentions of the other types lose to added ones."""
        if self.recipe.added is None:
            return {}
        predictor = self.predictor(model, RecognizerOptions(overlap="nested"))
        nested, overlap = list(predict(predictor, dev)), self.recipe.decoding.overlap
        return {
            "flat_decoding": effects_of_flat_decoding(dev, nested, self.recipe.added.types, overlap),
        }

    def inputs(self, model: BiEncoder, types: Sequence[TypeSettings]) -> TypeInputs | None:
        """The texts of types on the model's device; None for atomic types, and where all have own vectors."""
        own = self._with_own_vectors
        places = [place for place, settings in enumerate(types) if settings.name not in own]
        if self.recipe.model.type_encoding == "atomic" or not places:
            return None
        encoder, chosen = model.type_encoder or model.text_encoder, [types[place] for place in places]
        made = type_inputs(chosen, self.recipe.model.type_encoding, self.tokenizer, encoder.max_length)
        made = made._replace(type_index=torch.tensor(places)[made.type_index])
        device = model.log_scale.device
        return TypeInputs(*(t.to(device) for t in made if t is not None))

    @property
    def _with_own_vectors(self) -> frozenset[str]:
        added = self.recipe.added
        return frozenset() if added is None else frozenset((*added.earlier, *added.types))

    def _name_redescribed(self, types: Sequence[TypeSettings]) -> None:
        """Say which descriptions are not read, because their types have learned vectors."""
        ours = {t.name: t for t in self.recipe.types if t.name in self._with_own_vectors}
        asked = [t for t in types if t.name in ours and t != TypeSettings(name=t.name)]
        if names := [t.name for t in asked if t != ours[t.name]]:
            log.warning("have vectors of their own, so their description is not read: %s", ", ".join(names))

    def _crossing(self, document_id: str, window: TextWindow, near: Sequence[Gold]) -> Iterator[str]:
        """A line for each mention that begins in the window's sentence and ends in another."""
        end = window.edges.end
        if window.part is None or window.span.end < end:
            return
        words, word_of = window.subwords.words, window.subwords.word_of
        for mention in near:
            if mention.first < end <= mention.last:
                start, last = words[word_of[mention.first]][0], words[word_of[mention.last]][1]
                name = self.names[mention.type]
                yield f"{document_id}: {name} at {start}-{last}: crosses the end of a sentence"

    def _types_of_step(self, progress: Progress) -> Tensor:
        """The types that a step learns: all (or the added ones), or `types_per_step` of them by chance, the
        same for every worker."""
        added, wanted = self.recipe.added, self.recipe.model.types_per_step
        count = len(self.names) if added is None else len(added.types)
        first = len(self.names) - count
        if wanted is None or wanted >= count:
            return torch.arange(first, first + count)
        rng = np.random.default_rng([self.recipe.seed, progress.step])
        return torch.from_numpy(first + np.sort(rng.choice(count, wanted, replace=False)))

    def _inputs_of(self, model: BiEncoder, types: Tensor) -> TypeInputs | None:
        if self.recipe.added is not None:
            return None
        if self._inputs is None:
            self._inputs = self.inputs(model, self.recipe.types)
            if self._inputs is not None and model.types_are_fixed:
                with torch.no_grad():
                    self._inputs = self._inputs._replace(states=model.type_states(self._inputs))
        if self._inputs is None or len(types) == len(self.names):
            return self._inputs
        return _rows_of(self._inputs, types)


def _of_types(targets: SpanTargets, types: Tensor) -> SpanTargets:
    """The targets with the columns of `types` alone."""
    if len(types) == targets.known.shape[1]:
        return targets
    place = torch.full((targets.known.shape[1],), -1, device=targets.known.device)
    place[types] = torch.arange(len(types), device=place.device)

    def kept(rows: Tensor) -> Tensor:
        rows = rows[place[rows[:, 1]] >= 0].clone()
        rows[:, 1] = place[rows[:, 1]]
        return rows

    return targets._replace(
        gold=kept(targets.gold),
        known=targets.known[:, types],
        excluded_starts=kept(targets.excluded_starts),
        excluded_ends=kept(targets.excluded_ends),
    )


def _rows_of(inputs: TypeInputs, types: Tensor) -> TypeInputs:
    """The rows of `types` alone, numbered anew."""
    types = types.to(inputs.type_index.device)
    matches = inputs.type_index[:, None] == types[None, :]
    rows = matches.any(1).nonzero()[:, 0]
    width = int(inputs.mask[rows].sum(1).max())
    return TypeInputs(
        ids=inputs.ids[rows, :width],
        mask=inputs.mask[rows, :width],
        anchor=inputs.anchor[rows],
        type_index=matches[rows].long().argmax(1),
        states=None if inputs.states is None else inputs.states[rows],
    )


def _flat(rows: Iterable[Sequence[int]]) -> np.ndarray:
    return np.array([value for row in rows for value in row], dtype=np.int32)


def _stack(flat: Sequence[Any], columns: int) -> Tensor:
    """Flat rows of each window as [N, 1 + columns] with the window first; positions move by one for [CLS]."""
    parts = [np.asarray(values, dtype=np.int64).reshape(-1, columns) for values in flat]
    rows = np.concatenate(parts)
    rows[:, 1:] += 1
    windows = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return torch.from_numpy(np.concatenate([windows[:, None], rows], axis=1))
