"""Predicting masked sub-words: a head between the encoder and its own word embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

from rayner.models.encoder import Encoder
from rayner.models.finite import check_finite
from rayner.models.sources import NO_CODE, WEIGHTS, locate

# Names of the dense layer, of the norm and of the bias over the vocabulary, by architecture.
_HEADS = (
    ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
)


class MaskedLanguageModel(nn.Module):
    """An encoder, and a dense layer, a norm and a bias before its word embeddings (Devlin et al. 2019).

    Args:
        text_encoder: encodes windows; its word embeddings are the output embeddings too.
        dropout: within the encoder.
    """

    def __init__(self, text_encoder: Encoder, dropout: float) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(dropout)
        vocabulary, width = self.embeddings.shape
        self.dense = nn.Linear(text_encoder.hidden_size, width)
        # Of BERT 1e-12, of RoBERTa 1e-5: with another number, the head of a checkpoint predicts otherwise.
        eps = getattr(text_encoder.model.config, "layer_norm_eps", 1e-12)
        self.norm = nn.LayerNorm(width, eps=eps)
        self.bias = nn.Parameter(self.embeddings.new_zeros(vocabulary))

    @property
    def embeddings(self) -> Tensor:
        """[V, E] of the words."""
        return self.text_encoder.model.get_input_embeddings().weight

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The last hidden states [B, L, H] of the windows `ids` [B, L], real where `mask`."""
        return self.text_encoder(ids, mask)

    def transform(self, hidden: Tensor) -> Tensor:
        """Hidden states [N, H] as they are compared with the word embeddings, [N, E]."""
        return self.norm(F.gelu(self.dense(hidden)))

    def load_head(self, name: str) -> bool:
        """Take the head of the checkpoint or the folder of this name, where it has one that fits.

        A Hugging Face model has one if it was saved as a model for masked language modelling (BERT, RoBERTa,
        DistilBERT and their kin).

        Raises:
            CheckpointError: the weights of the head are NaN or infinite.
        """
        weights = _head_of(name)
        wanted = {
            key: value for key, value in self.state_dict().items() if not key.startswith("text_encoder")
        }
        if weights is None or any(weights[key].shape != value.shape for key, value in wanted.items()):
            return False
        check_finite(weights, f"encoder: {name}")
        self.load_state_dict(weights, strict=False)
        return True


def _head_of(name: str) -> Mapping[str, Tensor] | None:
    source = locate(name)
    if source.kind == "hub":
        return _of_hub(source.name)
    path = source.folder / WEIGHTS
    if source.kind not in ("checkpoint", "folder") or not path.is_file():
        return None
    with safe_open(str(path), framework="pt") as file:
        names = set(file.keys())
        found = _names(names)
        return None if found is None else {key: file.get_tensor(stored) for key, stored in found.items()}


def _of_hub(name: str) -> Mapping[str, Tensor] | None:
    from transformers import AutoModelForMaskedLM

    try:
        found: Any = AutoModelForMaskedLM.from_pretrained(
            name, use_safetensors=True, output_loading_info=True, **NO_CODE
        )
    except (OSError, ValueError, KeyError):
        return None
    weights, missing = found[0].state_dict(), set(found[1]["missing_keys"])
    names = _names(set(weights) - missing)
    return None if names is None else {key: weights[stored] for key, stored in names.items()}


def _names(stored: set[str]) -> Mapping[str, str] | None:
    for dense, norm, bias in (("dense", "norm", "bias"), *_HEADS):
        names = {
            f"{own}.{part}": f"{name}.{part}"
            for own, name in (("dense", dense), ("norm", norm))
            for part in ("weight", "bias")
        } | {"bias": bias}
        if stored.issuperset(names.values()):
            return names
    return None
