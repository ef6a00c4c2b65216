"""What makes a standardizer's checkpoint a model of sentence-transformers: `SentenceTransformer(RUN/best)`.

Its modules name the weights that lie in the checkpoint anyway. Class names and keys are those of its versions
before 5, which later ones read too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from rayner.config import NameEncoderSettings
from rayner.models.sources import ENCODER

DENSE, DENSE_PREFIX = "2_Dense", "linear."
"""Where it looks for the projection, and what precedes the names of its weights."""


def write_modules(
    folder: Path, settings: NameEncoderSettings, hidden_size: int, max_length: int, distance: str
) -> None:
    """Describe a name encoder: encoder, pooling, projection, normalization.

    Args:
        hidden_size: of the encoder.
        max_length: in sub-words, with the special tokens; sentence-transformers cuts what is longer.
        distance: that names are compared by.
    """
    pooling = {
        f"pooling_mode_{name}": settings.pooling == how
        for name, how in (("cls_token", "cls"), ("mean_tokens", "mean"), ("max_tokens", "max"))
    }
    modules = [("Transformer", ENCODER), ("Pooling", "1_Pooling")]
    _write(folder / ENCODER / "sentence_bert_config.json", {"max_seq_length": max_length})
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden_size, **pooling})
    if settings.projection_size is not None:
        modules.append(("Dense", DENSE))
        dense = {
            "in_features": hidden_size,
            "out_features": settings.projection_size,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        _write(folder / DENSE / "config.json", dense)
    if settings.normalize:
        modules.append(("Normalize", "3_Normalize"))
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (name, path) in enumerate(modules)
    ]
    _write(folder / "modules.json", listed)
    similarity: Literal["cosine", "euclidean"] = "cosine" if distance == "cosine" else "euclidean"
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": similarity})


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
