"""Strings of any length as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from rayner.data.batches import forwards
from rayner.models.name_encoder import NameEncoder
from rayner.tasks.document_windows import SPECIAL_TOKENS
from rayner.tasks.sharing import blocks, fill

LONGEST = 126
"""Sub-words of a string that are read together; the training leaves the rest out, and says so."""
TOKENS_PER_CHUNK, TOKENS_PER_CHUNK_ON_GPU = 1024, 16_384
"""Small chunks have little padding; a GPU wants large ones all the same."""
STRINGS_AT_ONCE = 1024
"""Strings that are tokenized together."""


def encode_texts(
    model: NameEncoder,
    texts: Sequence[str],
    tokenize: Callable[[Sequence[str]], Sequence[Sequence[int]]],
    padded: Callable[[Sequence[np.ndarray]], tuple[Tensor, Tensor]],
    together: bool = False,
) -> np.ndarray:
    """Vectors [N, D] float32; equal strings are encoded once, those of about equal length together.

    A string of more than `LONGEST` sub-words is read in parts; its vector is their mean, by sub-words, of
    length 1 where those of the model are.

    Args:
        tokenize: strings -> the sub-words of each, at least one.
        padded: rows of sub-words -> ids and mask [B, L], with special tokens.
        together: whether all workers of a training call this with the same texts: each encodes some of the
            batches, which are those of one worker.
    """
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    distinct, known = list(place), dict[int, np.ndarray]()

    def sizes_of(strings: np.ndarray) -> Tensor:
        if new := [i for i in strings.tolist() if i not in known]:
            rows = (np.array(ids, np.int32) for ids in tokenize([distinct[i] for i in new]))
            known.update(zip(new, rows, strict=True))
        return torch.tensor([len(known[i]) for i in strings.tolist()], dtype=torch.int64)

    sizes = torch.empty(len(distinct), dtype=torch.int64)
    fill(sizes, blocks(len(distinct), STRINGS_AT_ONCE), sizes_of, together)
    parts = [(i, at) for i, size in enumerate(sizes.tolist()) for at in range(0, size, LONGEST)]
    of, begins = np.array(parts, np.int64).reshape(-1, 2).T
    lengths = np.minimum(sizes.numpy()[of] - begins, LONGEST) + SPECIAL_TOKENS
    device, was_training = next(model.parameters()).device, model.training

    def vectors_of(chosen: np.ndarray) -> Tensor:
        # Another worker may have counted their sub-words.
        sizes_of(np.unique(of[chosen]))
        rows = [known[i][at : at + LONGEST] for i, at in zip(of[chosen], begins[chosen], strict=True)]
        ids, mask = padded(rows)
        return model(ids.to(device), mask.to(device)).float().cpu()

    found = torch.empty(len(parts), model.size)
    budget = TOKENS_PER_CHUNK_ON_GPU if device.type == "cuda" else TOKENS_PER_CHUNK
    model.eval()
    with torch.inference_mode():
        fill(found, forwards(np.arange(len(parts)), lengths, budget), vectors_of, together)
    model.train(was_training)
    vectors = found.numpy()
    if len(parts) > len(place):
        vectors = _means(vectors, of, lengths - SPECIAL_TOKENS, model.settings.normalize)
    # As many as a large knowledge base has are not copied without need.
    return vectors if len(place) == len(texts) else vectors[[place[text] for text in texts]]


def _means(vectors: np.ndarray, of: np.ndarray, sizes: np.ndarray, normalize: bool) -> np.ndarray:
    """The means [N, D] of parts [M, D] by their sizes; what has one part keeps its vector exactly."""
    shares = (sizes / np.bincount(of, sizes)[of]).astype(np.float32)
    means = np.zeros((of[-1] + 1, vectors.shape[1]), np.float32)
    np.add.at(means, of, shares[:, None] * vectors)
    if normalize:
        several = np.bincount(of) > 1
        means[several] /= np.linalg.norm(means[several], axis=1, keepdims=True)
    return means
