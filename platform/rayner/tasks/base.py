"""The two interfaces through which the runtime knows a system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
from torch import Tensor, nn

from rayner.config import TypeSettings

Item = TypeVar("Item")
Given = TypeVar("Given", contravariant=True)
Example = TypeVar("Example")
Batch = TypeVar("Batch")
Prepared = TypeVar("Prepared")
Scores = TypeVar("Scores")
Out = TypeVar("Out")

Sums = Mapping[str, Tensor]
Counts = Mapping[str, float]


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


DEFAULTS = Options()


class TrainTask(Protocol[Item, Example, Batch]):
    """How a system learns. Examples are plain rows (numbers, strings, lists) that Parquet can hold."""

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each part of the loss."""
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

    def collate(self, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Examples as tensors; `rng` is of (seed, epoch, first example), for augmentation and masking."""
        ...

    def counts(self, batch: Batch, progress: Progress) -> Counts:
        """What the sum of each part of the loss is divided by, after adding it up over the whole step."""
        ...

    def words_in(self, batch: Batch) -> int:
        """The words that a batch covers, for the log."""
        ...

    def build(self) -> nn.Module:
        """The model, from the recipe or from the checkpoint that the recipe names as its encoder."""
        ...

    def head_parameters(self, model: nn.Module) -> Iterable[nn.Parameter]:
        """The parameters that learn at `head_learning_rate`."""
        ...

    def loss(self, model: nn.Module, batch: Batch, progress: Progress) -> Sums:
        """The sum of each part of the loss over the batch."""
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


class Predictor(Protocol[Given, Prepared, Scores, Out]):
    """How a system answers. Evaluation, annotation and serving all go through `predict.predict`."""

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


@runtime_checkable
class Completing(Protocol):
    """A predictor with a last stage that is cheaper for the answers to many items at once."""

    def complete(self, answers: Sequence[Any]) -> list[Any]:
        """The answers of `finish`, completed, in order."""
        ...
