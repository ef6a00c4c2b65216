"""Pre-training on coreference chains (EnCore, papers/003, section 3.2) as a task."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config import ChainsRecipe
from rayner.data import story_plans
from rayner.data.plans import Plan
from rayner.data.schema import Document
from rayner.data.warned_once import warn_once
from rayner.errors import CorpusError, InputError
from rayner.losses.full_precision import exact
from rayner.losses.infonce import infonce
from rayner.losses.masked_lm import masked_lm_loss
from rayner.losses.positives import pairs
from rayner.models.encoder import Tokenizer
from rayner.models.masked_lm import MaskedLanguageModel
from rayner.tasks.base import Counts, Examples, Metric, Output, Parts, Progress, Seed, State
from rayner.tasks.chains.scorer import ChainScorer
from rayner.tasks.chains.story_rows import chained, rows
from rayner.tasks.corpus_task import CorpusTask
from rayner.tasks.splits import FoundDocuments

log = logging.getLogger(__name__)

_MASKED, _REPLACED = 0.8, 0.9
"""Of the sub-words to be predicted, 80 % are masked and 10 % replaced by any other (Devlin et al. 2019)."""


@dataclass(frozen=True, slots=True)
class StoryBatch:
    """Windows of stories, some of their sub-words masked.

    Attributes:
        ids, mask: [B, L] sub-words with special tokens.
        masked: int64 [N] places in the flattened [B L] whose sub-words are to be predicted.
        targets: int64 [N] these sub-words.
        places: int64 [T] places in the flattened [B L] of the tokens of mentions.
        owners: int64 [T] the mention of each.
        keys: int64 [M, 2] chain and story of each mention.
    """

    ids: Tensor
    mask: Tensor
    masked: Tensor
    targets: Tensor
    places: Tensor
    owners: Tensor
    keys: Tensor


class ChainsTask(CorpusTask[ChainsRecipe]):
    """Learns to place the mentions of a chain near each other, and to predict masked sub-words."""

    keeps_stories_apart = True
    examples_version = 6

    def __init__(self, recipe: ChainsRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        # The contrast says nothing of mentions of a story beside each other unless they are negatives.
        others_only = recipe.loss.negatives == "other_stories"
        self.metric = Metric("mrr_other_stories" if others_only else "mrr")
        self.weights: Mapping[str, float] = {"contrast": recipe.loss.contrast_weight}
        if recipe.loss.mlm_weight:
            self.weights = {**self.weights, "mlm": recipe.loss.mlm_weight}

    def require(self, found: FoundDocuments) -> None:
        """Refuse documents of which fewer than two stories have a chain of two mentions."""
        if found.stories < 2:
            what = f"{found.stories} of its stories have a chain of two mentions"
            hint = "give two at least: negatives are of other stories"
            raise CorpusError("corpus.train", what, hint)

    def example_settings(self) -> Mapping[str, Any]:
        """What decides the examples: encoder, tokenizer and windows."""
        return {**self.encoder_settings, "windows": self.recipe.windows.model_dump(mode="json")}

    def examples(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        """A row a window; see `story_rows.rows`.

        Raises:
            CorpusError: a document without a chain of two mentions.
        """
        for document in items:
            windows = self.windows_of(document)
            if not windows or not chained(document):
                raise CorpusError(document.document_id, "no chain of two mentions", "leave the document out")
            yield from rows(document, windows)

    def plan(
        self, lengths: np.ndarray, groups: np.ndarray | None, epoch: int, state: State | None = None
    ) -> Plan:
        """Steps of two stories, wherever the others suffice."""
        return story_plans.plan(
            lengths, groups, self.recipe.seed, epoch, self.recipe.training.tokens_per_step
        )

    def prepare_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:
        """Nothing; before the first epoch, the log tells of steps that a long story has for itself."""
        if epoch or self.recipe.loss.negatives == "same_story":
            return
        longest = story_plans.longest(examples.lengths, examples.groups)
        if longest <= self.recipe.training.tokens_per_step:
            return
        steps = self.plan(examples.lengths, examples.groups, 0)
        if alone := story_plans.alone(steps, examples.groups):
            what = "%d of %d steps hold one story alone, without negatives of others: the longest story has "
            what += "%d of %d sub-words; give more stories"
            log.warning(what, alone, len(steps), longest, examples.lengths.sum())

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> StoryBatch:
        """Rows as tensors; which mentions and sub-words are masked is drawn from the example's seed."""
        return self._batch(examples, [np.random.default_rng(seed) for seed in seeds])

    def unmasked(self, examples: Sequence[Mapping[str, Any]]) -> StoryBatch:
        """Rows as tensors, with nothing masked."""
        return self._batch(examples, [None] * len(examples))

    def _batch(
        self, examples: Sequence[Mapping[str, Any]], rngs: Sequence[np.random.Generator | None]
    ) -> StoryBatch:
        ids, mask = self.padded([np.asarray(e["ids"]) for e in examples])
        width = ids.shape[1]
        masked, targets, keys = [], [], []
        places, sizes = [np.zeros(0, np.int64)], []
        for row, (example, rng) in enumerate(zip(examples, rngs, strict=True)):
            begin = row * width + 1
            shown, predicted = self._hidden(example, rng)
            ids[row, 1 : 1 + len(shown)] = torch.from_numpy(shown)
            masked.append(begin + predicted)
            targets.append(np.asarray(example["ids"], np.int64)[predicted])
            spans = _pairs(example[self.recipe.model.tokens])
            of_mentions = [np.arange(first, last + 1) for first, last in spans]
            places += [begin + tokens for tokens in of_mentions]
            sizes += [len(tokens) for tokens in of_mentions]
            chains = np.asarray(example["chain"], np.int64)
            keys.append(np.stack([chains, np.full_like(chains, example["story"])], 1))
        return StoryBatch(
            ids=ids,
            mask=mask,
            masked=torch.from_numpy(np.concatenate(masked)),
            targets=torch.from_numpy(np.concatenate(targets)),
            places=torch.from_numpy(np.concatenate(places)),
            owners=torch.from_numpy(np.repeat(np.arange(len(sizes)), np.array(sizes, np.int64))),
            keys=torch.from_numpy(np.concatenate(keys)),
        )

    def counts(self, batch: StoryBatch, progress: Progress) -> Counts:
        """Sub-words to be predicted."""
        return {"mlm": float(len(batch.targets))} if "mlm" in self.weights else {}

    def build(self) -> MaskedLanguageModel:
        """The encoder, and its own head for masked language modelling or a new one."""
        recipe = self.recipe
        encoder = self.encoder()
        self.check_length(encoder, recipe.windows.length)
        if self._masks and self.tokenizer.mask_id is None:
            what, hint = "its tokenizer has no mask token", "set masking.mentions=none and loss.mlm_weight=0"
            raise InputError(f"encoder: {recipe.encoder}", what, hint)
        model = MaskedLanguageModel(encoder, recipe.model.dropout)
        if self._loading is None and "mlm" in self.weights and not model.load_head(recipe.encoder):
            # A training builds its model twice: the first time to see whether it can.
            what = f"{recipe.encoder} has no head for masked language modelling: a new one learns"
            warn_once(log, what, logging.INFO)
        return model

    def forward(self, model: nn.Module, batch: StoryBatch, progress: Progress) -> Output:
        """The cross-entropy of masked sub-words; the vectors of mentions, with chain and story as keys."""
        assert isinstance(model, MaskedLanguageModel)
        hidden = model(batch.ids, batch.mask).flatten(0, 1)
        sums = {}
        if "mlm" in self.weights:
            transformed = model.transform(hidden[batch.masked])
            sums["mlm"] = masked_lm_loss(transformed, model.embeddings, model.bias, batch.targets)
        vectors = mention_vectors(hidden, batch.places, batch.owners, len(batch.keys))
        return Output(sums, vectors, batch.keys)

    def contrast(
        self, anchors: Tensor, candidates: Tensor, keys: Tensor, own: Tensor, progress: Progress
    ) -> Parts:
        """InfoNCE (papers/003, equation 2), over positive pairs."""
        settings = self.recipe.loss
        found = pairs(keys[own], keys, own, within_story=settings.negatives != "other_stories")
        if settings.negatives == "same_story":
            same_story = keys[own, 1][:, None] == keys[:, 1]
            found = found._replace(negative=found.negative & same_story)
        return {"contrast": infonce(anchors, candidates, found, settings.temperature)}

    def scorer(self, model: nn.Module) -> ChainScorer:
        """Looks, for each mention of dev, for another one of its chain."""
        return ChainScorer(self, model)

    def vectors(self, model: nn.Module, batch: StoryBatch, device: torch.device) -> Tensor:
        """[M, H] of the mentions of a batch."""
        hidden = model(batch.ids.to(device), batch.mask.to(device)).flatten(0, 1)
        return mention_vectors(hidden, batch.places.to(device), batch.owners.to(device), len(batch.keys))

    @property
    def _masks(self) -> bool:
        return self.recipe.masking.mentions != "none" or "mlm" in self.weights

    def _hidden(
        self, example: Mapping[str, Any], rng: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sub-words as the encoder sees them, [T], and the places of those to be predicted."""
        masking, tokenizer = self.recipe.masking, self.tokenizer
        shown = np.array(example["ids"], np.int64)
        nothing = np.zeros(0, np.int64)
        if rng is None or not self._masks:
            return shown, nothing
        assert tokenizer.mask_id is not None
        hidden = rng.random(len(example["chain"])) < masking.mention_rate
        drawn, how = rng.random(len(shown)) < masking.token_rate, rng.random(len(shown))
        others = rng.integers(len(tokenizer), size=len(shown))
        predicted = np.flatnonzero(drawn) if "mlm" in self.weights else nothing
        of = how[predicted]
        shown[predicted[of < _MASKED]] = tokenizer.mask_id
        replaced = predicted[(of >= _MASKED) & (of < _REPLACED)]
        shown[replaced] = others[replaced]
        if masking.mentions != "none":
            for first, last in _pairs(example[masking.mentions])[hidden]:
                shown[first : last + 1] = tokenizer.mask_id
        return shown, predicted


def mention_vectors(hidden: Tensor, places: Tensor, owners: Tensor, mentions: int) -> Tensor:
    """The mean [M, H] of the states of each mention's tokens, in float32 at least.

    Args:
        hidden: [P, H] states.
        places: int64 [T] among the states, of the tokens of mentions.
        owners: int64 [T] the mention of each token; each of the M has one at least.
    """
    states = exact(hidden[places])
    totals = states.new_zeros(mentions, hidden.shape[1]).index_add(0, owners, states)
    # Not by `bincount`, which asks a GPU for the largest number.
    sizes = owners.new_zeros(mentions).index_add(0, owners, torch.ones_like(owners))
    return totals / sizes[:, None]


def _pairs(flat: Any) -> np.ndarray:
    return np.asarray(flat, np.int64).reshape(-1, 2)
