"""A recognizer to which types are added: their vectors and thresholds learn, and all else stays as it is."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config import RecognizerRecipe, TypeSettings
from rayner.data.plans import Plan
from rayner.data.schema import UNKNOWN, Document
from rayner.metrics.score_calibration import UNCALIBRATED
from rayner.models.bi_encoder import BiEncoder
from rayner.models.encoder import Tokenizer
from rayner.models.own_vectors import OwnVectors
from rayner.models.sources import ENCODER
from rayner.models.tokenizer import tokenizer_from
from rayner.models.type_inputs import TypeInputs
from rayner.tasks.base import Progress, State
from rayner.tasks.encoder_task import load_trained
from rayner.tasks.predict import predict
from rayner.tasks.recognizer import calibration
from rayner.tasks.recognizer.added_types import base_of, effects_of_flat_decoding, read_base, require_added
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.recognizer.task import RecognizerOptions, RecognizerTask
from rayner.tasks.splits import FoundDocuments

STEPS_OF_AN_EPOCH = 20
"""At least so many: few examples are gone through several times."""

log = logging.getLogger(__name__)


def recognizer_task(recipe: RecognizerRecipe, tokenizer: Tokenizer | None = None) -> RecognizerTask:
    """How a recipe's recognizer learns and answers: as a whole, or its added types alone."""
    return (RecognizerTask if recipe.added is None else AddingTask)(recipe, tokenizer)


class AddingTask(RecognizerTask):
    """Learns the vectors and threshold offsets of added types (papers/000, equation 10, of these types)."""

    def __init__(self, recipe: RecognizerRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        assert recipe.added is not None
        self.added = recipe.added
        self._own = frozenset((*self.added.earlier, *self.added.types))

    @property
    def origin(self) -> Path | None:
        """The checkpoint that types are added to.

        Raises:
            CheckpointError: it is another one by now, or none.
        """
        return base_of(self.added)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """That of the checkpoint."""
        return self._tokenizer or tokenizer_from(base_of(self.added) / ENCODER)

    def example_settings(self) -> Mapping[str, Any]:
        """The checkpoint, too, whose tokenizer it is."""
        return {**super().example_settings(), "checkpoint": self.added.version}

    def require(self, found: FoundDocuments) -> None:
        """Refuse documents that have too few mentions of an added type."""
        require_added(found.mentions, self.added)

    def plan(
        self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int, state: State | None = None
    ) -> Plan:
        """As of every recognizer, but few examples are gone through several times."""
        once = super().plan
        first = once(lengths, groups, epoch)
        if not len(first) or len(first) >= STEPS_OF_AN_EPOCH:
            return first
        rounds = math.ceil(STEPS_OF_AN_EPOCH / len(first))
        steps = [step for r in range(rounds) for step in once(lengths, groups, epoch * rounds + r)]
        return Plan(np.concatenate(steps), np.cumsum([0, *map(len, steps)]))

    @property
    def learning(self) -> range:
        """The numbers of the added types, which come last."""
        return range(len(self.names) - len(self.added.types), len(self.names))

    def build(self) -> BiEncoder:
        """The checkpoint's model, with vectors of the added types that start from their descriptions.

        Scores are calibrated as the checkpoint's are; those of added types by its map of all types.
        """
        if self._loading is not None:
            return super().build()
        folder = base_of(self.added)
        task, base = load_trained(folder, read_base(folder), recognizer_task, "cpu")
        assert isinstance(base, BiEncoder)
        self.calibration = self._calibrated = cast(RecognizerTask, task).calibration
        settings, own = self.recipe.model, self.own_vectors()
        model = BiEncoder(settings, base.text_encoder, base.type_encoder, len(self.names), own)
        weights = {k: v for k, v in base.state_dict().items() if not k.startswith(("own.", "thresholds"))}
        model.load_state_dict(weights, strict=False)
        types = [self.recipe.types[number] for number in self.learning]
        own.start_from(base.own, base.described(cast(RecognizerTask, task).inputs(base, types), len(types)))
        if settings.threshold != "dynamic":
            mean = base.thresholds[: base.encoded_types].mean(0).expand(len(types), 3)
            with torch.no_grad():
                model.thresholds.copy_(torch.cat([base.thresholds, mean]))
        return model

    def own_vectors(self) -> OwnVectors:
        """Those of all added types, now and earlier."""
        settings = self.recipe.model
        size = settings.projection_size * (1 if settings.shared_linear else 3)
        return OwnVectors(len(self.added.earlier), len(self.added.types), size)

    def predictor(self, model: nn.Module, options: RecognizerOptions | None = None) -> Recognizer:
        """As of every recognizer; an added type has its learned vector, however it is described."""
        ours = {t.name: t for t in self.recipe.types if t.name in self._own}
        asked = [t for t in (options and options.types) or () if t.name in ours]
        if others := [t.name for t in asked if t not in (ours[t.name], TypeSettings(name=t.name))]:
            what = "have learned vectors, so the description that was given is not read: %s"
            log.warning(what, ", ".join(others))
        return super().predictor(model, options)

    def calibrate(self, model: nn.Module, documents: Sequence[Document]) -> None:
        """Fit the added types' maps; the scores of the others stay as they are in the checkpoint."""
        # Not from `build` alone, which a run that is resumed does not call.
        before = self._calibrated = calibration.load(base_of(self.added))
        super().calibrate(model, documents)
        if (fitted := self.calibration) is not None:
            self.calibration = (before or UNCALIBRATED).with_types(fitted, self.added.types)
        else:
            self.calibration = before

    def measure(self, model: nn.Module, dev: Iterable[Document]) -> Mapping[str, Any]:
        """`flat_decoding`: what the other types' mentions lose to added ones; nothing where they may nest."""
        if self.recipe.decoding.overlap == "nested":
            return {}
        gold: list[Document] = []
        known = {*self.names, UNKNOWN}

        def noted() -> Iterator[Document]:
            for document in dev:
                # Others are looked for neither with the added types nor without them.
                own = tuple(mention for mention in document.mentions if mention.type in known)
                gold.append(replace(_without_text(document), mentions=own))
                yield document

        predictor = self.predictor(model, RecognizerOptions(overlap="nested"))
        nested = [_without_text(document) for document in predict(predictor, noted())]
        effects = effects_of_flat_decoding(gold, nested, self.added.types, self.recipe.decoding)
        return {"flat_decoding": effects}

    def inputs(self, model: BiEncoder, types: Sequence[TypeSettings]) -> TypeInputs | None:
        """The texts of those types that have no vector of their own; None without such."""
        places = [place for place, settings in enumerate(types) if settings.name not in self._own]
        found = super().inputs(model, [types[place] for place in places]) if places else None
        if found is None:
            return None
        return found._replace(type_index=torch.tensor(places, device=found.ids.device)[found.type_index])

    def _inputs_of(self, model: BiEncoder, types: Tensor, absent: Tensor, progress: Progress) -> None:
        """No text is read in training."""


def _without_text(document: Document) -> Document:
    return replace(document, text="", words=None, sentences=None, contexts=(), sentence_contexts=None)
