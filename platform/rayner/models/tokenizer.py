"""Sub-word tokenizers with exact offsets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from rayner.errors import CheckpointError, InputError, first_line
from rayner.models.sources import ENCODER, Source, locate, needs_code

Encoded = tuple[list[int], list[tuple[int, int]]]

_ROLES = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token", "bos_token", "eos_token")


class Tokenizer:
    """A fast tokenizer, without special tokens, truncation or padding.

    Args:
        fast: the tokenizer of the `tokenizers` library, which is taken over.
        special: the special tokens by role (`cls_token`, ...); `bos_token` and `eos_token` stand in for
            absent `cls_token` and `sep_token`, and the padding for an absent `unk_token`.

    Raises:
        InputError: the tokenizer lacks a start, an end or a padding token.
    """

    def __init__(self, fast: tokenizers.Tokenizer, special: Mapping[str, str]) -> None:
        self._fast = fast
        self._fast.no_truncation()
        self._fast.no_padding()
        self._special = dict(special)
        self.cls_id = self._require("cls_token", "bos_token")
        self.sep_id = self._require("sep_token", "eos_token")
        self.pad_id = self._require("pad_token", "eos_token")
        unknown = self._find("unk_token")
        self.unk_id = self.pad_id if unknown is None else unknown
        self.mask_id = self._find("mask_token")

    def __call__(self, text: str) -> Encoded:
        """The ids of a text and their offsets `[start, end)` in its code points, white space trimmed off."""
        encoding = self._fast.encode(text, add_special_tokens=False)
        return encoding.ids, _trimmed(text, encoding.offsets)

    def batch(self, texts: Sequence[str]) -> list[Encoded]:
        """`__call__` on each text, in parallel."""
        encodings = self._fast.encode_batch(list(texts), add_special_tokens=False)
        return [(e.ids, _trimmed(t, e.offsets)) for t, e in zip(texts, encodings, strict=True)]

    @property
    def digest(self) -> str:
        """What tells the tokenizer from any other: a hash of all that decides its ids."""
        content = json.dumps([self._fast.to_str(), self._special], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def id_of(self, token: str) -> int | None:
        """The id of an entry of the vocabulary; None where there is no such entry."""
        return self._fast.token_to_id(token)

    def __len__(self) -> int:
        return self._fast.get_vocab_size(with_added_tokens=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self._fast, self._special)

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer.json` and `tokenizer_config.json`, which transformers' AutoTokenizer reads too."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._with_special_tokens().save(str(folder / "tokenizer.json"))
        # Not token_type_ids, which some architectures do not take and `Encoder` never gives.
        inputs = ["input_ids", "attention_mask"]
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": inputs,
            **self._special,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1, sort_keys=True), "utf-8")

    def _with_special_tokens(self) -> tokenizers.Tokenizer:
        """One that puts a start and an end around a text by itself, as encoders are given it here."""
        ids = self._fast.encode("a").ids
        if len(ids) > 1 and (ids[0], ids[-1]) == (self.cls_id, self.sep_id):
            return self._fast
        first, last = (str(self._fast.id_to_token(place)) for place in (self.cls_id, self.sep_id))
        fast = tokenizers.Tokenizer.from_str(self._fast.to_str())
        fast.post_processor = processors.TemplateProcessing(
            single=[first, "$A", last],
            pair=[first, "$A", last, "$B", last],
            special_tokens=[(first, self.cls_id), (last, self.sep_id)],
        )
        return fast

    def _find(self, role: str) -> int | None:
        token = self._special.get(role)
        return None if token is None else self._fast.token_to_id(token)

    def _require(self, *roles: str) -> int:
        for role in roles:
            if (found := self._find(role)) is not None:
                return found
        raise InputError("tokenizer", f"it has no {roles[0]}", "use the encoder of a model that has one")


def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of an encoder; the names are those of `load_encoder`.

    Raises:
        InputError: there is none under that name, or it cannot be had from here.
    """
    source = locate(name)
    if source.kind == "hub":
        return _from_transformers(source)
    return tokenizer_from(source.folder / ENCODER if source.kind == "checkpoint" else source.folder)


def tokenizer_from(folder: str | Path) -> Tokenizer:
    """The tokenizer in a folder, or in its sub-folder `tokenizer`; needs no network.

    Raises:
        CheckpointError: there is none, or it cannot be read.
    """
    folder = Path(folder)
    if (folder / "tokenizer" / "tokenizer.json").is_file():
        folder = folder / "tokenizer"
    path = folder / "tokenizer.json"
    if not path.is_file():
        return _from_transformers(Source("folder", str(folder), folder))
    try:
        return _parsed(path.read_text("utf-8"), tuple(sorted(_special_tokens(folder).items())))
    except InputError:
        raise
    except Exception as error:  # the Rust library raises nothing narrower
        raise CheckpointError(
            str(path), f"not a tokenizer ({error})", "fetch or write the folder again"
        ) from error


@lru_cache(maxsize=2)
def _parsed(content: str, special: tuple[tuple[str, str], ...]) -> Tokenizer:
    """Models of one process mostly share a tokenizer, of which no use changes anything."""
    return Tokenizer(tokenizers.Tokenizer.from_str(content), dict(special))


def _special_tokens(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        content = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        for role in _ROLES:
            token = content.get(role)
            if token:
                found[role] = token["content"] if isinstance(token, dict) else token
    return found


def fast_tokenizer(name: str, where: str) -> Any:
    """A tokenizer of transformers that tells offsets: of a local folder, or of a Hugging Face id.

    Args:
        where: names it in errors.

    Raises:
        InputError: there is none, or it cannot be had from here.
    """
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        if failure := needs_code(where, error):
            raise failure from error
        absent = "" if Path(name).is_dir() else "no such folder, and "
        raise InputError(
            where,
            f"{absent}no tokenizer to be had ({first_line(error)})",
            "give a local folder with tokenizer.json, or fetch the model where there is a network",
        ) from error
    if not loaded.is_fast:
        raise InputError(where, "it has no fast tokenizer", "only those tell their offsets")
    if len(loaded) <= len(set(_special_of(loaded).values())):
        # From a folder with nothing but config.json, transformers makes a tokenizer that knows no word.
        what = "the folder holds no tokenizer, only a configuration"
        raise InputError(where, what, "add the model's tokenizer.json")
    return loaded


def _special_of(loaded: Any) -> dict[str, str]:
    return {role: token for role in _ROLES if (token := getattr(loaded, role, None))}


def _from_transformers(source: Source) -> Tokenizer:
    place = str(source.folder) if source.kind == "folder" else source.name
    loaded = fast_tokenizer(place, f"encoder: {source.name}")
    return Tokenizer(loaded.backend_tokenizer, _special_of(loaded))


def _trimmed(text: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte-level and SentencePiece tokens may hold the white space before them; spans must not."""
    return [
        _trim(text, s, e) if s < e and (text[s].isspace() or text[e - 1].isspace()) else (s, e)
        for s, e in offsets
    ]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
