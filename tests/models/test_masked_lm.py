"""The head of masked language modelling: new, or the one that a checkpoint brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from rayner.models.encoder import Encoder, load_encoder, load_tokenizer
from rayner.models.masked_lm import MaskedLanguageModel

SIZES: dict[str, Any] = {
    "vocab_size": 30522, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 32, "pad_token_id": 0,
}  # fmt: skip


def folder_of(kind: str, folder: Path) -> tuple[Path, torch.nn.Module]:
    """A model for masked language modelling as transformers saves it, with a bias that is not zero."""
    from transformers import BertConfig, BertForMaskedLM, RobertaConfig, RobertaForMaskedLM

    torch.manual_seed(1)
    if kind == "bert":
        model = BertForMaskedLM(BertConfig(**SIZES))
        torch.nn.init.normal_(model.cls.predictions.bias)
    else:
        # As roberta-base and roberta-large are published, unlike the default of the class.
        model = RobertaForMaskedLM(RobertaConfig(**SIZES, layer_norm_eps=1e-5))
        torch.nn.init.normal_(model.lm_head.bias)
    model.save_pretrained(folder)
    load_tokenizer("random:16x1").save(folder)
    return folder, model.eval()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_head_of_a_folder_gives_the_logits_of_its_model(kind: str, tmp_path: Path) -> None:
    folder, theirs = folder_of(kind, tmp_path)
    ours = MaskedLanguageModel(load_encoder(str(folder)), 0.0).eval()
    assert ours.load_head(str(folder))
    ids = torch.tensor([[101, 2054, 103, 2003, 102]])
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        found = F.linear(ours.transform(ours(ids, ids > 0)), ours.embeddings, ours.bias)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "random:16x1"])
def test_an_encoder_without_a_head_gets_a_new_one(name: str) -> None:
    model = MaskedLanguageModel(load_encoder("random:16x1"), 0.0)
    assert not model.load_head(name)


def test_a_folder_whose_head_has_another_size_is_passed_by(tmp_path: Path) -> None:
    folder, _ = folder_of("bert", tmp_path)
    model = MaskedLanguageModel(load_encoder("random:32x1"), 0.0)
    before = model.dense.weight.clone()
    assert not model.load_head(str(folder))
    assert torch.equal(model.dense.weight, before)


def test_the_output_embedding_is_that_of_the_words() -> None:
    model = MaskedLanguageModel(load_encoder("random:16x1"), 0.0)
    assert isinstance(model.text_encoder, Encoder)
    assert model.embeddings is model.text_encoder.model.get_input_embeddings().weight
    assert sum(p.numel() for p in model.parameters()) == sum(
        p.numel() for p in model.text_encoder.parameters()
    ) + 16 * 16 + 3 * 16 + len(model.embeddings)
