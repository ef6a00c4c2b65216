"""Files that commands about entities write at URIs: never over an input, nor where a folder lies."""

from __future__ import annotations

from pathlib import Path

import obstore
import pytest

from rayner.errors import InputError
from rayner.files.places import place_of
from rayner.runtime.linking import knowledge_bases, reranking, standardize
from rayner.runtime.linking.reranking import add_reranker, write_candidates
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, train_task
from tests.object_storage import BUCKET, Storage

BASE = f"s3://{BUCKET}/outputs/my base.jsonl"
ROW = b'{"entity_id": "C1", "name": "gout"}\n'
ABSENT = Path("none")


@pytest.fixture
def base(storage: Storage) -> Path:
    obstore.put(storage.store(), "outputs/my base.jsonl", ROW)
    return Path(BASE)


@pytest.mark.parametrize("out", [BASE, BASE.replace(" ", "%20")])
def test_an_input_is_not_overwritten_in_any_spelling(base: Path, out: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would overwrite the mentions"):
        standardize.standardize(ABSENT, ABSENT, base, out=Path(out))
    with pytest.raises(InputError, match="would overwrite the input"):
        knowledge_bases.convert([base], Path(out))
    values = {"task": "standardizer", "encoder": "random:32x2", "knowledge_base": {"paths": [BASE]}}
    task = train_task(parse_recipe(values, "test"))
    save_checkpoint(tmp_path / "best", task, task.build(), {})
    with pytest.raises(InputError, match="would overwrite what the checkpoint's recipe reads"):
        write_candidates(tmp_path / "best", Path(out))
    assert place_of(BASE).read() == ROW


def test_a_folder_is_refused_before_the_work(
    storage: Storage, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstore.put(storage.store(), "outputs/names.jsonl/x", b"")
    out = Path(f"s3://{BUCKET}/outputs/names.jsonl")
    monkeypatch.setattr(standardize, "load_standardizer", None)
    monkeypatch.setattr(reranking, "load_standardizer", None)
    monkeypatch.setattr(knowledge_bases, "read_knowledge_base", None)
    for write in (
        lambda: standardize.standardize(ABSENT, ABSENT, base, out=out),
        lambda: knowledge_bases.convert([base], out),
        lambda: write_candidates(ABSENT, out),
    ):
        with pytest.raises(InputError, match=r"names\.jsonl: is a folder; name a file in it"):
            write()
    assert list(storage.objects("outputs/names.jsonl")) == ["outputs/names.jsonl/x"]


def test_a_reranked_checkpoint_does_not_hide_what_lies_there(storage: Storage) -> None:
    for key in ("run/best/checkpoint.json", "index/000001/index.json"):
        obstore.put(storage.store(), f"reranked/{key}", b"{}")
    before = storage.objects("reranked/")
    for name, what in (
        ("run", "holds a checkpoint without a re-ranker"),
        ("run/best", "is a checkpoint"),
        ("index", "holds '000001' and no checkpoint with a re-ranker"),
        ("index/000001/index.json", "is a file"),
    ):
        out = f"s3://{BUCKET}/reranked/{name}"
        with pytest.raises(InputError, match=f"{out}: {what}"):
            add_reranker(ABSENT, ABSENT, Path(out))
    assert storage.objects("reranked/") == before
