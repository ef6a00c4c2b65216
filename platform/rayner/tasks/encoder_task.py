"""What tasks share whose model has an encoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rayner.config import BaseRecipe
from rayner.config.base import Precision
from rayner.counted import counted
from rayner.data import batches
from rayner.data.corpus_check import Finding
from rayner.data.example_shards import fingerprint
from rayner.data.plans import Plan
from rayner.errors import CheckpointError, InputError, RecipeError, storage_error
from rayner.models.encoder import Encoder, Tokenizer, encoder_to_fill, load_encoder, load_tokenizer
from rayner.models.sources import ENCODER
from rayner.models.threads import heed_quota
from rayner.models.tokenizer import tokenizer_from
from rayner.tasks.base import (
    Counts,
    Examples,
    Metric,
    ParallelMap,
    Parts,
    Predictor,
    Progress,
    Size,
    State,
    TrainTask,
    Unit,
)
from rayner.tasks.checkpoint_files import HINT, Place, check_files, load_weights, save_weights
from rayner.tasks.document_windows import SPECIAL_TOKENS, with_special_tokens

R = TypeVar("R", bound=BaseRecipe)

_NOT_READ = {"seed", "training", "scaling", "tracking", "loss"}


class EncoderTask(TrainTask[Any, Any, Any], ABC, Generic[R]):
    """A task whose model has an encoder; `items`, `examples`, `collate`, `build` and `forward` are left open.

    The runtime knows every task as one of these: a model without an encoder leaves what is about it unused.
    `build` makes the encoders by `self.encoder()`.

    Args:
        recipe: the run.
        tokenizer: that of a checkpoint; by default the encoder's.
    """

    metric = Metric("f1")
    """Which metric chooses the best checkpoint, where there is a development set."""
    weights: Mapping[str, float] = {}
    """The parts of the loss, and the weight of each."""
    examples_version = 1
    """To be raised with every change of the code by which `examples` or items come out differently: what an
    earlier version made is not taken up again."""
    patience_epoch = 1
    """The first epoch, from 1, whose evaluations count against `training.patience`."""
    max_width: int | None = None
    """Sub-words of the longest mention that the model can represent; None for any."""
    contexts: Any = None
    """What chooses contexts for the sentences that are read; None for a task that reads none."""
    builds_from_items = False
    """Whether `build` asks what train holds: `units` is called before, in parallel and with a cache, as
    `build` cannot."""

    def __init__(self, recipe: R, tokenizer: Tokenizer | None = None) -> None:
        self.recipe = recipe
        self.checkpoint: Path | None = None
        """The folder that the model was loaded from."""
        self.precision: Precision = "float32"
        """What the model computes in where it answers, and a ranker that it asks: both are loaded for it."""
        self.device: str | torch.device | None = None
        """Where the model was loaded to, and where what it asks is loaded to; None: a GPU if there is one."""
        self._tokenizer = tokenizer
        self._loading: Path | None = None

    @property
    def examples_ask_model(self) -> bool:
        """Whether making examples asks a model that is put on a GPU if there is one."""
        return False

    @abstractmethod
    def items(self, split: Literal["train", "dev"]) -> Iterable[Any]:
        """The items of a split, from the corpus that the recipe names; none of dev where it names none."""

    def units(
        self, split: Literal["train", "dev"], mapper: ParallelMap = map, cache: Path | None = None
    ) -> Sequence[Unit]:
        """The items of a split as what each worker reads of them; by default one unit, of all items.

        Args:
            mapper: how files are read that have to be looked at first.
            cache: a folder that keeps what was seen of files, for as long as they do not change.
        """
        found = fingerprint(self.items(split))
        return [Unit(split, found.digest, found.sizes)]

    def calibration_units(self, mapper: ParallelMap = map, cache: Path | None = None) -> Sequence[Unit]:
        """The items that were set apart from training for `calibrate`; by default none."""
        return []

    def read(self, unit: Unit) -> Iterable[Any]:
        """The items of a unit, in order: as many as it has sizes."""
        return self.items(unit.source)

    def for_workers(self, dev: Sequence[Unit]) -> Self:
        """The task as it is sent to the workers of a training that is scored on these units.

        What all of them would make alike it has already, in arrays and Arrow tables, held once on each node.
        """
        return self

    def findings(self, mapper: ParallelMap = map) -> Iterable[Finding]:
        """What is wrong with the recipe's corpus for this task alone, beside what is for every task."""
        return ()

    def split_findings(self, counts: Mapping[str, Any], mapper: ParallelMap = map) -> Iterable[Finding]:
        """What training would refuse or warn of in splits of documents that hold so much, by their names."""
        return ()

    def contrast(
        self, anchors: Tensor, candidates: Tensor, keys: Tensor, own: Tensor, progress: Progress
    ) -> Parts:
        """Nothing: the loss adds up over batches."""
        return {}

    @property
    def contrasts(self) -> bool:
        """Whether there are parts of the loss over all vectors of a step."""
        return type(self).contrast is not EncoderTask.contrast

    def plan(
        self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int, state: State | None = None
    ) -> Plan:
        """Examples of about equal length share a step, those of a group one step."""
        training: Any = self.recipe.training
        return batches.plan(lengths, groups, self.recipe.seed, epoch, training.tokens_per_step)

    def prepare_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> State | None:
        """Nothing beside the parameters."""
        return None

    def predictor(self, model: nn.Module, options: Any = None) -> Predictor[Any, Any, Any, Any] | None:
        """None: a pre-training has nothing to answer."""
        return None

    def scorer(self, model: nn.Module) -> Predictor[Any, Any, Any, Any] | None:
        """What is scored on dev while it learns: its predictor, if it has one. A pre-training may be scored
        though it answers nobody."""
        return self.predictor(model)

    def example_settings(self) -> Mapping[str, Any]:
        """Those settings that `examples` reads: with the items, they are the key of a stored example set."""
        return {**self.recipe.model_dump(mode="json", exclude=_NOT_READ), **self.encoder_settings}

    @property
    def encoder_settings(self) -> Mapping[str, Any]:
        """Of `example_settings`, what tells the encoder's sub-words from any other's: the folder that a
        recipe names may have another tokenizer by now."""
        return {"encoder": self.recipe.encoder, "tokenizer": self.tokenizer.digest}

    def counts(self, batch: Any, progress: Progress) -> Counts:
        """What the sum of each part of the loss is divided by, after adding it up over the whole step.

        It is asked before the first forward pass. The parts of a contrast are not among them: their counts
        are known after the forward passes.
        """
        return {}

    def size_of(self, batch: Any) -> Size:
        """How large a batch is, for the log: that of its `mask`, each token counted as a word."""
        tokens = int(batch.mask.sum())
        return Size(tokens, tokens, batch.mask.numel())

    def fit(self, model: nn.Module, dev: Sequence[Any]) -> None:
        """Fit on dev what is not learned by gradients (thresholds), before each evaluation.

        Called on every worker; what it fits must be the same on all.
        """

    def calibrate(self, model: nn.Module, items: Sequence[Any]) -> None:
        """Fit on items that were set apart for it what makes scores probabilities, after each `fit`.

        Called on every worker, and not at all without items; what it fits must be the same on all.
        """

    def new_types(self, options: Any) -> Mapping[str, Any]:
        """Types among the options that the model never learned, each with how its threshold is had."""
        return {}

    def about(self) -> Sequence[str]:
        """Lines of Markdown that a checkpoint's README has beside those of its kind; may be empty."""
        return []

    @property
    def examines(self) -> bool:
        """Whether `inspect` or `measure` says anything: only then is dev read again after a training."""
        own = type(self)
        return own.inspect is not EncoderTask.inspect or own.measure is not EncoderTask.measure

    def inspect(self, model: nn.Module, dev: Iterable[Any]) -> Mapping[str, pa.Table]:
        """Tables about a trained model for the report, by file name; may be empty."""
        return {}

    def measure(self, model: nn.Module, dev: Iterable[Any]) -> Mapping[str, Any]:
        """What a trained model's metrics have beside those of the evaluation; may be empty."""
        return {}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The encoder's tokenizer."""
        return self._tokenizer or load_tokenizer(self.recipe.encoder)

    def encoder(self) -> Encoder:
        """A new encoder: the recipe's with its weights or, while a checkpoint is loaded, one of its shape."""
        if self._loading is None:
            return load_encoder(self.recipe.encoder)
        return encoder_to_fill(self._loading / ENCODER)

    def check_length(self, encoder: Encoder, length: int, key: str = "windows.length") -> None:
        """Raise RecipeError, which names the key, if that many sub-words are more than the encoder takes."""
        if length > encoder.max_length:
            what, hint = f"{length} sub-words do not fit the encoder", f"it takes {encoder.max_length}"
            raise RecipeError(key, what, hint)

    def padded(self, rows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Sub-words with special tokens, padded: ids and mask, [B, longest + 2]."""
        tokenizer = self.tokenizer
        ids = with_special_tokens(rows, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
        lengths = np.array([len(row) + SPECIAL_TOKENS for row in rows])
        return torch.from_numpy(ids), torch.from_numpy(np.arange(ids.shape[1])[None, :] < lengths[:, None])

    def places(self, model: nn.Module) -> Mapping[str, Place]:
        """Which weights a checkpoint keeps apart, by what precedes their names: those of each encoder."""
        names = {id(module): name for name, module in model.named_modules()}
        return {f"{names[id(encoder)]}.model.": Place(place) for place, encoder in encoders(model).items()}

    def save(self, model: nn.Module, folder: Path) -> None:
        """Write the model into a checkpoint folder: its encoders as transformers reads them, and the rest.

        `AutoModel.from_pretrained(BEST/encoder)` loads the encoder, AutoTokenizer its tokenizer; a second
        encoder lies in the folder of its name in the model (`type_encoder`).
        """
        save_weights(model, folder, self.places(model))
        for place, encoder in encoders(model).items():
            encoder.save(folder / place)
            if place == ENCODER:
                self.tokenizer.save(folder / place)

    def load(self, folder: Path) -> nn.Module:
        """The model of a checkpoint folder that `save` wrote; needs no network."""
        self._loading = folder
        try:
            model = self.build()
        finally:
            self._loading = None
        load_weights(model, folder, self.places(model))
        self.checkpoint = folder
        return model


def encoders(model: nn.Module) -> dict[str, Encoder]:
    """The encoders of a model, by the folder of a checkpoint that holds each: `encoder` has the first."""
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, Encoder)]
    return {name if number else ENCODER: encoder for number, (name, encoder) in enumerate(found)}


def load_trained(
    folder: Path,
    recipe: Any,
    learn: Callable[[Any, Tokenizer | None], EncoderTask[Any]],
    device: str | torch.device | None = None,
) -> tuple[EncoderTask[Any], nn.Module]:
    """The task of a checkpoint folder, and its model in evaluation mode.

    Args:
        recipe: that of the checkpoint.
        learn: the recipe and a tokenizer -> the task.
        device: by default a GPU where there is one.

    Raises:
        CheckpointError: a file that is missing, cut short or changed.
        InputError: no such device.
    """
    if device is not None:
        check_device(device)
    heed_quota()
    check_files(folder)
    tokenizer = folder / ENCODER
    task = learn(recipe, tokenizer_from(tokenizer) if tokenizer.is_dir() else None)
    task.device = device
    model = load_model(folder, task).eval()
    return task, model.to(default_device() if device is None else device)


def default_device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(device: str | torch.device) -> None:
    """Refuse what is no device, or one that is not here.

    Raises:
        InputError: the device.
    """
    hint = "cpu, cuda, or cuda:1 for the second GPU"
    if not isinstance(device, str | torch.device):
        raise InputError("device", f"{device!r} is no name of one", "write cpu, or cuda:0 for the first GPU")
    try:
        named = torch.device(device)
    except RuntimeError:
        raise InputError("device", f"{device!r} is none", hint) from None
    if named.type == "cuda" and (named.index or 0) >= (count := torch.cuda.device_count()):
        raise InputError("device", f"{str(device)!r} is not here: torch sees {counted(count, 'GPU')}", hint)
    try:
        # Of the device `meta`, tensors have no values.
        torch.zeros(1, device=named).item()
    except (RuntimeError, AssertionError):
        raise InputError("device", f"torch here cannot compute on {str(device)!r}", hint) from None


def load_model(folder: Path, task: EncoderTask[Any]) -> nn.Module:
    """The model in the folder.

    Raises:
        CheckpointError: it does not fit the recipe beside it.
    """
    try:
        return task.load(folder)
    except InputError:
        raise
    except Exception as error:
        if failure := storage_error(str(folder), "cannot be read", error):
            raise failure from error
        what = f"does not load ({type(error).__name__}: {error})"
        raise CheckpointError(str(folder), what, HINT) from error
