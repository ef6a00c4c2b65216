"""The entity standardizer of papers/002 as a task."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rayner.config import StandardizerRecipe
from rayner.data import contrastive_groups
from rayner.data.mention_strings import MentionString, normal_form
from rayner.data.plans import Plan, group_codes
from rayner.data.schema import Entity
from rayner.errors import RecipeError
from rayner.metrics.linking import RANKS
from rayner.metrics.nil import RIGHT, NilCalibration
from rayner.models.encoder import Tokenizer
from rayner.models.name_encoder import NameEncoder
from rayner.retrieval.build import Encode, TextSide, index_with, text_side
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.index_folder import open_index
from rayner.tasks.base import Examples, Metric, Output, ParallelMap, Parts, Progress, Seed, Size, State, Unit
from rayner.tasks.checkpoint_files import Place
from rayner.tasks.contexts.rankers import load_trained_ranker, version_of_ranker
from rayner.tasks.document_windows import SPECIAL_TOKENS
from rayner.tasks.encoder_task import EncoderTask
from rayner.tasks.sharing import fill, from_first
from rayner.tasks.standardizer.chunks import NameBatch, by_length, merged
from rayner.tasks.standardizer.encoding import LONGEST, TOKENS_PER_CHUNK_ON_GPU, encode_texts
from rayner.tasks.standardizer.entity_units import EntityRange, units_of
from rayner.tasks.standardizer.examples import name_examples, varied
from rayner.tasks.standardizer.fitting import Fitted, fit, fit_reranker
from rayner.tasks.standardizer.index_origin import check_origin, origin_of, tell_of_another_base
from rayner.tasks.standardizer.linking_options import StandardizerOptions
from rayner.tasks.standardizer.neighbours import hard_neighbours
from rayner.tasks.standardizer.objective import contrast, easy_epochs
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.reranker import RERANKER, RankerWeights, Reranker
from rayner.tasks.standardizer.sentence_transformers_files import DENSE, DENSE_PREFIX, write_modules
from rayner.tasks.standardizer.strings import EntityStrings, load_entity_strings, require_learnable


class StandardizerTask(EncoderTask[StandardizerRecipe]):
    """Learns to place a mention near the other names of its entity."""

    metric = Metric("top1")
    weights: Mapping[str, float] = {"contrast": 1.0}

    def __init__(self, recipe: StandardizerRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        if recipe.loss.mining == "hybrid":
            self.patience_epoch = easy_epochs(recipe.training.epochs) + 1
        self.fitted = Fitted()
        self.reranker: Path | None = None
        """The checkpoint of the ranker that reads candidates again; None without one."""
        self._index: EntityIndex | None = None
        self._encoded: Mapping[str, np.ndarray] = {}

    @cached_property
    def strings(self) -> EntityStrings:
        """The recipe's knowledge base and mentions."""
        return load_entity_strings(self.recipe)

    def items(self, split: Literal["train", "dev"]) -> Sequence[Entity] | Sequence[MentionString]:
        """Entities with all that they are called; mentions to evaluate on.

        Raises:
            InputError: as `load_entity_strings`, and that there is nothing to learn from.
        """
        if split == "dev":
            return self.strings.dev
        require_learnable(self.strings)
        return self.strings.learned

    def units(
        self, split: Literal["train", "dev"], mapper: ParallelMap = map, cache: Path | None = None
    ) -> Sequence[Unit]:
        """Of train a unit for each shard of examples; dev is one."""
        if split == "dev":
            return super().units(split)
        require_learnable(self.strings)
        self.fitted = replace(self.fitted, base=self.strings.indexed.digest)
        return units_of(self.strings.learned)

    def read(self, unit: Unit) -> Sequence[Entity] | Sequence[MentionString]:
        """The items of a unit."""
        source = unit.source
        return source.of(self.strings.learned) if isinstance(source, EntityRange) else self.items(source)

    def example_settings(self) -> Mapping[str, Any]:
        """The encoder, its tokenizer, and the prefixes."""
        return {**self.encoder_settings, "prefixes": self.recipe.augmentation.prefixes}

    def examples(self, items: Iterable[Entity]) -> Iterator[dict[str, Any]]:
        """As `name_examples`."""
        return name_examples(items, self._tokenized, self.recipe.augmentation.prefixes)

    def plan(
        self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int, state: State | None = None
    ) -> Plan:
        """Steps of groups, cut anew in each epoch; with a state, groups of neighbours share a step."""
        assert groups is not None
        settings = self.recipe.groups
        return contrastive_groups.plan(
            groups,
            self.recipe.seed,
            epoch,
            settings.group_size,
            settings.groups_per_step,
            settings.anchored,
            None if state is None else state["neighbours"].cpu().numpy(),
        )

    def prepare_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> State | None:
        """The table of hard neighbours, where the recipe asks for them."""
        assert examples.groups is not None
        count = self.recipe.groups.neighbours
        if not count:
            return None
        _, first = np.unique(group_codes(examples.groups), return_index=True)
        if len(first) < 2:
            return None
        vectors = self._encode_shared(model, examples.column("text", first))
        device = next(model.parameters()).device
        return {"neighbours": hard_neighbours(vectors, self.recipe.loss.learned_distance, count, device)}

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> NameBatch:
        """Strings, some of them written otherwise, by length."""
        settings = self.recipe.augmentation
        texts = [varied(e, settings, seed) for e, seed in zip(examples, seeds, strict=True)]
        rows = [np.asarray(e["ids"]) for e in examples]
        changed = [i for i, e in enumerate(examples) if texts[i] != e["text"]]
        for i, ids in zip(changed, self._tokenized([texts[i] for i in changed]), strict=True):
            rows[i] = np.array(ids[:LONGEST], np.int32)
        words = sum(len(text.split()) for text in texts)
        return by_length(rows, [int(example["label"]) for example in examples], words, self.padded)

    def size_of(self, batch: NameBatch) -> Size:
        """That of its chunks of strings."""
        tokens = sum(int(mask.sum()) for _, mask in batch.chunks)
        return Size(batch.words, tokens, sum(mask.numel() for _, mask in batch.chunks))

    def build(self) -> NameEncoder:
        """It starts from the recipe's encoder."""
        return NameEncoder(self.encoder(), self.recipe.model)

    def forward(self, model: nn.Module, batch: NameBatch, progress: Progress) -> Output:
        """The vectors of the strings, each with its entity as its key."""
        on_gpu = batch.entities.device.type == "cuda"
        chunks = merged(batch.chunks, TOKENS_PER_CHUNK_ON_GPU) if on_gpu else batch.chunks
        vectors = [model(ids, mask) for ids, mask in chunks]
        return Output({}, torch.cat(vectors), batch.entities)

    def contrast(
        self, anchors: Tensor, candidates: Tensor, keys: Tensor, own: Tensor, progress: Progress
    ) -> Parts:
        """The recipe's objective (papers/002, section 3.3; papers/003, section 3, for InfoNCE)."""
        return {"contrast": contrast(self.recipe.loss, anchors, candidates, keys[:, 0], own, progress)}

    def encode(self, model: nn.Module, texts: Sequence[str]) -> np.ndarray:
        """Vectors [N, D] float32; equal strings are encoded once."""
        assert isinstance(model, NameEncoder)
        return encode_texts(model, texts, self._tokenized, self.padded)

    def fit(self, model: nn.Module, dev: Sequence[MentionString]) -> None:
        """Fit what combines the sides of the index, and the calibration of NIL, on dev."""
        index = self._build_index(model)
        if index.lexical.found is None:
            # Each evaluation asks for the strings of dev, several times while it fits.
            index.lexical.found = {}
        vectors = self._encoded_dev(model, dev, index)
        self.reranker = None
        self.fitted = from_first(lambda: fit(index, dev, vectors))

    def fit_reranker(self, model: nn.Module, index: EntityIndex, folder: Path, candidates: int) -> None:
        """As `fit` on dev, and how the scores of a ranker count; the checkpoint keeps it from now on.

        Args:
            index: that of `scorer`, with the knowledge base as the model encodes it.
            folder: the checkpoint of the ranker.
            candidates: of each mention, so many are read by it.

        Raises:
            CheckpointError: it is none, is damaged, or gives no numbers.
            InputError: too few mentions to fit it on.
        """
        self.reranker = folder
        dev = self.strings.dev
        vectors = self._encoded_dev(model, dev, index)
        unfitted = Fitted(reranker=RankerWeights(candidates, retrieval=1, ranker=0, intercept=0))
        self.fitted = fit_reranker(index, dev, vectors, self._reranker(model, index, unfitted))

    def scorer(self, model: nn.Module) -> Standardizer:
        """As `predictor`, but candidates of a mention of dev are ranked by what was fitted without it (NIL is
        judged by what all of dev gave). What `fit` has encoded is not encoded again."""
        known, self._encoded = self._encoded, {}

        def encode(texts: Sequence[str]) -> np.ndarray:
            new = [text for text in dict.fromkeys(texts) if text not in known]
            of = {**known, **dict(zip(new, self.encode(model, new), strict=True))} if new else known
            return np.stack([of[text] for text in texts])

        return self._standardizer(model, StandardizerOptions(top_k=RANKS), encode, self.fitted)

    def predictor(self, model: nn.Module, options: StandardizerOptions | None = None) -> Standardizer:
        """The model as it answers, from an index or from the recipe's knowledge base.

        Raises:
            InputError: a knowledge base that is no longer there, an index that is damaged or another
                encoder's, or an operating point or a share of NIL without a calibration.
        """
        # Whoever asks is answered by all that was fitted.
        whole = replace(self.fitted, fold_of={})
        return self._standardizer(model, options or StandardizerOptions(), partial(self.encode, model), whole)

    def places(self, model: nn.Module) -> Mapping[str, Place]:
        """As always, and the projection where sentence-transformers looks for it."""
        assert isinstance(model, NameEncoder)
        own = {} if model.projection is None else {"projection.": Place(DENSE, DENSE_PREFIX)}
        return {**super().places(model), **own}

    def nil_share(self, options: StandardizerOptions) -> float | None:
        """What the options say, or the recipe; None where neither needs one."""
        if options.nil_share is None and self.fitted.nil is not None:
            return self.recipe.nil_share
        return options.nil_share

    def about(self) -> Sequence[str]:
        """Which ranker reads candidates again."""
        weights = self.fitted.reranker
        if self.reranker is None or weights is None:
            return []
        told = f"`{version_of_ranker(self.reranker)}`, in `{RERANKER}/`, reads the first {weights.candidates}"
        return ["", "## Re-ranker", "", f"{told} candidates again; its own card is there."]

    def inspect(self, model: nn.Module, dev: Iterable[MentionString]) -> Mapping[str, pa.Table]:
        """`calibration`: mentions with and without their entities, judged by models fitted without them:
        the probability that the first candidate is right, whether it is, and the weight."""
        if not isinstance(self.fitted.nil, NilCalibration):
            return {}
        _, probability, outcome, weight = self.fitted.nil.sample.columns(self.recipe.nil_share)
        return {
            "calibration": pa.table({"probability": probability, "right": outcome == RIGHT, "weight": weight})
        }

    def save(self, model: nn.Module, folder: Path) -> None:
        """The model, as sentence-transformers reads it too, and what was fitted."""
        assert isinstance(model, NameEncoder)
        super().save(model, folder)
        width, distance = model.text_encoder.hidden_size, self.recipe.loss.learned_distance
        write_modules(folder, model.settings, width, LONGEST + SPECIAL_TOKENS, distance)
        self.fitted.save(folder)
        if self.reranker is not None:
            others = shutil.ignore_patterns("evaluation", "state")
            shutil.copytree(self.reranker, folder / RERANKER, ignore=others)

    def load(self, folder: Path) -> nn.Module:
        """The model that `save` wrote; what was fitted becomes this task's."""
        model = super().load(folder)
        self.fitted = Fitted.load(folder)
        self.reranker = None if self.fitted.reranker is None else folder / RERANKER
        return model

    def _encoded_dev(self, model: nn.Module, dev: Sequence[MentionString], index: EntityIndex) -> np.ndarray:
        """The vectors of dev, which the predictor that scores this model next takes over with the index."""
        self._index = index
        texts = [normal_form(mention.text) for mention in dev]
        vectors = self._encode_shared(model, texts)
        self._encoded = dict(zip(texts, vectors, strict=True))
        return vectors

    def _standardizer(
        self, model: nn.Module, options: StandardizerOptions, encode: Encode, fitted: Fitted
    ) -> Standardizer:
        if options.index is not None:
            index = open_index(options.index)
            index.dense.search_beside(next(model.parameters()).device)
            if self.checkpoint is not None:
                check_origin(index.origin, origin_of(self.checkpoint, self.recipe), options.index)
        else:
            index, self._index = self._index or self._build_index(model), None
        return Standardizer(
            index,
            encode,
            fitted.weight,
            fitted.nil,
            top_k=options.top_k,
            operating_point=options.operating_point,
            nil_share=self.nil_share(options),
            abbreviations=self.recipe.mentions.abbreviations,
            composites=self.recipe.mentions.composites,
            reranker=None if fitted.reranker is None else self._reranker(model, index, fitted),
            search=partial(fitted.search_held_out, index),
        )

    def _reranker(self, model: nn.Module, index: EntityIndex, fitted: Fitted) -> Reranker:
        assert self.reranker is not None
        assert fitted.reranker is not None
        device = str(next(model.parameters()).device)
        ranker = load_trained_ranker(self.reranker, device, self.precision)
        return Reranker(ranker, index.entities, fitted.reranker.candidates, fitted.reranker_of)

    def for_workers(self, dev: Sequence[Unit]) -> StandardizerTask:
        """With what no step changes of the index that dev is scored by, without mentions to learn from."""
        sent = copy(self)
        sent.strings = replace(self.strings, mentions=())
        if any(len(unit.sizes) for unit in dev):
            # Kept by what is sent alone: the driver has no use for it.
            _ = sent._text_side
        return sent

    @cached_property
    def _text_side(self) -> TextSide:
        # Kept: of 100,000 names it takes 12 s, and no step of the training changes it.
        return text_side(self.strings.indexed, self.recipe.index)

    def _build_index(self, model: nn.Module) -> EntityIndex:
        try:
            side = self._text_side
        except RecipeError as error:
            # Whoever has a checkpoint alone cannot correct its recipe.
            hint = f"name an `index` of it, or {error.hint}" if self.checkpoint else error.hint
            raise RecipeError(error.where, error.what, hint) from None
        tell_of_another_base(side.entities, self.fitted.base, self.recipe.knowledge_base)
        return index_with(
            side,
            lambda texts: self._encode_shared(model, texts),
            self.recipe.index,
            self.recipe.loss.learned_distance,
            next(model.parameters()).device,
            fill,
        )

    def _encode_shared(self, model: nn.Module, texts: Sequence[str]) -> np.ndarray:
        """As `encode`, each worker of a training encoding its part; the same on all of them."""
        assert isinstance(model, NameEncoder)
        return encode_texts(model, texts, self._tokenized, self.padded, together=True)

    def _tokenized(self, texts: Sequence[str]) -> list[list[int]]:
        """Sub-words; a string of which the tokenizer leaves nothing is one unknown sub-word."""
        return [ids or [self.tokenizer.unk_id] for ids, _ in self.tokenizer.batch(texts)]
