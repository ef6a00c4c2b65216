"""The interfaces through which the runtime knows a system: how it learns, and how it answers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from torch import Tensor, nn

from rayner.data.plans import Plan

Given = TypeVar("Given", contravariant=True)
Example = TypeVar("Example")
Batch = TypeVar("Batch")
Prepared = TypeVar("Prepared")
Scores = TypeVar("Scores")
Out = TypeVar("Out")

Sums = Mapping[str, Tensor]
Counts = Mapping[str, float]
Parts = Mapping[str, tuple[Tensor, Tensor]]
"""The sum of each part of a contrast, and its count."""
Seed = tuple[int, ...]
"""(seed, epoch, number of the example): the same on whatever worker and in whatever batch it is."""
State = Mapping[str, Tensor]
"""What an epoch needs beside the parameters, by name: stored in `last/state`, and read back exactly."""
Mode = Literal["max", "min"]


class ParallelMap(Protocol):
    """How the same work is done over many parts: here, one after another (`map`), or by many processes."""

    def __call__(self, work: Callable[[Any], Any], parts: Sequence[Any], /) -> Iterator[Any]:
        """The result of every part, in any order. Work, parts and results must pickle."""
        ...


@dataclass(frozen=True, slots=True)
class Unit:
    """Items that one worker reads, not the items themselves.

    Attributes:
        source: what `read` finds them by; it pickles, and is small.
        digest: a hash of their content.
        sizes: int32 [N] characters of each, by which their shards are cut.
    """

    source: Any
    digest: str
    sizes: np.ndarray


class Metric(NamedTuple):
    """The metric that chooses the best checkpoint, and whether more or less of it is better."""

    name: str
    mode: Mode = "max"

    def is_better(self, value: float, best: float | None) -> bool:
        """Whether a value beats the best so far: any does where there is none, any number where it is NaN."""
        sign = 1 if self.mode == "max" else -1
        return best is None or sign * value > sign * best or (math.isnan(best) and not math.isnan(value))


class Output(NamedTuple):
    """What the model makes of a batch.

    Attributes:
        sums: of those parts of the loss that add up over batches, a scalar each.
        vectors: [B, D] in float32 at least, what a contrast holds against each other; None without one.
        keys: int64 [B, k] of the vectors, by which the contrast knows what belongs together.
    """

    sums: Sums
    vectors: Tensor | None = None
    keys: Tensor | None = None


class Examples(Protocol):
    """What a training needs of an example set."""

    lengths: np.ndarray
    groups: np.ndarray | None

    def fetch(self, indices: np.ndarray) -> Sequence[Any]:
        """The examples with these numbers."""
        ...

    def column(self, name: str, indices: np.ndarray) -> Sequence[Any]:
        """The values of a column in the examples with these numbers."""
        ...


class Size(NamedTuple):
    """The words that a batch covers, its tokens, and its places: tokens and padding."""

    words: int
    tokens: int
    places: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training is: `step` of `steps`, within `epoch` of `epochs`; `state` is that of the epoch, and
    `average` the averaged weights by name, with `training.average`."""

    step: int
    steps: int
    epoch: int
    epochs: int
    state: State | None = None
    average: Mapping[str, Tensor] | None = None


class TrainTask(Protocol[Given, Example, Batch]):
    """How a system learns: what is its own. `encoder_task.EncoderTask` gives defaults for all but four of
    these and for all but `items` of what else the runtime asks of a task.

    Examples are plain rows (numbers, strings, lists) that Parquet can hold, with the columns `length` (the
    tokens that the example takes up in a batch), and, where there are any, `group` (what must share a batch
    with it: an entity, a story) and `rejects` (lines on what was left out or changed). A row that has
    `rejects` alone is no example.
    """

    @abstractmethod
    def examples(self, items: Iterable[Given]) -> Iterator[Example]:
        """Cut and tokenize items. Done once, on CPUs, in parallel over items."""
        ...

    def plan(
        self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int, state: State | None = None
    ) -> Plan:
        """The steps of an epoch, the same on every worker: each the indices of all workers' examples.

        A pure function of its arguments and the recipe. All epochs have equally many steps, whatever their
        state: the schedule of learning rates is laid out by those of the first.

        Args:
            lengths: [N] tokens of each example.
            groups: [N] the group of each; None where no example has one.
            state: what `prepare_epoch` made for this epoch.
        """
        ...

    @abstractmethod
    def collate(self, examples: Sequence[Example], seeds: Sequence[Seed]) -> Batch:
        """Examples as tensors; whatever is drawn for one (augmentation, masking) is drawn from its seed."""
        ...

    @abstractmethod
    def build(self) -> nn.Module:
        """The model, from the recipe or from the checkpoint that the recipe names as its encoder."""
        ...

    @abstractmethod
    def forward(self, model: nn.Module, batch: Batch, progress: Progress) -> Output:
        """The parts of the loss that add up over batches, and the vectors of those that contrast them."""
        ...

    def contrast(
        self, anchors: Tensor, candidates: Tensor, keys: Tensor, own: Tensor, progress: Progress
    ) -> Parts:
        """The parts of the loss that hold every vector of a step against all others.

        Args:
            anchors: [A, D] this worker's vectors.
            candidates: [C, D] those of all workers.
            keys: [C, k] of the candidates.
            own: [A] the places of the anchors among the candidates.
        """
        ...

    def prepare_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> State | None:
        """What the epoch needs beside the parameters: a teacher, a table of hard neighbours.

        Called on every worker at the start of an epoch, and not again when the run is resumed within it: the
        state is stored in `last/state`. What it makes must be the same on every worker.
        """
        ...

    def predictor(self, model: nn.Module, options: Any = None) -> Predictor[Any, Any, Any, Any] | None:
        """The model as it answers; None where there is nothing to answer, as after a pre-training.

        Args:
            options: those of the task's record in the registry; None for its defaults.

        Raises:
            InputError: an option that cannot be had.
        """
        ...


class Predictor(Protocol[Given, Prepared, Scores, Out]):
    """How a system answers. Evaluation, annotation and serving all go through `predict.predict`.

    `forward_cost` is what a batch costs beside its windows, in tokens: the more, the fewer batches.
    `tokens_per_batch` is how many padded tokens a batch has unless the caller says. `whole`: it is given
    whole documents, never sections of long ones. What says which types it looks for has `names` too, as
    `type_names` reads them, and what gives fine types has `fine_types`.
    """

    forward_cost: int
    tokens_per_batch: int
    whole: bool

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
        """Merge the windows of an item and decode. No model is needed for it."""
        ...

    def evaluate(self, predicted: Sequence[Out], gold: Sequence[Given]) -> dict[str, Any]:
        """The metrics of the task. Both may be what `Kind.scored` leaves of them: documents without texts."""
        ...


def type_names(stage: object) -> Sequence[str]:
    """The types of mentions that a stage looks for; empty where it does not say."""
    return getattr(stage, "names", ())


def fine_type_names(stage: object) -> Sequence[str]:
    """The fine types that a stage gives; empty where it gives none."""
    return getattr(stage, "fine_types", ())
