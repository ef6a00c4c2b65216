"""The bi-encoder recognizer of papers/000 as a task."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import torch
from pydantic import Field
from torch import Tensor, nn

from rayner.config import RecognizerRecipe, Types, TypeSettings
from rayner.config.documents import described
from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.losses.consistency import divergence
from rayner.losses.self_training import distillation, left_open, teacher_labels
from rayner.losses.span_contrast import SpanTargets, loss_weights, span_contrast
from rayner.metrics.score_calibration import ScoreCalibration
from rayner.models.bi_encoder import BiEncoder
from rayner.models.encoder import Tokenizer
from rayner.models.own_vectors import OwnVectors
from rayner.models.type_inputs import TypeInputs
from rayner.tasks.base import Counts, Output, Progress, Seed, Size
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.document_windows import Gold, TextWindow, pad
from rayner.tasks.predictor_options import Options
from rayner.tasks.recognizer import calibration
from rayner.tasks.recognizer.dev_spans import span_tables, tuned_thresholds
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.recognizer.self_training import teacher_of
from rayner.tasks.recognizer.step_types import of_every_type, of_types, one_text_each, rows_of, with_absent
from rayner.tasks.recognizer.types import Threshold, check_texts, new_types, type_inputs
from rayner.tasks.uncertainty import OfWords

R_DROP = "r_drop"
"""The part of the loss over two passes."""
TEACHER = "teacher"
"""The part of the loss that a teacher gives."""

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
    threshold of spans: a negative one finds more, a positive one less (with `decoding.flat: optimal` perhaps
    others); those of starts and ends, which joint decoding asks for, stay. `overlap`: whether mentions may be
    nested.
    """

    types: Types | None = None
    shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    overlap: Literal["flat", "nested"] | None = None


class RecognizerTask(DocumentTask[RecognizerRecipe]):
    """Learns to tell the mentions of each type from all other spans (papers/000, equation 10)."""

    examples_version = 6

    def __init__(self, recipe: RecognizerRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self.max_width = recipe.model.max_span_width
        self._thresholded = recipe.model.threshold != "tuned"
        weights = loss_weights(recipe.loss, thresholded=self._thresholded)
        of_teacher = 0.0 if recipe.self_training is None else recipe.self_training.weight
        weights |= {R_DROP: recipe.loss.r_drop, TEACHER: of_teacher}
        self.weights = {part: weight for part, weight in weights.items() if weight}
        if recipe.self_training is not None:
            self.patience_epoch = recipe.self_training.start_epoch
        self._inputs: TypeInputs | None = None
        self.calibration: ScoreCalibration | None = None
        self._calibrated: ScoreCalibration | None = None
        """What it had before anything was fitted."""

    @property
    def calibration_fraction(self) -> float:
        """What the recipe says."""
        return self.recipe.calibration.fraction

    def check_corpus(self) -> None:
        """Refuse types without a text, too."""
        super().check_corpus()
        types = (*self.recipe.types, *self.recipe.absent)
        check_texts(types, self.recipe.model.type_encoding, self.tokenizer)

    def example_settings(self) -> Mapping[str, Any]:
        """The negatives, too: with all of them, mentions are gold that are too wide otherwise."""
        return {**super().example_settings(), "negatives": self.recipe.loss.negatives}

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
            return torch.from_numpy(pad([e[column] for e in examples], ids.shape[1], False, shift=1))

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
                excluded_spans=of_every_type(
                    _stack([e["unknown"] for e in examples], columns=2, typed=False), len(self.names)
                ),
            ),
        )

    def counts(self, batch: SpanBatch, progress: Progress) -> Counts:
        """Mentions for the mention parts, (window, type) pairs for the threshold parts."""
        targets = self._targets_of(batch, progress)
        window, kind = targets.gold[:, 0], targets.gold[:, 1]
        mentions, pairs = float(targets.known[window, kind].sum()), float(targets.known.sum())
        of_pairs = {part for part in self.weights if part.endswith("threshold") or part == R_DROP}
        return {part: pairs if part in of_pairs else mentions for part in self.weights}

    def size_of(self, batch: SpanBatch) -> Size:
        """That of its windows."""
        return Size(int(batch.targets.word_start.sum()), int(batch.mask.sum()), batch.mask.numel())

    def build(self) -> BiEncoder:
        """Both encoders start from the recipe's encoder."""
        settings = self.recipe.model
        text_encoder = self.encoder()
        self.check_length(text_encoder, self.recipe.windows.length)
        separate = settings.encoders == "separate" and settings.type_encoding != "atomic"
        type_encoder = self.encoder() if separate else None
        return BiEncoder(settings, text_encoder, type_encoder, len(self.names), self.own_vectors())

    def own_vectors(self) -> OwnVectors | None:
        """None: the vectors of all types are encoded."""
        return None

    def forward(self, model: nn.Module, batch: SpanBatch, progress: Progress) -> Output:
        """The sums of the parts of equation 10; with `loss.r_drop` their mean over two passes; what a teacher
        says where there is one."""
        assert isinstance(model, BiEncoder)
        types, absent = self._types_of_step(progress), self._absent_of_step(progress)
        inputs, targets = self._inputs_of(model, types, absent, progress), self._targets_of(batch, progress)
        type_ids = torch.cat([types, torch.full_like(absent, -1)]).to(batch.ids.device, non_blocking=True)
        widths = None if self.recipe.loss.negatives == "band" else batch.ids.shape[1]
        given = batch.ids, batch.mask, inputs, widths, type_ids
        labels = None
        if self.recipe.self_training is not None:
            teacher = teacher_of(model, progress, self.recipe.self_training)
            if teacher is not None:
                labels = teacher_labels(teacher(*given), targets, self.recipe.self_training.confidence)
                targets = left_open(targets, labels)
        passes = [model(*given) for _ in range(2 if R_DROP in self.weights else 1)]
        found = [span_contrast(s, targets, self.recipe.loss, thresholded=self._thresholded) for s in passes]
        if TEACHER in self.weights:
            for scores, parts in zip(passes, found, strict=True):
                nothing = scores.span.new_zeros(())
                parts[TEACHER] = nothing if labels is None else distillation(scores, labels)
        sums = found[0]
        if len(found) == 2:
            sums = {part: (value + found[1][part]) / 2 for part, value in sums.items()}
            sums[R_DROP] = divergence(passes[0], passes[1], targets)
        return Output({part: sums[part] for part in self.weights})

    def fit(self, model: nn.Module, dev: Sequence[Document]) -> None:
        """Tune one threshold a type and part on dev, where the recipe asks for it (papers/000, section 4)."""
        assert isinstance(model, BiEncoder)
        if self.recipe.model.threshold == "tuned":
            model.set_thresholds(tuned_thresholds(self, self.predictor(model), dev))

    def calibrate(self, model: nn.Module, documents: Sequence[Document]) -> None:
        """Fit what makes probabilities of margins, and thresholds, on documents that were set apart."""
        self.calibration = self._calibrated
        moving = [self.names[i] for i in self.learning] if self.recipe.calibration.thresholds else []
        self.calibration = calibration.calibrate(self.predictor(model), documents, moving)

    def uncertainty(self, model: nn.Module) -> OfWords:
        """As `Recognizer.uncertainties`, of the recipe's types."""
        return self.predictor(model).uncertainties

    def predictor(self, model: nn.Module, options: RecognizerOptions | None = None) -> Recognizer:
        """The model as it answers, for the recipe's types or for any others that have a description."""
        assert isinstance(model, BiEncoder)
        options = options or RecognizerOptions()
        types = self.recipe.types if options.types is None else described(options.types, self.recipe.types)
        if not types:
            raise InputError("types", "no types to look for", "name some, or leave them out for the recipe's")
        names = [t.name for t in types]
        new = new_types(self.recipe, names)
        if means := [name for name, threshold in new.items() if threshold == "mean"]:
            log.warning("not learned, so held against the mean threshold of the others: %s", ", ".join(means))
        known = {name: index for index, name in enumerate(self.names)}
        ids = torch.tensor([known.get(name, -1) for name in names], device=model.log_scale.device)
        with torch.inference_mode():
            vectors = model.eval().encode_types(self.inputs(model, types), ids)
        decoding = self.recipe.decoding
        found = Recognizer(self, model, names, vectors, decoding, new_types=new, calibration=self.calibration)
        if self.calibration is not None:
            found = found.with_thresholds(self.calibration.thresholds)
        return found.adjusted(options)

    def about(self) -> Sequence[str]:
        """By what the thresholds of types were moved."""
        moved = {} if self.calibration is None else self.calibration.thresholds
        if not moved:
            return []
        rows = [f"| {name} | {shift:+.2f} |" for name, shift in moved.items()]
        told = "Moved towards where the F1 of each type was highest on training documents set apart:"
        return ["", "## Thresholds", "", told, "", "| type | shift |", "| --- | ---: |", *rows]

    def save(self, model: nn.Module, folder: Path) -> None:
        """The calibration of scores, too."""
        super().save(model, folder)
        calibration.save(self.calibration, folder)

    def load(self, folder: Path) -> nn.Module:
        """The model that `save` wrote; its calibration becomes this task's."""
        model = super().load(folder)
        self.calibration = calibration.load(folder)
        return model

    def new_types(self, options: RecognizerOptions) -> Mapping[str, Threshold]:
        """Types among the options that the model never learned, each with how its threshold is had."""
        return new_types(self.recipe, [t.name for t in options.types or ()])

    def inspect(self, model: nn.Module, dev: Iterable[Document]) -> Mapping[str, pa.Table]:
        """`candidates` near their thresholds, and a sample of `similarities` (papers/000, figure 2)."""
        assert isinstance(model, BiEncoder)
        return span_tables(self, self.predictor(model), dev, self.recipe.seed)

    def inputs(self, model: BiEncoder, types: Sequence[TypeSettings]) -> TypeInputs | None:
        """The texts of types on the model's device; None for atomic types."""
        if self.recipe.model.type_encoding == "atomic":
            return None
        encoder = model.type_encoder or model.text_encoder
        made = type_inputs(types, self.recipe.model.type_encoding, self.tokenizer, encoder.max_length)
        device = model.log_scale.device
        return TypeInputs(*(t.to(device) for t in made if t is not None))

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

    @property
    def learning(self) -> range:
        """The numbers of the types that learn."""
        return range(len(self.names))

    def _types_of_step(self, progress: Progress) -> Tensor:
        """Those of the types that learn in a step: all, or `types_per_step` by chance, the same for every
        worker."""
        types, wanted = np.array(self.learning), self.recipe.model.types_per_step
        if wanted is None or wanted >= len(types):
            return torch.from_numpy(types)
        rng = np.random.default_rng([self.recipe.seed, progress.step])
        return torch.from_numpy(np.sort(rng.choice(types, wanted, replace=False)))

    def _absent_of_step(self, progress: Progress) -> Tensor:
        """The numbers of the absent types that a step draws, the same for every worker."""
        count = min(self.recipe.model.absent_per_step, len(self.recipe.absent))
        rng = np.random.default_rng([self.recipe.seed, progress.step, 1])
        return torch.from_numpy(np.sort(rng.permutation(len(self.recipe.absent))[:count]))

    def _targets_of(self, batch: SpanBatch, progress: Progress) -> SpanTargets:
        targets = of_types(batch.targets, self._types_of_step(progress))
        return with_absent(targets, len(self._absent_of_step(progress)))

    def _inputs_of(
        self, model: BiEncoder, types: Tensor, absent: Tensor, progress: Progress
    ) -> TypeInputs | None:
        """The texts of a step's types, those of absent ones last."""
        if self._inputs is None:
            self._inputs = self.inputs(model, (*self.recipe.types, *self.recipe.absent))
            if self._inputs is not None and model.types_are_fixed:
                with torch.no_grad():
                    self._inputs = self._inputs._replace(states=model.type_states(self._inputs))
        found = self._inputs
        if found is not None and len(types) + len(absent) < len(self.names) + len(self.recipe.absent):
            found = rows_of(found, torch.cat([types, absent + len(self.names)]))
        if found is not None and self.recipe.model.descriptions == "drawn":
            found = one_text_each(found, np.random.default_rng([self.recipe.seed, progress.step, 2]))
        return found


def _flat(rows: Iterable[Sequence[int]]) -> np.ndarray:
    return np.array([value for row in rows for value in row], dtype=np.int32)


def _stack(flat: Sequence[Any], columns: int, *, typed: bool = True) -> Tensor:
    """Flat rows of each window as [N, 1 + columns] with the window first; positions, which are all columns
    but that of the type, move by one for [CLS]."""
    parts = [np.asarray(values, dtype=np.int64).reshape(-1, columns) for values in flat]
    rows = np.concatenate(parts)
    rows[:, int(typed) :] += 1
    windows = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return torch.from_numpy(np.concatenate([windows[:, None], rows], axis=1))
