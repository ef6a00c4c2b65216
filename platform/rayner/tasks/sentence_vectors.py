"""A vector for each of many sentences, by an encoder that was not trained for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rayner.data.batches import forwards, tokens_per_batch_of
from rayner.models.encoder import Encoder, Tokenizer
from rayner.models.name_encoder import pool
from rayner.retrieval.document_sentences import blocks
from rayner.tasks.document_windows import SPECIAL_TOKENS, with_special_tokens

LONGEST = 128
"""Sub-words of a sentence that are read, special tokens included: for a search, its beginning does."""

_AT_ONCE = 4096
"""Texts whose sub-words are in memory at a time."""


@torch.inference_mode()
def sentence_vectors(encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """float32 [N, H]: the mean of the hidden states of each text.

    Args:
        encoder: in evaluation mode.
    """
    room = min(encoder.max_length, LONGEST) - SPECIAL_TOKENS
    vectors = np.empty((len(texts), encoder.hidden_size), np.float32)
    device = next(encoder.parameters()).device
    special = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    for block in blocks(len(texts), _AT_ONCE):
        rows = [np.array(ids[:room], np.int64) for ids, _ in tokenizer.batch(texts[block])]
        lengths = np.array([len(row) + SPECIAL_TOKENS for row in rows])
        for batch in forwards(np.arange(len(rows)), lengths, tokens_per_batch_of(encoder)):
            ids = torch.from_numpy(with_special_tokens([rows[place] for place in batch], *special))
            mask = torch.arange(ids.shape[1]) < torch.from_numpy(lengths[batch])[:, None]
            ids, mask = ids.to(device), mask.to(device)
            vectors[block.start + batch] = pool(encoder(ids, mask), mask, "mean").float().cpu().numpy()
    return vectors
