"""The one seam to transformers: encoders by name, and their tokenizers."""

from __future__ import annotations

import re
from copy import copy
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rayner.config.base import Precision
from rayner.errors import CheckpointError, InputError, first_line, storage_error
from rayner.files.run_checkpoints import MANIFEST
from rayner.models.finite import check_finite
from rayner.models.precision import autocast
from rayner.models.sources import (
    ENCODER,
    NO_CODE,
    WEIGHTS,
    Source,
    locate,
    needs_code,
    verified_embedded_weights,
)
from rayner.models.tokenizer import Tokenizer, load_tokenizer, tokenizer_from

__all__ = [
    "Encoder",
    "Tokenizer",
    "encoder_from_config",
    "encoder_to_fill",
    "load_encoder",
    "load_tokenizer",
    "tokenizer_from",
]

_LENGTH_WITHOUT_LIMIT = 512
_PROBE = 8
_DRAWS = {"normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_"}
_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.")
_ANOTHER = "name an encoder such as BERT, RoBERTa, DeBERTa or ModernBERT"


class Encoder(nn.Module):
    """A transformer that maps sub-words to their last hidden states.

    `precision` is what it computes in, whoever calls it; what it gives is float32 for all but float64
    weights.

    Args:
        model: a bare model of transformers; its pooler, if any, is dropped, and BigBird attends to all.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        if getattr(model, "pooler", None) is not None:
            # Some (SqueezeBERT, LayoutLM) call it whatever is there.
            model.pooler = nn.Identity()
        if getattr(model, "attention_type", None) == "block_sparse":
            # BigBird reads a short text so, and then all that come after it.
            model.set_attention_type("original_full")
        self.model = model
        self.hidden_size: int = model.config.hidden_size
        self.max_length: int = max_length_of(model)
        self.precision: Precision = "float32"

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The last hidden states, [B, L, H], of `ids` [B, L], of which those under `mask` [B, L] are real.

        Raises:
            InputError: in float16, out of training, they are no finite numbers.
        """
        if self.precision == "float32":
            return self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        with autocast(ids.device, self.precision):
            states = self.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        # A step of training is skipped for that.
        if self.precision == "float16" and not self.training and not _are_finite(states, mask):
            what = "this encoder's activations are no finite numbers in it"
            raise InputError("precision float16", what, "take bfloat16 or float32")
        return states

    def set_dropout(self, rate: float) -> None:
        """Give every dropout of the encoder this rate; 0 makes training deterministic."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = rate
            # Some architectures (Longformer, ModernBERT) keep the rate of their attention in a number.
            for name, value in vars(module).items():
                if "dropout" in name and isinstance(value, float):
                    setattr(module, name, rate)

    def depths(self) -> dict[nn.Parameter, int]:
        """How many layers each parameter lies below the highest: 0 what is within or above that one."""
        layers = {p: _LAYER.search(name) for name, p in self.model.named_parameters()}
        top = max((int(found[1]) for found in layers.values() if found), default=-1)
        embeddings = {id(p) for p in getattr(self.model, "embeddings", nn.Module()).parameters()}
        return {
            p: top - int(found[1]) if found else (top + 1 if id(p) in embeddings else 0)
            for p, found in layers.items()
        }

    def enable_gradient_checkpointing(self) -> None:
        """Recompute activations in the backward pass instead of storing them.

        Raises:
            InputError: an architecture that cannot.
        """
        # transformers renamed it during version 5.
        enable = getattr(
            self.model, "activation_checkpointing_enable", self.model.gradient_checkpointing_enable
        )
        try:
            enable({"use_reentrant": False})
        except ValueError as error:
            raise InputError(
                "training.gradient_checkpointing", str(error), "leave it out, or take another encoder"
            ) from None

    def save(self, folder: str | Path) -> None:
        """Write `config.json`, with which transformers reads the weights that its owner writes beside it."""
        config = copy(self.model.config)
        config.architectures = [type(self.model).__name__]
        config.dtype = next(self.model.parameters()).dtype
        config.save_pretrained(str(folder))


def _are_finite(states: Tensor, mask: Tensor) -> bool:
    return bool((states.isfinite() | ~mask.bool()[..., None]).all())


def load_encoder(name: str) -> Encoder:
    """An encoder with its weights.

    Args:
        name: `all-MiniLM-L6-v2` (embedded), a Hugging Face id, a local folder in their format, a checkpoint
            folder of rayner, or `random:<hidden>x<layers>`, an untrained BERT over the embedded vocabulary.

    Raises:
        InputError: there is none under that name, it cannot be had from here, or it reads a text otherwise
            beside padding, or each word without those that follow.
        CheckpointError: a checkpoint or the embedded weights are damaged, or weights are NaN or infinite.
    """
    source = locate(name)
    if source.kind == "random":
        return _random(source)
    if source.kind == "embedded":
        return _with_weights(encoder_from_config(source.folder), verified_embedded_weights(), "")
    if source.kind == "checkpoint":
        encoder, weights = encoder_from_config(source.folder / ENCODER), source.folder / ENCODER / WEIGHTS
        if weights.is_file():
            return _with_weights(encoder, weights, "")
        # Checkpoints of format 1 have all weights in one file.
        return _with_weights(encoder, source.folder / WEIGHTS, "text_encoder.model.")
    if (source.folder.parent / MANIFEST).is_file() and (source.folder / WEIGHTS).is_file():
        # A further encoder of a checkpoint: transformers would say that weights of a pooler are missing.
        return _with_weights(encoder_from_config(source.folder), source.folder / WEIGHTS, "")
    return _pretrained(source)


def encoder_from_config(folder: str | Path) -> Encoder:
    """An encoder from the `config.json` in `folder`, with untrained weights; needs no network.

    Raises:
        CheckpointError: there is no such file, or it describes no encoder.
    """
    from transformers import AutoConfig, AutoModel

    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise CheckpointError(str(folder), "no config.json of an encoder", "give a whole checkpoint folder")
    try:
        config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(str(folder / "config.json"), first_line(error)) from error
    return Encoder(AutoModel.from_config(config, dtype=torch.float32, **NO_CODE))


def encoder_to_fill(folder: str | Path) -> Encoder:
    """As `encoder_from_config`, with whatever numbers memory holds: the caller fills in all weights.

    To draw 23 million that are replaced at once takes 0.2 s.
    """
    with _NoDraws():
        return encoder_from_config(folder)


class _NoDraws(TorchFunctionMode):
    """Random numbers are not drawn, in this thread."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func.__name__ not in _DRAWS:
            return func(*args, **given)
        return args[0] if args else given["tensor"]


def _pretrained(source: Source) -> Encoder:
    from transformers import AutoModel

    place = str(source.folder) if source.kind == "folder" else source.name
    try:
        model = AutoModel.from_pretrained(place, dtype=torch.float32, use_safetensors=True, **NO_CODE)
    except (OSError, ValueError, KeyError) as error:
        if failure := needs_code(f"encoder: {source.name}", error):
            raise failure from error
        # A path that was mistyped is taken for an id.
        absent = "no such folder, and " if source.kind == "hub" else ""
        raise InputError(
            f"encoder: {source.name}",
            f"{absent}no model to be had ({first_line(error)})",
            "give a folder with config.json and model.safetensors, or fetch it where there is a network",
        ) from error
    if getattr(model.config, "is_encoder_decoder", False):
        raise InputError(
            f"encoder: {source.name}", "it has a decoder", "name a model that is an encoder alone"
        )
    encoder = Encoder(model)
    check_finite(encoder.model.state_dict(), f"encoder: {source.name}")
    _probe(encoder, f"encoder: {source.name}")
    return encoder


@torch.no_grad()
def _probe(encoder: Encoder, where: str) -> None:
    """Refuse a model whose answer to a text depends on the padding beside it, or that reads one way only.

    Some architectures do so by design (convolutions, landmarks over the length), which no setting tells.
    """
    config, training = encoder.model.config, encoder.training
    length = min(_PROBE, encoder.max_length // 2)
    text = torch.arange(5, 5 + length)[None] % config.vocab_size
    padded = torch.full((2, 2 * length), max(getattr(config, "pad_token_id", None) or 0, 0))
    padded[:, :length] = text
    padded[1, 1:length] = text[:, 1:].flip(1)
    mask = torch.arange(2 * length)[None].expand(2, -1) < length
    encoder.eval()
    try:
        alone, (beside, other) = encoder(text, text >= 0)[0], encoder(padded, mask)[:, :length]
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
        what = f"cannot read a text of {length} sub-words ({first_line(error)})"
        raise InputError(where, what, _ANOTHER) from error
    finally:
        encoder.train(training)
    scale = 1 + alone.abs().max()
    if (beside[0] - other[0]).abs().max() <= 1e-7 * scale:
        raise InputError(where, "a word is read without those that follow it", _ANOTHER)
    if (alone - beside).abs().max() > 1e-4 * scale:
        raise InputError(where, "padding changes how it reads a text", _ANOTHER)


def _random(source: Source) -> Encoder:
    from transformers import BertConfig, BertModel

    hidden, layers = source.shape
    config = BertConfig(
        vocab_size=len(tokenizer_from(source.folder)),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=2 if hidden % 2 == 0 else 1,
        intermediate_size=2 * hidden,
    )
    return Encoder(BertModel(config, add_pooling_layer=False))


def _with_weights(encoder: Encoder, path: Path, prefix: str) -> Encoder:
    wanted = encoder.model.state_dict()
    try:
        with safe_open(str(path), framework="pt") as file:
            stored = set(file.keys())
            missing = sorted(k for k in wanted if prefix + k not in stored)
            if missing:
                raise CheckpointError(
                    str(path), f"no weights of the encoder: {prefix}{missing[0]} is missing"
                )
            weights = {k: file.get_tensor(prefix + k) for k in wanted}
            check_finite({prefix + k: weight for k, weight in weights.items()}, path)
            encoder.model.load_state_dict(weights)
    except (OSError, SafetensorError, RuntimeError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        raise CheckpointError(
            str(path), f"weights that do not fit ({error})", "fetch the folder again"
        ) from error
    return encoder


def max_length_of(model: nn.Module) -> int:
    """Sub-words, special tokens included, that a model of transformers has positions for."""
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is None or limit <= 0:
        return _LENGTH_WITHOUT_LIMIT
    # RoBERTa and its kin number positions from padding_idx + 1.
    positions = [m for name, m in model.named_modules() if name.endswith("position_embeddings")]
    padding = getattr(positions[0], "padding_idx", None) if positions else None
    return limit if padding is None else limit - padding - 1
