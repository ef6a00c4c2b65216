"""Rerankers of Hugging Face against a plain loop that gives transformers one pair after another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForTokenClassification,
    BertModel,
    T5EncoderModel,
)

from rayner.errors import CheckpointError, InputError, StorageError
from rayner.models.rerankers import PretrainedCrossEncoder, PretrainedT5, load_reranker
from tests.small_rerankers import cross_encoder, t5

SENTENCES = ("Ada came.", "the whale, the sea!", "It rained   in the\nold town and nobody saw him")
CONTEXTS = ("He slept.", "''Ada was a poet'', said the king to the maid.", "Yes", "Ada came.")
PAIRS = [(sentence, context) for sentence in SENTENCES for context in CONTEXTS]
MODELS: dict[str, Callable[[Path], Path]] = {
    "one label": lambda folder: cross_encoder(folder, 1),
    "two labels": lambda folder: cross_encoder(folder, 2),
    "T5": t5,
}


@torch.no_grad()
def by_hand(folder: Path, sentence: str, context: str) -> float:
    """The score as the papers' code computes it, for one pair of which nothing is cut."""
    sentence, context = (" ".join(text.split()) for text in (sentence, context))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    if json.loads((folder / "config.json").read_text())["model_type"] == "bert":
        model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        logits = model(**tokenizer(sentence, context, return_tensors="pt")).logits[0]
        return float(logits[0].sigmoid() if len(logits) == 1 else logits.softmax(0)[1])
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    prompt = tokenizer(f"Query: {sentence} Document: {context} Relevant:", return_tensors="pt")
    logits = model(**prompt, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    words = tokenizer.convert_tokens_to_ids(["▁false", "▁true"])
    return float(logits[words].softmax(0)[1])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("rerankers")
    return {name: make(folder / name) for name, make in MODELS.items()}


@pytest.mark.parametrize("name", list(MODELS))
def test_a_batch_of_pairs_has_the_scores_of_a_plain_loop(folders: dict[str, Path], name: str) -> None:
    reranker = load_reranker(str(folders[name]))
    assert type(reranker) is (PretrainedT5 if name == "T5" else PretrainedCrossEncoder)
    pairs = [reranker.pair(reranker.subwords(one), reranker.subwords(other)) for one, other in PAIRS]
    with torch.inference_mode():
        scores = reranker(pairs)
    expected = torch.tensor([by_hand(folders[name], *pair) for pair in PAIRS], dtype=torch.float64)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=0)
    assert scores.dtype == torch.float64
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert scores.std() > 1e-3, "all scores alike would prove nothing"
    assert not any(pair.cut for pair in pairs)


@pytest.mark.parametrize("name", list(MODELS))
def test_of_a_long_pair_the_longer_side_is_cut_and_the_rest_stays(
    folders: dict[str, Path], name: str
) -> None:
    reranker = load_reranker(str(folders[name]))
    short, long = reranker.subwords("Ada came."), reranker.subwords("the whale, " * 100)
    empty = len(reranker.pair([], []).ids)
    for sentence, context in ((short, long), (long, short), (long, long)):
        pair = reranker.pair(sentence, context)
        assert len(pair.ids) == len(pair.types) == reranker.length == 96
        assert pair.cut == len(sentence) + len(context) + empty - 96
        around = reranker.pair([], []).ids
        assert pair.ids[-1] == around[-1]
        assert pair.ids[0] == around[0]
    kept = reranker.pair(short, long)
    start = kept.ids.tolist().index(short[0])
    assert kept.ids[start : start + len(short)].tolist() == short
    both = reranker.pair(long, long)
    assert both.cut == 2 * len(long) + empty - 96


@pytest.mark.parametrize("name", list(MODELS))
def test_in_bfloat16_scores_are_near_those_of_float32(folders: dict[str, Path], name: str) -> None:
    rerankers = [load_reranker(str(folders[name])) for _ in range(2)]
    rerankers[1].compute_in("bfloat16")
    linear = [module for module in rerankers[1].modules() if isinstance(module, torch.nn.Linear)]
    assert {module.weight.dtype for module in linear} == {torch.bfloat16}
    pairs = [rerankers[0].pair(*map(rerankers[0].subwords, pair)) for pair in PAIRS]
    with torch.inference_mode():
        exact, rounded = (reranker(pairs) for reranker in rerankers)
    assert rounded.dtype == torch.float64
    assert 0 < (exact - rounded).abs().max() < 0.05


def test_high_scores_are_told_apart(folders: dict[str, Path]) -> None:
    reranker = load_reranker(str(folders["one label"]))
    before = reranker([reranker.pair(*map(reranker.subwords, pair)) for pair in PAIRS])
    with torch.no_grad():
        reranker.model.classifier.bias += 20
    after = reranker([reranker.pair(*map(reranker.subwords, pair)) for pair in PAIRS])
    assert after.argsort().equal(before.argsort())
    assert len(after.unique()) == len(before.unique())


def test_segments_are_those_of_the_tokenizer(folders: dict[str, Path]) -> None:
    reranker = load_reranker(str(folders["one label"]))
    pair = reranker.pair(reranker.subwords("Ada came."), reranker.subwords("the sea"))
    tokenizer: Any = AutoTokenizer.from_pretrained(folders["one label"])
    expected = tokenizer("Ada came.", "the sea")
    assert (pair.ids.tolist(), pair.types.tolist()) == (expected["input_ids"], expected["token_type_ids"])


def test_what_is_saved_scores_the_same(folders: dict[str, Path], tmp_path: Path) -> None:
    for name, folder in folders.items():
        reranker = load_reranker(str(folder))
        reranker.save(tmp_path / name)
        again = load_reranker(str(tmp_path / name))
        pair = [reranker.pair(reranker.subwords("Ada came."), reranker.subwords("the sea"))]
        assert torch.equal(reranker(pair), again(pair))


def other_head(model: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        model.from_pretrained(folder).save_pretrained(folder)

    return write


def without_its_head(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if "classifier" not in k},
        folder / "model.safetensors",
        {"format": "pt"},
    )


def without_tokenizer(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()


def cut_short(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:2000])


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (cross_encoder, other_head(BertModel), "is a BertModel, which scores no pairs"),
        (cross_encoder, other_head(BertForTokenClassification), "is a BertForTokenClassification, which"),
        (t5, other_head(T5EncoderModel), "is a T5EncoderModel, which scores no pairs"),
        (lambda f: cross_encoder(f, 3), lambda _: None, "has 3 labels"),
        (cross_encoder, without_its_head, "no head that scores pairs: classifier.bias is missing"),
        (cross_encoder, without_tokenizer, "tokenizer"),
        (cross_encoder, cut_short, "no model to be had"),
        (lambda f: t5(f, ("yes", "no")), lambda _: None, "false or true is no sub-word"),
        (lambda f: t5(f, length=8), lambda _: None, "8 sub-words are no room for a pair"),
    ],
)
def test_what_cannot_score_pairs_is_one_clear_line(
    tmp_path: Path, make: Callable[[Path], Path], change: Callable[[Path], None], message: str
) -> None:
    folder = make(tmp_path / "model")
    change(folder)
    with pytest.raises(InputError, match=message) as error:
        load_reranker(str(folder))
    assert str(error.value).startswith(f"ranker: {folder}: ")
    assert "\n" not in str(error.value)
    assert error.value.hint


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.weight"][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"classifier\.weight is NaN or infinite in 1 of 16 values"):
        load_reranker(str(folder))


def test_an_id_that_cannot_be_had_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match="ranker: nobody/at-all: no such folder, and no model to be had"
    ) as error:
        load_reranker("nobody/at-all")
    assert "where there is a network" in str(error.value)
    assert "\n" not in str(error.value)


def test_code_of_its_own_is_never_run(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "own"}
    config["auto_map"] = {"AutoConfig": "own.OwnConfig"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(InputError, match="code of its own, which is never run"):
        load_reranker(str(folder))
    assert not (tmp_path / "ran").exists()


def test_a_storage_that_fails_is_no_missing_model(folders: dict[str, Path], monkeypatch: Any) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", fail)
    with pytest.raises(StorageError, match="cannot be read"):
        load_reranker(str(folders["T5"]))
