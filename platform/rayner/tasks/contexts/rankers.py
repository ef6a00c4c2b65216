"""Where the ranker of contexts comes from: a checkpoint, a folder in the format of transformers, or an id of
Hugging Face; and how it comes along with the checkpoint of the task that reads its contexts."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from rayner.config import RankerRecipe
from rayner.config.base import Precision
from rayner.files.fetching import is_there, local
from rayner.files.hashes import sha256_of
from rayner.files.run_checkpoints import named_checkpoint
from rayner.models.precision_choice import set_precision
from rayner.models.rerankers import kind_of_reranker, load_reranker
from rayner.tasks.checkpoint_files import (
    MANIFEST,
    check_files,
    check_task,
    manifest_version,
    only,
    read_known_recipe,
)
from rayner.tasks.encoder_task import default_device, load_trained
from rayner.tasks.ranker.pair_ranker import PairRanker, PretrainedRanker
from rayner.tasks.ranker.task import Ranker, RankerTask

RankerPlace = Path | str
"""The folder of a checkpoint or of a model of transformers; as a text the id of a model of Hugging Face."""
_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_CONFIG = "config.json"
_KEPT = (".json", ".safetensors", ".txt", ".model", ".jinja")
"""What a model of transformers needs beside it, by the end of the name; weights in pickles are never read."""


def place_of_ranker(named: str, folder: Path, key: str = "ranker") -> RankerPlace:
    """What a setting names: what lies at the path, which counts from the folder; else an id, if it is one.

    Args:
        key: that of the setting, for errors.

    Raises:
        RecipeError: a text that is no path.
        CheckpointError: a run without a checkpoint.
    """
    path = named_checkpoint(named, folder, key)
    return named if _ID.fullmatch(named) and not is_there(path) else path


def check_ranker(ranker: RankerPlace, key: str = "ranker") -> None:
    """Find out from the smallest files whether it is a ranker.

    Args:
        key: that which names it, for errors.

    Raises:
        CheckpointError: the folder is no checkpoint of a ranker.
        InputError: a model of transformers that scores no pairs, or an id under which there is none.
        StorageError: it cannot be read now.
    """
    if isinstance(ranker, str):
        kind_of_reranker(ranker, key)
        return
    folder = local(ranker)
    if _is_pretrained(folder):
        kind_of_reranker(str(folder), key)
        return
    hint = "name a folder such as RUN/best, or a reranker of Hugging Face"
    other = ", which scores no pairs", "name a ranker"
    check_task(folder, RankerRecipe, other, ("is no checkpoint of a ranker", hint))


def check_ranker_files(ranker: RankerPlace) -> None:
    """`check_ranker`, and whether the files of a checkpoint are those that were saved."""
    check_ranker(ranker)
    if isinstance(ranker, Path) and not _is_pretrained(local(ranker)):
        check_files(ranker)


def digest_of_ranker(ranker: RankerPlace) -> str:
    """What tells a ranker from any other: of files their hash, of a model that is named by its id that."""
    if isinstance(ranker, str):
        return ranker
    folder = local(ranker)
    if not _is_pretrained(folder):
        return sha256_of(folder / MANIFEST)
    hashes = {path.name: sha256_of(path) for path in _files(folder)}
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()


def version_of_ranker(ranker: RankerPlace) -> str:
    """What a version says of a ranker."""
    if isinstance(ranker, Path) and not _is_pretrained(local(ranker)):
        return manifest_version(local(ranker), "ranker")
    return digest_of_ranker(ranker)


def save_ranker(ranker: RankerPlace, folder: Path) -> None:
    """Write a ranker into a new folder, which is then a place of one."""
    if isinstance(ranker, str):
        found = load_ranker(ranker)
        assert isinstance(found, PretrainedRanker)
        found.save(folder)
        return
    source = local(ranker)
    if not _is_pretrained(source):
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("evaluation"))
        return
    folder.mkdir()
    for path in _files(source):
        shutil.copyfile(path, folder / path.name)


def load_ranker(
    ranker: RankerPlace, device: str | torch.device | None = None, precision: Precision = "float32"
) -> PairRanker[Any]:
    """The ranker, ready to score; one that was asked for lately is not loaded again.

    Args:
        device: by default a GPU where there is one.
        precision: what it computes in; below float32 its weights are rounded.

    Raises:
        CheckpointError: the folder is no checkpoint of a ranker, or it is damaged.
        InputError: a model of transformers that cannot be used, or that cannot be had from here.
    """
    return _loaded(ranker, digest_of_ranker(ranker), device, precision)


def load_trained_ranker(folder: Path, device: str, precision: Precision) -> Ranker:
    """As `load_ranker`, of a checkpoint."""
    found = load_ranker(folder, device, precision)
    assert isinstance(found, Ranker)
    return found


# The digest is read by the cache alone: a ranker that was trained anew in its folder is another one.
@lru_cache(2)
def _loaded(
    ranker: RankerPlace, digest: str, device: str | torch.device | None, precision: Precision
) -> PairRanker[Any]:
    check_ranker(ranker)
    if isinstance(ranker, str) or _is_pretrained(local(ranker)):
        reranker = load_reranker(str(ranker)).to(device or default_device())
        reranker.compute_in(precision)
        return PretrainedRanker(reranker)
    folder = local(ranker)
    task, model = load_trained(folder, read_known_recipe(folder, only(RankerRecipe)), RankerTask, device)
    set_precision(model, precision, rounded=True)
    predictor = task.predictor(model)
    assert isinstance(predictor, PairRanker)
    return predictor


def _is_pretrained(folder: Path) -> bool:
    return (folder / _CONFIG).is_file() and not (folder / MANIFEST).exists()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _KEPT)
