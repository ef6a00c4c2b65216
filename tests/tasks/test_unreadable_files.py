"""A file that the storage does not give now is neither damaged, missing nor of another format."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers.detect import detect
from rayner.data.readers.files import sample
from rayner.errors import StorageError
from rayner.models import encoder
from rayner.models.encoder import load_encoder
from rayner.retrieval.index_files import read_manifest
from rayner.tasks.contexts.rankers import check_ranker
from rayner.tasks.recognizer.added_types import read_base
from rayner.tasks.standardizer.fitting import Fitted
from rayner.tasks.typer.vocabulary import read_vocabulary


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("read", [Fitted.load, check_ranker, read_vocabulary, read_manifest, read_base])
def test_a_checkpoint_or_index_that_the_storage_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any], number: int
) -> None:
    monkeypatch.setattr(Path, "read_text", failing(number))
    with pytest.raises(StorageError, match=os.strerror(number)):
        read(tmp_path)


def test_weights_that_the_storage_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "safe_open", failing(errno.EIO))
    with pytest.raises(StorageError, match=os.strerror(errno.EIO)):
        load_encoder("all-MiniLM-L6-v2")


def test_a_corpus_that_the_storage_does_not_give_is_not_of_an_unknown_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "One."}\n')
    monkeypatch.setattr(Path, "open", failing(errno.EIO))
    with pytest.raises(StorageError, match=rf"corpus\.jsonl: cannot be read \({os.strerror(errno.EIO)}"):
        detect(path)
    # Nor is one that may not be read a fault of the storage.
    monkeypatch.setattr(Path, "open", failing(errno.EACCES))
    assert sample(path).lines == ()
