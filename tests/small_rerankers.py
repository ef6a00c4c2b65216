"""Rerankers in the format of transformers, small and untrained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

LETTERS = "abcdefghijklmnopqrstuvwxyzADGIKQRVWY.,:!?"


def cross_encoder(folder: Path, labels: int = 1) -> Path:
    """A BERT with a head, over letters."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = [*special, *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "came", "Ada"]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    fast = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    config: Any = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=96,
        initializer_range=0.5,
    )
    config.num_labels = labels
    return _saved(
        folder,
        BertForSequenceClassification,
        config,
        PreTrainedTokenizerFast(
            tokenizer_object=fast,
            model_input_names=inputs,
            cls_token="[CLS]",
            sep_token="[SEP]",
            pad_token="[PAD]",
            unk_token="[UNK]",
        ),
    )


def t5(folder: Path, words: tuple[str, ...] = ("true", "false"), length: int = 96) -> Path:
    """A T5 over letters and some words, whose tokenizer works as the published one does."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [(letter, -3.0) for letter in LETTERS]
    pieces += [(f"▁{word}", -1.0) for word in (*words, "Query:", "Relevant:", "the", "came", "Ada")]
    fast = Tokenizer(models.Unigram(pieces, unk_id=2))
    fast.normalizer = normalizers.Replace("''", '"')
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    fast.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=length,
        model_input_names=["input_ids", "attention_mask"],
    )
    config: Any = T5Config(
        vocab_size=len(pieces),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        initializer_factor=2.0,
    )
    config.decoder_start_token_id = 0
    return _saved(folder, T5ForConditionalGeneration, config, tokenizer)


def _saved(folder: Path, model: Any, config: Any, tokenizer: Any) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model(config).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder
