"""The two interfaces through which the runtime knows a system."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
from torch import Tensor, nn

from rayner.config import TypeSettings
from rayner.errors import InputError

Item = TypeVar("Item")
Given = TypeVar("Given", contravariant=True)
Example = TypeVar("Example")
Batch = TypeVar("Batch")
Prepared = TypeVar("Prepared")
Scores = TypeVar("Scores")
Out = TypeVar("Out")

Sums = Mapping[str, Tensor]
Counts = Mapping[str, float]
Contrasts = Mapping[str, tuple[Tensor, Tensor]]
"""The sum of each part, and its count."""
Seed = tuple[int, ...]
"""(seed, epoch, number of the example): the same on whatever worker and in whatever batch it is."""


class Embedded(NamedTuple):
    """Vectors [B, D] in float32 at least, int64 labels [B] that are equal for what belongs together, and the
    sums of those parts of the loss that need no other batch."""

    vectors: Tensor
    labels: Tensor
    sums: Sums


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training stands: `step` of `steps`, within `epoch` of `epochs`."""

    step: int
    steps: int
    epoch: int
    epochs: int


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may ask of a predictor; None means what the recipe says.

    `types`: those to look for, by description, also ones that were not learned. `shift` is added to every
    threshold: a negative one finds more, a positive one is surer. `overlap`: whether mentions may be nested.
    """

    types: tuple[TypeSettings, ...] | None = None
    shift: float = 0.0
    overlap: Literal["flat", "nested"] | None = None

    def __post_init__(self) -> None:
        shift: Any = self.shift
        if not isinstance(shift, (int, float)) or not math.isfinite(shift):
            raise InputError("shift", f"{shift!r} cannot be added to a threshold", "give a finite number")
        if self.overlap not in (None, "flat", "nested"):
            raise InputError("overlap", f"{self.overlap!r} is unknown", "write flat or nested")


DEFAULTS = Options()


class Size(NamedTuple):
    """The words that a batch covers, its tokens, and its places: tokens and padding."""

    words: int
    tokens: int
    places: int


class TrainTask(Protocol[Item, Example, Batch]):
    """How a system learns. Examples are plain rows (numbers, strings, lists) that Parquet can hold."""

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each part of the loss."""
        ...

    @property
    def metric(self) -> str:
        """Which metric chooses the best checkpoint; more is better."""
        ...

    def items(self, split: Literal["train", "dev"]) -> Iterable[Item]:
        """The items of a split, from the corpus that the recipe names."""
        ...

    def settings_of_examples(self) -> Mapping[str, Any]:
        """Those settings that `examples` reads: with the items, they are the key of a stored example set."""
        ...

    def examples(self, items: Iterable[Item]) -> Iterator[Example]:
        """Cut and tokenize items. Done once, on CPUs, in parallel over items."""
        ...

    def length_of(self, example: Example) -> int:
        """The tokens that the example takes up in a batch."""
        ...

    def group_of(self, example: Example) -> str | None:
        """What must share a batch with it: an entity, a story; None for nothing."""
        ...

    def plan(self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int) -> Sequence[np.ndarray]:
        """The steps of an epoch, the same on every worker: each the indices of all workers' examples.

        All epochs have equally many steps: the schedule of learning rates is laid out by those of the first.

        Args:
            lengths: [N] tokens of each example.
            groups: [N] what `group_of` said; None where it said None of all.
        """
        ...

    def collate(self, examples: Sequence[Example], seeds: Sequence[Seed]) -> Batch:
        """Examples as tensors; whatever is drawn for one (augmentation, masking) is drawn from its seed."""
        ...

    def counts(self, batch: Batch, progress: Progress) -> Counts:
        """What the sum of each part of the loss is divided by, after adding it up over the whole step.

        Parts whose count is known only after the forward pass are not among them.
        """
        ...

    def size_of(self, batch: Batch) -> Size:
        """How large a batch is, for the log."""
        ...

    def build(self) -> nn.Module:
        """The model, from the recipe or from the checkpoint that the recipe names as its encoder."""
        ...

    def head_parameters(self, model: nn.Module) -> Iterable[nn.Parameter]:
        """The parameters that learn at `head_learning_rate`."""
        ...

    def fit(self, model: nn.Module, dev: Sequence[Item]) -> None:
        """Fit on dev what is not learned by gradients (thresholds), before each evaluation."""
        ...

    def predictor(self, model: nn.Module, options: Options = DEFAULTS) -> Predictor[Item, Any, Any, Any]:
        """The model, as it answers.

        Raises:
            InputError: an option that the task does not have.
        """
        ...

    def save(self, model: nn.Module, folder: Path) -> None:
        """Write the model into a checkpoint folder: weights, encoder configuration, tokenizer."""
        ...

    def load(self, folder: Path) -> nn.Module:
        """The model of a checkpoint folder that `save` wrote; needs no network."""
        ...

    def inspect(self, model: nn.Module, dev: Sequence[Item]) -> Mapping[str, pa.Table]:
        """Tables about a trained model for the report, by file name; may be empty."""
        ...


@runtime_checkable
class SummedTask(TrainTask[Item, Example, Batch], Protocol[Item, Example, Batch]):
    """A task whose loss adds up over batches."""

    def loss(self, model: nn.Module, batch: Batch, progress: Progress) -> Sums:
        """The sum of each part of the loss over the batch."""
        ...


@runtime_checkable
class ContrastiveTask(TrainTask[Item, Example, Batch], Protocol[Item, Example, Batch]):
    """A task whose loss holds every example of a step against all others."""

    def embed(self, model: nn.Module, batch: Batch, progress: Progress) -> Embedded:
        """The vectors of a batch."""
        ...

    def contrast(
        self, anchors: Tensor, candidates: Tensor, labels: Tensor, own: Tensor, progress: Progress
    ) -> Contrasts:
        """The parts of the loss over some anchors.

        Args:
            anchors: [A, D] this worker's vectors.
            candidates: [C, D] those of all workers.
            labels: [C] of the candidates.
            own: [A] the places of the anchors among the candidates.
        """
        ...


class Predictor(Protocol[Given, Prepared, Scores, Out]):
    """How a system answers. Evaluation, annotation and serving all go through `predict.predict`.

    `forward_cost` is what a batch costs beside its windows, in tokens: the more, the fewer batches.
    """

    forward_cost: int

    def prepare(self, item: Given) -> list[Prepared]:
        """The windows of an item, in order. CPU work."""
        ...

    def length_of(self, window: Prepared) -> int:
        """The tokens that the window takes up in a batch."""
        ...

    def forward(self, windows: Sequence[Prepared]) -> list[Scores]:
        """What the model says of each window; the windows may belong to any items."""
        ...

    def finish(self, item: Given, windows: Sequence[Prepared], scores: Sequence[Scores]) -> Out:
        """Merge the windows of an item and decode."""
        ...

    def evaluate(self, predicted: Sequence[Out], gold: Sequence[Given]) -> dict[str, Any]:
        """The metrics of the task."""
        ...


@runtime_checkable
class Adjustable(Protocol):
    """A predictor whose types cost something to prepare, so that serving keeps them over requests."""

    def adjusted(self, options: Options) -> Any:
        """A predictor of the same types, with the options' shift and overlap."""
        ...
