"""What `benchmarks.gpu` trains and asks on: an untrained encoder, and a corpus for each kind of items.

All of it is made here: nothing is installed or fetched for it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

VOCABULARY = 30_522
"""Sub-words of BERT, and of the default encoder."""
SYLLABLES = ("ba", "co", "du", "fe", "gi", "ho", "ja", "ke", "lo", "mu", "na", "pe", "ri", "so", "tu", "ve")
TYPES = ({"name": "PER", "description": "people by name"}, {"name": "LOC", "description": "places on a map"})
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}

Values = dict[str, Any]


def write_encoder(folder: Path, hidden: int, layers: int) -> Path:
    """A folder with an untrained BERT, for 384 and 6 in the shape of the default encoder, and a tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel

    words = [*SPECIAL.values(), *(a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES)]
    words += [*(f"##{a}" for a in SYLLABLES), *SYLLABLES, *".,", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    words += [f"[unused{number}]" for number in range(VOCABULARY - len(words))]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL["unk"]))  # type: ignore[arg-type]
    tokenizer.normalizer = normalizers.BertNormalizer()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {f"{role}_token": token for role, token in SPECIAL.items()}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **roles}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    torch.manual_seed(1)
    shape = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 32),
        intermediate_size=4 * hidden,
    )
    BertModel(shape, add_pooling_layer=False).save_pretrained(str(folder))
    return folder


def recipes(folder: Path, encoder: Path, items: int) -> Mapping[str, Callable[[], Values]]:
    """By the task's name, what makes a recipe over some dozen items, and its corpus in the folder."""

    def documents(task: str) -> Values:
        path = _write(folder / f"{task}.jsonl", (_document(number) for number in range(items)))
        return {"task": task, "corpus": {"train": [path], "dev": [path]}, "types": list(TYPES)}

    def stories(task: str) -> Values:
        # What is in dev is not learned from.
        train, dev = (
            _write(folder / f"{task}-{first}.jsonl", map(_story, range(first, first + items)))
            for first in (0, items)
        )
        return {"task": task, "corpus": {"train": [train], "dev": [dev]}}

    def standardizer() -> Values:
        draw = random.Random(5)
        names = [[_name(draw), _name(draw), _name(draw)] for _ in range(items)]
        base = ({"entity_id": str(i), "name": n[0], "aliases": [n[1]]} for i, n in enumerate(names))
        asked = _write(
            folder / "asked.jsonl", ({"mention": n[2], "entity_id": str(i)} for i, n in enumerate(names))
        )
        return {
            "task": "standardizer",
            "knowledge_base": {"paths": [_write(folder / "base.jsonl", base)]},
            "mentions": {"train": [asked], "dev": [asked]},
        }

    def ranker() -> Values:
        draw = random.Random(6)
        rows = (
            {"sentence": _text(draw, 12), "context": _text(draw, 12), "relevant": bool(number % 2)}
            for number in range(items)
        )
        path = _write(folder / "pairs.jsonl", rows)
        return {"task": "ranker", "pairs": {"train": [path], "dev": [path]}}

    made: dict[str, Callable[[], Values]] = {
        **{name: lambda name=name: documents(name) for name in ("recognizer", "tagger", "gaussian", "typer")},
        **{name: lambda name=name: stories(name) for name in ("chains", "coreference")},
        "standardizer": standardizer,
        "ranker": ranker,
    }
    return {name: lambda make=make: {**make(), "encoder": str(encoder)} for name, make in made.items()}


def _document(number: int) -> Values:
    draw = random.Random(number)
    text, mentions = "", []
    for _ in range(4):
        for kind in ("PER", "LOC"):
            text += _text(draw, 5) + " "
            name = _name(draw)
            mentions.append({"start": len(text), "end": len(text) + len(name), "type": kind})
            text += name + " "
    return {"document_id": str(number), "text": text + ".", "mentions": mentions}


def _story(number: int) -> Values:
    draw = random.Random(number)
    names = [_name(draw) for _ in range(3)]
    text, mentions = "", []
    for turn in range(9):
        text += _text(draw, 4) + " "
        name = names[turn % 3]
        span = {"start": len(text), "end": len(text) + len(name), "type": "mention"}
        mentions.append({**span, "chain": f"{number}-{turn % 3}"})
        text += name + " "
    return {"document_id": str(number), "text": text + ".", "mentions": mentions}


def _name(draw: random.Random) -> str:
    return " ".join("".join(draw.choices(SYLLABLES, k=3)).title() for _ in range(2))


def _text(draw: random.Random, words: int) -> str:
    return " ".join("".join(draw.choices(SYLLABLES, k=3)) for _ in range(words))


def _write(path: Path, rows: Iterable[Values]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)
