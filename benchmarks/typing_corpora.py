"""The corpora of the benchmarks of typing: what a typer learns from, and what it is asked about once.

UFET has parts of its own. Of GUM and LitBank the documents of the development part of
jobs/recipes/chains_litbank.yaml are asked, which no pre-training has read, and the others are learned from.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.trainings import RECIPES
from rayner.tasks.registry import load_recipe


class TypedCorpus(NamedTuple):
    """Mentions with types.

    Attributes:
        title: its name and what its types are.
        learning: KEY=VALUE of a typer's recipe.
        asked: the files whose mentions are asked.
    """

    title: str
    learning: Sequence[str]
    asked: Sequence[Path]


def ufet() -> TypedCorpus:
    """Crowd-annotated mentions with some of 10,331 types each."""
    dev = load_recipe(RECIPES / "typer_ufet.yaml").corpus.dev
    return TypedCorpus(
        "UFET", ("corpus.dev=[]", "corpus.dev_fraction=0.2"), [Path(os.path.expandvars(path)) for path in dev]
    )


def gum() -> TypedCorpus:
    """All mentions of GUM, nested ones too, of ten types."""
    return _of_documents("GUM", genres())


def litbank() -> TypedCorpus:
    """All mentions of LitBank, nested ones too, of six types."""
    return _of_documents("LitBank", books())


CORPORA: Mapping[str, Callable[[], TypedCorpus]] = {"ufet": ufet, "gum": gum, "litbank": litbank}


def _chains_folder(name: str) -> Path:
    corpus = load_recipe(RECIPES / "chains_litbank.yaml").corpus
    return Path(os.path.expandvars(next(path for path in corpus.train if name in path)))


def books() -> tuple[list[Path], list[Path]]:
    """The files of LitBank's mentions: to learn from, and to ask about."""
    return _parts(_chains_folder("litbank").parent / "entities_tsv", ".tsv")


def genres() -> tuple[list[Path], list[Path]]:
    """The files of GUM's mentions: to learn from, and to ask about."""
    return _parts(_chains_folder("gum"), ".conll")


def _parts(folder: Path, suffix: str) -> tuple[list[Path], list[Path]]:
    held_out = {Path(path).stem for path in load_recipe(RECIPES / "chains_litbank.yaml").corpus.dev}
    files = sorted(folder.glob(f"*{suffix}"))
    return [p for p in files if p.stem not in held_out], [p for p in files if p.stem in held_out]


def _of_documents(title: str, parts: tuple[Sequence[Path], Sequence[Path]]) -> TypedCorpus:
    learned, asked = parts
    changes = (
        "types=auto",
        "type_list=null",
        f"corpus.train={json.dumps([str(path) for path in learned])}",
        "corpus.dev=[]",
        "corpus.dev_fraction=0.2",
    )
    return TypedCorpus(title, changes, asked)
