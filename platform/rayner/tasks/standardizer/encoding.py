"""Strings of any length as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from rayner.data.batches import forwards
from rayner.models.name_encoder import NameEncoder
from rayner.tasks.document_windows import SPECIAL_TOKENS

LONGEST = 126
"""Sub-words of a string that are read together; the training leaves the rest out, and says so."""
TOKENS_PER_CHUNK, TOKENS_PER_CHUNK_ON_GPU = 1024, 16_384
"""Small chunks have little padding; a GPU wants large ones all the same."""


def encode_texts(
    model: NameEncoder,
    texts: Sequence[str],
    tokenize: Callable[[Sequence[str]], Sequence[Sequence[int]]],
    padded: Callable[[Sequence[np.ndarray]], tuple[Tensor, Tensor]],
) -> np.ndarray:
    """Vectors [N, D] float32; equal strings are encoded once, those of about equal length together.

    A string of more than `LONGEST` sub-words is read in parts; its vector is their mean, by sub-words, of
    length 1 where those of the model are.

    Args:
        tokenize: strings -> the sub-words of each, at least one.
        padded: rows of sub-words -> ids and mask [B, L], with special tokens.
    """
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    tokenized = tokenize(list(place))
    parts = [
        (i, np.array(ids[at : at + LONGEST], np.int32))
        for i, ids in enumerate(tokenized)
        for at in range(0, len(ids), LONGEST)
    ]
    rows = [row for _, row in parts]
    lengths = np.array([len(row) + SPECIAL_TOKENS for row in rows])
    vectors = np.empty((len(rows), model.size), np.float32)
    device, was_training = next(model.parameters()).device, model.training
    budget = TOKENS_PER_CHUNK_ON_GPU if device.type == "cuda" else TOKENS_PER_CHUNK
    model.eval()
    with torch.inference_mode():
        for chosen in forwards(np.arange(len(rows)), lengths, budget):
            ids, mask = padded([rows[i] for i in chosen])
            vectors[chosen] = model(ids.to(device), mask.to(device)).float().cpu().numpy()
    model.train(was_training)
    if len(rows) > len(place):
        of = np.array([i for i, _ in parts])
        vectors = _means(vectors, of, lengths - SPECIAL_TOKENS, model.settings.normalize)
    return vectors[[place[text] for text in texts]]


def _means(vectors: np.ndarray, of: np.ndarray, sizes: np.ndarray, normalize: bool) -> np.ndarray:
    """The means [N, D] of parts [M, D] by their sizes; what has one part keeps its vector exactly."""
    shares = (sizes / np.bincount(of, sizes)[of]).astype(np.float32)
    means = np.zeros((of[-1] + 1, vectors.shape[1]), np.float32)
    np.add.at(means, of, shares[:, None] * vectors)
    if normalize:
        several = np.bincount(of) > 1
        means[several] /= np.linalg.norm(means[several], axis=1, keepdims=True)
    return means
