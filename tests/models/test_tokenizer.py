"""Offsets must be those of the text's code points, whatever the kind of tokenizer."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from rayner.errors import CheckpointError, InputError
from rayner.models.tokenizer import Tokenizer, load_tokenizer, tokenizer_from

SPECIAL = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CORPUS = [
    "The harbour of Zürich has no sea.",
    "Ōsaka and Łódź are far apart 😀 indeed.",
    "the the harbour harbour",
] * 20
TEXT = "Nobody  saw\tZürich 😀 and Łódź,\n the harbour."


def byte_level() -> Tokenizer:
    fast = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    fast.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    fast.train_from_iterator(CORPUS, trainer)
    return Tokenizer(fast, SPECIAL)


def sentence_piece() -> Tokenizer:
    fast = tokenizers.Tokenizer(models.Unigram())
    fast.normalizer = normalizers.NFKC()
    fast.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=list(SPECIAL.values()), unk_token="<unk>", show_progress=False
    )
    fast.train_from_iterator(CORPUS, trainer)
    return Tokenizer(fast, SPECIAL)


def word_piece() -> Tokenizer:
    return load_tokenizer("all-MiniLM-L6-v2")


KINDS = {"word piece": word_piece(), "byte level": byte_level(), "sentence piece": sentence_piece()}


def covered(text: str, offsets: list[tuple[int, int]]) -> set[int]:
    return {i for start, end in offsets for i in range(start, end)}


@pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())
def test_offsets_cover_the_text_without_its_white_space(tokenizer: Tokenizer) -> None:
    ids, offsets = tokenizer(TEXT)
    assert len(ids) == len(offsets)
    assert covered(TEXT, offsets) == {i for i, c in enumerate(TEXT) if not c.isspace()}
    starts = {start for start, end in offsets if start < end}
    ends = {end for start, end in offsets if start < end}
    for word in ("Nobody", "saw", "Zürich", "😀", "Łódź", "harbour"):
        assert TEXT.index(word) in starts, word
        assert TEXT.index(word) + len(word) in ends, word


@pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())
@given(text=st.text(alphabet=st.sampled_from("ab Zü😀é\u0301\u3000\n\t.,漢İﬁ"), max_size=30))
def test_offsets_are_ordered_and_never_begin_or_end_in_white_space(tokenizer: Tokenizer, text: str) -> None:
    _, offsets = tokenizer(text)
    for start, end in offsets:
        assert 0 <= start <= end <= len(text)
        assert text[start:end] == text[start:end].strip()
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())
def test_a_batch_is_its_texts(tokenizer: Tokenizer) -> None:
    texts = [TEXT, "", "the harbour"]
    assert tokenizer.batch(texts) == [tokenizer(text) for text in texts]
    assert tokenizer("") == ([], [])


@pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())
def test_saved_and_read_again(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer")
    for again in (tokenizer_from(tmp_path), pickle.loads(pickle.dumps(tokenizer))):
        assert again(TEXT) == tokenizer(TEXT)
        assert len(again) == len(tokenizer)
        for role in ("cls_id", "sep_id", "pad_id", "unk_id"):
            assert getattr(again, role) == getattr(tokenizer, role)


@pytest.mark.parametrize("tokenizer", KINDS.values(), ids=KINDS.keys())
def test_transformers_reads_what_is_saved(tokenizer: Tokenizer, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    ids = tokenizer(TEXT)[0]
    assert theirs(TEXT, add_special_tokens=False)["input_ids"] == ids
    assert theirs(TEXT).keys() == {"input_ids", "attention_mask"}
    assert theirs(TEXT)["input_ids"] == [tokenizer.cls_id, *ids, tokenizer.sep_id]
    assert tokenizer_from(tmp_path)(TEXT)[0] == ids


def test_special_tokens_of_the_embedded_tokenizer() -> None:
    tokenizer = word_piece()
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.unk_id) == (101, 102, 0, 100)


def test_a_long_text_is_neither_cut_nor_warned_about() -> None:
    text = "Zürich has no sea 😀. " * 20_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ids, offsets = word_piece()(text)
    assert len(ids) == 6 * 20_000
    assert offsets[-1] == (len(text) - 2, len(text) - 1)


def test_a_tokenizer_without_a_start_token_is_refused() -> None:
    fast = tokenizers.Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1}, unk_token="<unk>"))
    with pytest.raises(InputError, match="cls_token"):
        Tokenizer(fast, {"pad_token": "<pad>"})


def test_a_file_that_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        tokenizer_from(tmp_path)
