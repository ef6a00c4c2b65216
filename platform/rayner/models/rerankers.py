"""Pre-trained rerankers of Hugging Face: a cross-encoder (MonoBERT) or a T5 (MonoT5), and how each reads a
pair of texts."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from rayner.config.base import Precision
from rayner.errors import InputError, first_line, storage_error
from rayner.models.encoder import max_length_of
from rayner.models.finite import check_finite
from rayner.models.precision import autocast, round_weights
from rayner.models.ranker import lengths_that_fit
from rayner.models.sources import NO_CODE, needs_code
from rayner.models.threads import heed_quota
from rayner.models.tokenizer import fast_tokenizer

LONGEST = 512
"""Sub-words of a pair, special tokens included, where the model itself would take more."""
PROMPT = ("Query:", "Document:", "Relevant:")
"""What a T5 reads before the sentence, between the two, and after the context (MonoT5)."""
ANSWERS = ("false", "true")
"""The first word that a T5 writes."""
_ANOTHER = "name a cross-encoder with one or two labels, or a T5 reranker such as MonoT5"


class ReadPair(NamedTuple):
    """A pair as the model reads it: its sub-words [L] with all that is around them, their segments [L], and
    how many sub-words of the texts did not fit."""

    ids: np.ndarray
    types: np.ndarray
    cut: int


class _Around(NamedTuple):
    """Sub-words and segments of what is before, between and after two texts, and the segments of these."""

    ids: tuple[Sequence[int], Sequence[int], Sequence[int]]
    types: tuple[Sequence[int], Sequence[int], Sequence[int]]
    of_texts: tuple[int, int]


class PretrainedReranker(nn.Module, ABC):
    """Scores pairs of a sentence and a context, from 0 to 1.

    Args:
        model: of transformers.
        tokenizer: the model's, of transformers.
        where: names it in errors.

    Raises:
        InputError: the tokenizer cannot be used, or what the model answers depends on padding.
    """

    def __init__(self, model: Any, tokenizer: Any, where: str) -> None:
        super().__init__()
        self.model, self.where = model.eval(), where
        self._precision: Precision = "float32"
        self._tokenizer = tokenizer
        self._fast = tokenizers.Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._fast.no_truncation()
        self._fast.no_padding()
        padding = (tokenizer.pad_token_id, model.config.pad_token_id)
        found = [number for number in padding if number is not None]
        if not found:
            raise InputError(where, "its tokenizer has no padding token", _ANOTHER)
        self._padding = found[0]
        self._around = self._find_around()
        self.length = min(LONGEST, max_length_of(model), tokenizer.model_max_length)
        if self.length < sum(map(len, self._around.ids)) + 2:
            raise InputError(where, f"{self.length} sub-words are no room for a pair", _ANOTHER)
        taken = inspect.signature(model.forward).parameters
        self._has_types = "token_type_ids" in tokenizer.model_input_names and "token_type_ids" in taken
        self._probe()

    def subwords(self, text: str) -> list[int]:
        """Those of a text, without special tokens."""
        return self._fast.encode(" ".join(text.split()), add_special_tokens=False).ids

    def pair(self, sentence: Sequence[int], context: Sequence[int]) -> ReadPair:
        """The pair as the model reads it: of a longer one the longer side is cut at its end."""
        around = self._around
        one, other = lengths_that_fit(len(sentence), len(context), self.length - sum(map(len, around.ids)))
        parts = (around.ids[0], sentence[:one], around.ids[1], context[:other], around.ids[2])
        of_texts = [around.of_texts[0]] * one, [around.of_texts[1]] * other
        types = (around.types[0], of_texts[0], around.types[1], of_texts[1], around.types[2])
        return ReadPair(
            np.array([number for part in parts for number in part], np.int64),
            np.array([number for part in types for number in part], np.int64),
            len(sentence) + len(context) - one - other,
        )

    def forward(self, pairs: Sequence[ReadPair]) -> Tensor:
        """The scores [B] of pairs, in float64: in float32 all from a log odds of 17 on are 1."""
        device = self.model.device
        width = max(len(pair.ids) for pair in pairs)
        ids = np.full((len(pairs), width), self._padding)
        types, mask = np.zeros_like(ids), np.zeros_like(ids)
        for row, pair in enumerate(pairs):
            size = len(pair.ids)
            ids[row, :size], types[row, :size], mask[row, :size] = pair.ids, pair.types, 1
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self._has_types:
            inputs["token_type_ids"] = types
        with autocast(device, self._precision):
            return self._scores({name: torch.from_numpy(rows).to(device) for name, rows in inputs.items()})

    def compute_in(self, precision: Precision) -> None:
        """Score in this precision from now on; the weights are rounded for good."""
        self._precision = precision
        round_weights(self.model, precision)

    def save(self, folder: Path) -> None:
        """Write model and tokenizer in the format of transformers."""
        self.model.save_pretrained(str(folder))
        self._tokenizer.save_pretrained(str(folder))

    @abstractmethod
    def _find_around(self) -> _Around:
        """What is around the texts of a pair."""

    @abstractmethod
    def _scores(self, inputs: dict[str, Tensor]) -> Tensor:
        """The scores [B] of padded pairs."""

    @torch.no_grad()
    def _probe(self) -> None:
        """Refuse a model whose answer to a pair depends on the padding beside it."""
        texts = [self.subwords(text) for text in ("It rained in the town.", "Yes.", "No one came. " * 3)]
        pairs = [self.pair(texts[0], texts[1]), self.pair(texts[0], texts[2])]
        try:
            alone, beside = self(pairs[:1])[0], self(pairs)[0]
        except (RuntimeError, ValueError, IndexError) as error:
            what = f"cannot read a pair ({first_line(error)})"
            raise InputError(self.where, what, _ANOTHER) from error
        if (alone - beside).abs() > 1e-4:
            raise InputError(self.where, "padding changes how it reads a pair", _ANOTHER)


class PretrainedCrossEncoder(PretrainedReranker):
    """Both texts in one sequence, then a head: of one logit the sigmoid, of two the softmax of the second."""

    def _find_around(self) -> _Around:
        found = self._fast.encode("a", "a")
        sides = found.sequence_ids
        first, second = ([i for i, side in enumerate(sides) if side == number] for number in (0, 1))
        if not first or not second or first[-1] > second[0]:
            raise InputError(self.where, "its tokenizer does not say how a pair is read", _ANOTHER)
        cuts = ((0, first[0]), (first[-1] + 1, second[0]), (second[-1] + 1, len(sides)))
        ids, types = ([values[i:j] for i, j in cuts] for values in (found.ids, found.type_ids))
        return _Around(
            (ids[0], ids[1], ids[2]),
            (types[0], types[1], types[2]),
            (found.type_ids[first[0]], found.type_ids[second[0]]),
        )

    def _scores(self, inputs: dict[str, Tensor]) -> Tensor:
        logits = self.model(**inputs).logits.double()
        return logits[:, 0].sigmoid() if logits.shape[1] == 1 else logits.softmax(1)[:, 1]


class PretrainedT5(PretrainedReranker):
    """`Query: SENTENCE Document: CONTEXT Relevant:`, and how much more probable `true` is than `false` as the
    first word of the answer."""

    def _find_around(self) -> _Around:
        parts = [self.subwords(part) for part in PROMPT]
        given, special = self._fast.encode(PROMPT[2]).ids, len(parts[2])
        end = given[special:] if given[:special] == parts[2] else []
        words = [self.subwords(word) for word in ANSWERS]
        if any(len(word) != 1 for word in words) or words[0] == words[1]:
            raise InputError(self.where, f"{' or '.join(ANSWERS)} is no sub-word of its tokenizer", _ANOTHER)
        self._answers = [word[0] for word in words]
        config = self.model.generation_config, self.model.config
        starts = [getattr(one, "decoder_start_token_id", None) for one in config]
        self._start = next((start for start in starts if start is not None), self._padding)
        texts = "It rained in the town.", "Was it wet?"
        whole = self._fast.encode(f"{PROMPT[0]} {texts[0]} {PROMPT[1]} {texts[1]} {PROMPT[2]}").ids
        one, other = map(self.subwords, texts)
        if whole != [*parts[0], *one, *parts[1], *other, *parts[2], *end]:
            what = "its tokenizer does not cut at spaces, or begins with a special token"
            raise InputError(self.where, what, _ANOTHER)
        after = [*parts[2], *end]
        zeros = [0] * len(parts[0]), [0] * len(parts[1]), [0] * len(after)
        return _Around((parts[0], parts[1], after), zeros, (0, 0))

    def _scores(self, inputs: dict[str, Tensor]) -> Tensor:
        start = torch.full_like(inputs["input_ids"][:, :1], self._start)
        logits = self.model(**inputs, decoder_input_ids=start, use_cache=False).logits
        return logits[:, 0, self._answers].double().softmax(1)[:, 1]


def load_reranker(name: str) -> PretrainedReranker:
    """A reranker with its weights.

    Args:
        name: a local folder in the format of transformers, or a Hugging Face id.

    Raises:
        InputError: there is none under that name, it cannot be had from here, it is another model than a
            cross-encoder with one or two labels or a T5 reranker, or its tokenizer cannot be used.
        CheckpointError: weights are NaN or infinite.
        StorageError: the files cannot be read now.
    """
    from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

    heed_quota()
    kind, where = kind_of_reranker(name), f"ranker: {name}"
    factory: Any = {
        PretrainedCrossEncoder: AutoModelForSequenceClassification,
        PretrainedT5: AutoModelForSeq2SeqLM,
    }[kind]
    try:
        model, loading = factory.from_pretrained(
            name,
            dtype=torch.float32,
            use_safetensors=True,
            output_loading_info=True,
            **NO_CODE,
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise _failure(name, where, error) from error
    if missing := sorted(loading["missing_keys"]):
        what = f"has no head that scores pairs: {missing[0]} is missing"
        raise InputError(where, what, _ANOTHER)
    check_finite(model.state_dict(), where)
    return kind(model, fast_tokenizer(name, where), where)


def kind_of_reranker(name: str, key: str = "ranker") -> type[PretrainedReranker]:
    """What the configuration of a model says that it is; its weights are not read.

    Args:
        key: that which names the model, for errors.

    Raises:
        InputError, StorageError: as `load_reranker`.
    """
    from transformers import AutoConfig

    where = f"{key}: {name}"
    try:
        config: Any = AutoConfig.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise _failure(name, where, error) from error
    names = config.architectures or [config.model_type]
    if any(one.endswith("ForSequenceClassification") for one in names):
        if config.num_labels not in (1, 2):
            raise InputError(where, f"has {config.num_labels} labels", _ANOTHER)
        return PretrainedCrossEncoder
    if getattr(config, "is_encoder_decoder", False):
        return PretrainedT5
    raise InputError(where, f"is a {names[0]}, which scores no pairs", _ANOTHER)


def _failure(name: str, where: str, error: Exception) -> Exception:
    found = needs_code(where, error) or storage_error(where, "cannot be read", error)
    what = (
        "no model to be had" if Path(name).is_dir() else "no such folder, and no model to be had by that id"
    )
    hint = "give a folder with config.json and model.safetensors, or fetch it where there is a network"
    return found or InputError(where, f"{what} ({first_line(error)})", hint)
