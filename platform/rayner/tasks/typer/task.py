"""Fine-grained entity typing: any number of types for each given mention (papers/003, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from rayner.config import TyperRecipe, Types, TypeSettings
from rayner.config.documents import described
from rayner.data.batches import forwards, tokens_per_batch_of
from rayner.data.corpus_check import Finding
from rayner.data.fine_types import spoken
from rayner.data.schema import Document
from rayner.errors import InputError, RecipeError
from rayner.losses.typing import typing_loss
from rayner.models.encoder import Tokenizer
from rayner.models.sources import locate, weights_digest
from rayner.models.typer import LabelHead, Typer
from rayner.tasks.base import Counts, Metric, Output, ParallelMap, Progress, Seed
from rayner.tasks.corpus_task import CorpusTask, mention_of
from rayner.tasks.predict import predict
from rayner.tasks.predictor_options import Options
from rayner.tasks.sharing import from_first, shares
from rayner.tasks.splits import FoundDocuments
from rayner.tasks.typer.mention_batches import TypeBatch, by_tokens, joined, known_groups, stored_states
from rayner.tasks.typer.mention_windows import MentionWindow, MentionWindows
from rayner.tasks.typer.predictor import (
    FLOOR,
    GoldScore,
    GoldScores,
    TypePredictor,
    logit,
    tuned_per_type,
    tuned_threshold,
)
from rayner.tasks.typer.type_rows import rows_of
from rayner.tasks.typer.vocabulary import (
    lacking,
    listed_types,
    read_vocabulary,
    vocabulary_of,
    write_vocabulary,
)


class TyperOptions(Options):
    """What a caller may ask of a typer; None means what the checkpoint learned.

    `types`: those to choose from, also ones that were never learned, where `model.head` is `labels`. `shift`
    is added to the logit of every threshold: a negative one finds more, a positive one less.
    """

    types: Annotated[Types, Field(min_length=1)] | None = None
    shift: Annotated[float, Field(allow_inf_nan=False)] = 0.0


class TyperTask(CorpusTask[TyperRecipe]):
    """Learns the types of mentions by binary cross-entropy. A document's given `types` are its gold."""

    examples_version = 9
    metric = Metric("macro_f1")
    weights: Mapping[str, float] = {"type": 1.0}
    builds_from_items = True

    def __init__(self, recipe: TyperRecipe, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self._name_vectors: Tensor | None = None

    @cached_property
    def vocabulary(self) -> Mapping[str, int]:
        """The types in their order, and the mentions of each in training."""
        return vocabulary_of(self.recipe, self._found("train", map, None).fine_types)

    @property
    def names(self) -> list[str]:
        """The types in their order."""
        return list(self.vocabulary)

    def findings(self, mapper: ParallelMap = map) -> Iterator[Finding]:
        """Types above those that the recipe lists, and listed by it nowhere."""
        for above, below in lacking(self.recipe, listed_types(self.recipe)).items():
            more = f" and of {len(below) - 1} more" if len(below) > 1 else ""
            what = f"{above!r}, the parent of {below[0]!r}{more}, is none of the types"
            hint = "add it: else no answer holds it"
            yield Finding("type without a parent", "warning", "types", what, hint)

    @cached_property
    def _windows(self) -> MentionWindows:
        return MentionWindows(self.recipe.windows, self.recipe.model.mention_encoding, self.tokenizer)

    def windows_of(self, document: Document) -> list[MentionWindow]:
        """The windows of a document that hold its mentions."""
        if self.contexts is not None and document.mentions:
            document = self.contexts.of(document)
        return self._windows(document)

    def require(self, found: FoundDocuments) -> None:
        """Refuse documents without a mention of any of the types, which are known from then on: who asks for
        them would else read the documents again, in one process."""
        if "vocabulary" not in vars(self):
            self.vocabulary = vocabulary_of(self.recipe, found.fine_types)

    def lacking(self, found: FoundDocuments) -> str:
        """Mentions of any type."""
        return mention_of(self.names) if found.fine_types.keys().isdisjoint(self.names) else ""

    def example_settings(self) -> Mapping[str, Any]:
        """What decides the examples: encoder, tokenizer, windows, where a mention is read, types."""
        return {
            "task": type(self).__name__,
            **self.encoder_settings,
            "windows": self.recipe.windows.model_dump(mode="json"),
            "mention_encoding": self.recipe.model.mention_encoding,
            "types": self.names,
            "states": weights_digest(self.recipe.encoder) if self._reads_once else None,
            **({} if self.contexts is None else {"context": self.contexts.key()}),
        }

    @property
    def _reads_once(self) -> bool:
        """Whether the encoder reads each window once, not in each epoch: it does not learn, and has the same
        weights wherever it is loaded."""
        return not self.recipe.model.train_encoder and not self._is_random

    @property
    def _is_random(self) -> bool:
        """Whether each encoder that is made has weights of its own."""
        return locate(self.recipe.encoder).kind == "random"

    def examples(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        """A row a window; see `type_rows.rows_of`.

        `states` are the hidden states of the mentions, flat, where the encoder does not learn.
        """
        found = self._rows(items)
        return self._with_states(found) if self._reads_once else found

    def _with_states(self, found: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        encoder = self.encoder().eval()
        lines: list[dict[str, Any]] = []

        def examples() -> Iterator[dict[str, Any]]:
            for row in found:
                if "ids" in row:
                    yield row
                else:
                    lines.append(row)

        for batch in by_tokens(examples()):
            ids, mask = self.padded([row["ids"] for row in batch])
            with torch.inference_mode():
                states = encoder(ids, mask)
            for row, of_row in zip(batch, states, strict=True):
                yield {**row, "states": of_row[1 + torch.from_numpy(row["places"])].flatten().numpy()}
        yield from lines

    def _rows(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        type_index = {name: index for index, name in enumerate(self.names)}
        for document in items:
            yield from rows_of(document, self.windows_of(document), type_index)

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> TypeBatch:
        """Rows as tensors; places move by one for [CLS]."""
        ids, mask = self.padded([np.asarray(e["ids"]) for e in examples])
        sizes = [len(e["places"]) for e in examples]
        begins = np.cumsum([0, *sizes])
        mention = [
            np.asarray(e["type_mention"], np.int64) + b for e, b in zip(examples, begins, strict=False)
        ]
        right = [np.concatenate(mention), joined([e["type_index"] for e in examples])]
        return TypeBatch(
            ids=ids,
            mask=mask,
            rows=torch.from_numpy(np.repeat(np.arange(len(examples)), sizes)),
            places=1 + torch.from_numpy(joined([e["places"] for e in examples])),
            right=torch.from_numpy(np.stack(right, 1)),
            known=known_groups([tuple(e["known"]) for e in examples], sizes),
            states=stored_states(examples) if self._reads_once else None,
        )

    def counts(self, batch: TypeBatch, progress: Progress) -> Counts:
        """Mentions: the gradient of a type does not shrink with the number of the others."""
        return {"type": float(len(batch.places))}

    def build(self) -> Typer:
        """The encoder and a new head."""
        settings, encoder = self.recipe.model, self.encoder()
        _ = self._windows
        self.check_length(encoder, self.recipe.windows.length)
        of_types = self.encoder() if settings.head == "labels" and settings.train_encoder else None
        model = Typer(encoder, len(self.names), settings, of_types)
        model.thresholds.fill_(logit(self.recipe.decoding.value))
        if isinstance(model.head, LabelHead) and self._loading is None:
            if self._name_vectors is None or self._is_random:
                self._name_vectors = self._encoded(model, [TypeSettings(name=name) for name in self.names])
            model.head.type_vectors.copy_(self._name_vectors)
        return model

    def forward(self, model: nn.Module, batch: TypeBatch, progress: Progress) -> Output:
        """The sum over mentions and types of the binary cross-entropy."""
        assert isinstance(model, Typer)
        if batch.states is None:
            logits = model(batch.ids, batch.mask, batch.rows, batch.places)
        else:
            logits = model.of_states(batch.states)
        if not batch.known:
            return Output({"type": typing_loss(logits, batch.right)})
        sums = [_loss_among(logits, batch.right, mentions, types) for mentions, types in batch.known]
        return Output({"type": torch.stack(sums).sum()})

    def fit(self, model: nn.Module, dev: Sequence[Document]) -> None:
        """The thresholds, where they are tuned."""
        settings = self.recipe.decoding
        if settings.threshold == "fixed" or not isinstance(model, Typer):
            return
        loose = torch.full_like(model.thresholds, logit(FLOOR))
        looser = GoldScores(self, model, self.names, model.head.table(), loose, model.kept)
        found = shares(lambda part: list(predict(looser, part)), [d for d in dev if d.mentions])
        mentions = [pair for part in found for of_document in part for pair in of_document]
        model.thresholds.copy_(torch.from_numpy(from_first(lambda: self._tuned(mentions))))

    def scorer(self, model: nn.Module) -> TypePredictor:
        """As `predictor`; an encoder that does not learn reads dev once in a training."""
        assert isinstance(model, Typer)
        with torch.inference_mode():
            table = model.head.table()
        return TypePredictor(self, model, self.names, table, model.thresholds, model.kept)

    def predictor(self, model: nn.Module, options: Any = None) -> TypePredictor:
        """The model as it answers.

        Raises:
            InputError: types that were never learned, of a head that knows no others.
        """
        assert isinstance(model, Typer)
        asked: TyperOptions = options or TyperOptions()
        with torch.inference_mode():
            table, names = model.head.table(), self.names
            thresholds = model.thresholds
            if asked.types is not None:
                names = [t.name for t in asked.types]
                learned = {name: index for index, name in enumerate(self.names)}
                usual = thresholds.mean()
                if isinstance(model.head, LabelHead):
                    table = model.head.table(self._encoded(model, asked.types).to(thresholds))
                elif new := [name for name in names if name not in learned]:
                    what = "was never learned, and model.head is linear"
                    hint = (
                        "ask for learned types; a typer that is trained with model.head=labels takes others"
                    )
                    raise InputError(f"types: {new[0]}", what, hint)
                else:
                    places = torch.tensor([learned[name] for name in names], device=thresholds.device)
                    table = type(table)(table.weight[places], table.bias[places])
                rows = [thresholds[learned[n]] if n in learned else usual for n in names]
                thresholds = torch.stack(rows)
            return TypePredictor(self, model, names, table, thresholds + asked.shift)

    def new_types(self, options: TyperOptions) -> Mapping[str, Any]:
        """Types that were never learned; each has the mean of the thresholds of those that were."""
        asked = options.types or ()
        learned = self.vocabulary if asked else {}
        return {t.name: "mean" for t in asked if t.name not in learned}

    def save(self, model: nn.Module, folder: Path) -> None:
        """The types, and what chooses contexts, too."""
        super().save(model, folder)
        write_vocabulary(self.vocabulary, folder)

    def load(self, folder: Path) -> nn.Module:
        """The model of a checkpoint folder, with its own types and contexts."""
        self.vocabulary = read_vocabulary(folder)
        return super().load(folder)

    def _tuned(self, mentions: Sequence[GoldScore]) -> np.ndarray:
        settings = self.recipe.decoding
        if settings.threshold == "per_type":
            return tuned_per_type(mentions, settings, self.names)
        return np.full(len(self.names), logit(tuned_threshold(mentions, settings, frozenset(self.names))))

    def _encoded(self, model: Typer, types: Sequence[TypeSettings]) -> Tensor:
        """[K, H] the encoded names of types, with their descriptions where they or the recipe have some."""
        types = described(types, self.recipe.types)
        texts = [": ".join([t.keyword or spoken(t.name), *t.guidelines[:1]]) for t in types]
        rows = [np.array(ids, dtype=np.int64) for ids, _ in self.tokenizer.batch(texts)]
        longest = model.text_encoder.max_length
        for settings, row in zip(types, rows, strict=True):
            if len(row) + 2 > longest:
                what = f"has a description of {len(row)} sub-words"
                raise RecipeError(f"types: {settings.name}", what, f"keep it under {longest - 2}")
        lengths = np.array([len(row) for row in rows])
        order = list(forwards(np.arange(len(rows)), lengths, tokens_per_batch_of(model)))
        vectors = model.encode_names([self.padded([rows[i] for i in batch]) for batch in order])
        return vectors[torch.from_numpy(np.argsort(np.concatenate(order))).to(vectors.device)]


def _loss_among(logits: Tensor, right: Tensor, mentions: Tensor, types: Tensor | None) -> Tensor:
    """The loss over some mentions and some types."""
    columns = torch.arange(logits.shape[1], device=logits.device) if types is None else types
    places = [logits.new_full((size,), -1, dtype=torch.int64) for size in logits.shape]
    for place, chosen in zip(places, (mentions, columns), strict=True):
        place[chosen] = torch.arange(len(chosen), device=logits.device)
    moved = torch.stack([place[index] for place, index in zip(places, right.unbind(1), strict=True)], 1)
    inside = moved[(moved >= 0).all(1)]
    return typing_loss(logits[mentions][:, columns], inside)
