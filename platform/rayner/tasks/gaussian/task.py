"""Gaussian contrastive pre-training of papers/004 as a task."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rayner.config import TypeSettings
from rayner.config.gaussian import GaussianRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.data.batches import forwards, tokens_per_batch_of
from rayner.data.readers import find_units
from rayner.data.schema import UNKNOWN, Document, story_of
from rayner.data.string_hashes import number_of
from rayner.data.warned_once import warn_once
from rayner.errors import InputError
from rayner.files.fetching import local
from rayner.losses.gaussian import Gaussians, gaussian_contrast
from rayner.losses.label_pairs import label_keys, label_pairs
from rayner.models.encoder import Tokenizer
from rayner.models.gaussian import GaussianEncoder
from rayner.tasks.base import Output, Parts, Progress, Seed
from rayner.tasks.document_windows import TextWindow
from rayner.tasks.gaussian.neighbours import Neighbours, Support, encoded, group_of
from rayner.tasks.kinds.documents import documents_of
from rayner.tasks.predictor_options import Options
from rayner.tasks.sharing import from_first, shares
from rayner.tasks.tagger.tags import TagBatch, TagTask
from rayner.tasks.uncertainty import OfWords

log = logging.getLogger(__name__)


class GaussianOptions(Options):
    """What a caller may ask of the neighbours.

    `support`: an annotated corpus, a file or a folder in any format that `corpus convert` reads. Its types
    are looked for, learned or not, and its words are the neighbours that answers are taken from (few-shot, as
    in CONTaiNER, Das et al. 2022, with the Gaussians themselves); by default words of dev are.
    """

    support: Path | None = None

    def versions(self) -> list[str]:
        """A hash of the support."""
        if self.support is None:
            return []
        digest = hashlib.sha256()
        for path in sorted({path for unit in find_units([self.support]) for path in unit.paths}):
            digest.update(local(path).read_bytes())
        return [digest.hexdigest()[:12]]


@dataclass(frozen=True, slots=True)
class GaussianBatch(TagBatch):
    """Windows and those of their words whose label is known.

    Attributes:
        taught: int64 [T] these words among all.
        keys: int64 [T, k] the label of each, the types that its document was annotated for and a number of
            the word, by `label_keys`.
    """

    taught: Tensor
    keys: Tensor


class GaussianTask(TagTask[GaussianRecipe]):
    """Learns an encoder in which the Gaussians of words with equal labels lie close together."""

    weights: Mapping[str, float] = {"contrast": 1.0}
    examples_version = 7
    numbers_words = True

    def __init__(self, recipe: GaussianRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self.support: Support | None = None
        """The neighbours that answers are taken from; None without a development set."""
        if recipe.loss.positives == "types":
            self.contrasted = ["O", *(f"I-{name}" for name in self.names)]
            self._contrasted_of = torch.arange(len(self.labels)).add(1) // 2
            self._type_of = (torch.arange(len(self.contrasted)) - 1).clamp_min(0)
        else:
            self.contrasted = self.labels
            self._contrasted_of = torch.arange(len(self.labels))
            self._type_of = (torch.arange(len(self.labels)) - 1).clamp_min(0) // 2

    def build(self) -> GaussianEncoder:
        """The encoder and new heads."""
        encoder = self.encoder()
        self.check_length(encoder, self.recipe.windows.length)
        return GaussianEncoder(encoder, self.recipe.model.embedding_size, self.recipe.model.dropout)

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> GaussianBatch:
        """As for a tagger, and what is known of the words."""
        batch = super().collate(examples, seeds)
        labels = self._contrasted_of[batch.labels]
        known = ~batch.unknown[:, 1 :: len(self.prefixes)]
        own_type = known.gather(1, self._type_of[labels][:, None])[:, 0]
        taught = torch.where(labels > 0, own_type, known.any(1)).nonzero()[:, 0]
        keys = label_keys(labels[taught], known[taught], _numbers_of_words(examples)[taught])
        values = {field.name: getattr(batch, field.name) for field in fields(batch)}
        return GaussianBatch(**values, taught=taught, keys=keys)

    def forward(self, model: nn.Module, batch: GaussianBatch, progress: Progress) -> Output:
        """The Gaussians of the words whose label is known, each with its keys."""
        found = model(batch.ids, batch.mask, batch.words)
        return Output({}, found.rows()[batch.taught], batch.keys)

    def contrast(
        self, anchors: Tensor, candidates: Tensor, keys: Tensor, own: Tensor, progress: Progress
    ) -> Parts:
        """Equation 5, over the words of the whole step; those that have no other of their label to be drawn
        to do not count."""
        if not len(candidates):
            return {"contrast": (candidates.sum(), keys.new_zeros(()))}
        if self.recipe.loss.outside == "negatives":
            inside = keys[own, 0] > 0
            anchors, own = anchors[inside], own[inside]
        found = label_pairs(keys, own, self._type_of)
        return {"contrast": gaussian_contrast(Gaussians.of(anchors), Gaussians.of(candidates), found)}

    def fit(self, model: nn.Module, dev: Sequence[Document]) -> None:
        """Take some documents of dev, chosen by the seed, as the neighbours that answers are taken from."""
        self.support = self._support(model, dev, self.recipe.support_words)
        if self.support is not None and len(groups := self.support.groups.unique()) == 1:
            from_first(lambda: self._tell_of_one_group(dev, int(groups)))

    def uncertainty(self, model: nn.Module) -> OfWords:
        """The differential entropy of each word's Gaussian in nats, the mean over its dimensions."""

        def of_words(windows: Sequence[TextWindow]) -> list[np.ndarray]:
            entropies = encoded(self, model, windows).entropies().cpu().numpy()
            return np.split(entropies, np.cumsum([len(window.words) for window in windows])[:-1])

        return of_words

    def predictor(self, model: nn.Module, options: GaussianOptions | None = None) -> Neighbours | None:
        """Labels of nearest neighbours, of the options' support or of dev; None where there is neither.

        Raises:
            InputError: a support without a mention, or without a word outside of mentions.
            RecipeError: a support that does not exist.
            CorpusError: a support that cannot be read.
        """
        if options is not None and options.support is not None:
            return self._few_shot(model.eval(), options.support)
        return None if self.support is None else Neighbours(self, model, self.contrasted, self.support)

    def save(self, model: nn.Module, folder: Path) -> None:
        """Weights, encoder configuration, tokenizer, and the neighbours where there are any."""
        super().save(model, folder)
        if self.support is not None:
            self.support.save(folder)

    def load(self, folder: Path) -> nn.Module:
        """The model that `save` wrote; its neighbours become this task's."""
        model = super().load(folder)
        self.support = Support.load(folder)
        return model

    def _tell_of_one_group(self, dev: Sequence[Document], group: int) -> None:
        """Warn that nothing is found in the group that all neighbours are of."""
        stories = {story_of(document): group_of(document) for document in dev}
        name = next(story for story, number in stories.items() if number == group)
        if len(stories) == 1:
            is_drawn = self.recipe.corpus.dev_fraction > 0
            more = "raise corpus.dev_fraction" if is_drawn else "add another group to corpus.dev"
            what = f"the development part is of one document or group, {name!r}, whose words are no "
            what += "neighbours of each other: nothing is found in it, and best/ stays that of the first "
            what += f"evaluation; {more}, or leave dev out"
        else:
            assert self.support is not None
            is_cut = len(self.support.labels) >= self.recipe.support_words
            more = f"raise support_words above {self.recipe.support_words}"
            what = f"all neighbours are of one document or group of the development part, {name!r}, in which "
            what += f"nothing is then found; {more if is_cut else 'no other has a word whose label is known'}"
        warn_once(log, what)

    def _few_shot(self, model: nn.Module, path: Path) -> Neighbours:
        """The neighbours of a task with the types of an annotated corpus."""
        corpus_paths([str(path)], "support")
        documents = list(documents_of([path], "auto", self.recipe))
        names = dict.fromkeys(name for document in documents for name in _annotated(document))
        types = tuple(TypeSettings(name=name) for name in names)
        task = GaussianTask(self.recipe.model_copy(update={"types": types}), self.tokenizer)
        task.checkpoint, task.device, task.precision = self.checkpoint, self.device, self.precision
        found = task._support(model, documents) if names else None
        if found is None:
            what = f"{path} has no mention, so that there is no type to look for"
            raise InputError("support", what, "give some annotated examples of each type")
        _check_examples(path, found, task.contrasted, task.names)
        return Neighbours(task, model, task.contrasted, found, apart=False)

    def _support(
        self, model: nn.Module, documents: Sequence[Document], most: int | None = None
    ) -> Support | None:
        """The words of documents, drawn by the seed, with their labels where these are known; `most` of them,
        or all; None where there is none."""
        rows: list[dict[str, Any]] = []
        groups: list[int] = []
        words = 0
        for number in np.random.default_rng(self.recipe.seed).permutation(len(documents)):
            for row in self.examples([documents[number]]):
                rows.append(row)
                groups.append(group_of(documents[number]))
                words += len(row["labels"])
            if most is not None and words >= most:
                break
        lengths = np.array([row["length"] for row in rows])
        batches = list(forwards(np.arange(len(rows)), lengths, tokens_per_batch_of(model)))

        def encoded(own: Sequence[np.ndarray]) -> list[Support]:
            return [self._support_of([rows[i] for i in b], [groups[i] for i in b], model) for b in own]

        found = shares(encoded, batches)
        if not batches:
            return None
        parts = [found[number % len(found)][number // len(found)] for number in range(len(batches))]
        support = Support.joined(parts, most)
        return support if len(support.labels) else None

    def _support_of(
        self, rows: Sequence[Mapping[str, Any]], groups: Sequence[int], model: nn.Module
    ) -> Support:
        device = next(model.parameters()).device
        batch = self.collate(rows, [])
        with torch.no_grad():
            words = tuple(part.to(device) for part in batch.words)
            found = model(batch.ids.to(device), batch.mask.to(device), words)
        of_words = torch.from_numpy(np.repeat(groups, [len(row["labels"]) for row in rows]))
        gaussians, known = found.rows().float().cpu(), ~batch.unknown[:, 1 :: len(self.prefixes)]
        known, sets = known[batch.taught].unique(dim=0, return_inverse=True)
        return Support(gaussians[batch.taught], batch.keys[:, 0], of_words[batch.taught], known, sets)


def _numbers_of_words(examples: Sequence[Mapping[str, Any]]) -> Tensor:
    """int64 [N] of each word that starts in a window; of a word that several windows hold the same."""
    # Far apart, as hashes are: the words of two documents have no number in common.
    of_documents = [number_of(e["document_id"]) >> 1 for e in examples]
    words = [np.asarray(e["words"], np.int64) for e in examples]
    return torch.from_numpy(np.concatenate([n + w for n, w in zip(of_documents, words, strict=True)]))


def _check_examples(path: Path, support: Support, labels: Sequence[str], names: Sequence[str]) -> None:
    """Refuse neighbours that make every word a mention, and log the types that have none.

    Raises:
        InputError: no word lies outside of mentions.
    """
    there = {labels[number] for number in support.labels.unique().tolist()}
    if "O" not in there:
        what = f"{path} has no word outside of mentions, so that every word would be one"
        raise InputError("support", what, "give sentences that have other words, too")
    if missing := [name for name in names if not there & {f"B-{name}", f"I-{name}"}]:
        what = "support: %s has no word of %s, which cannot be found: of nested mentions the outermost counts"
        log.warning(what, path, ", ".join(missing))


def _annotated(document: Document) -> list[str]:
    """The types of a document's mentions, less those of which nobody says what they are."""
    known = document.annotated_types
    return [m.type for m in document.mentions if m.type != UNKNOWN and (known is None or m.type in known)]
