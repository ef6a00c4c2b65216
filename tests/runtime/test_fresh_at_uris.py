"""`--fresh` at a URI where an object was lost: what its message advises works."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pytest

from rayner.errors import InputError
from rayner.files.fetching import local
from rayner.runtime.corpora import context_pairs
from rayner.runtime.corpora.convert import convert
from rayner.runtime.sweeps import sweep as sweeps
from rayner.runtime.sweeps.folder import OWN
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.files.folders_at_uris import published, uri
from tests.object_storage import Storage

PLACE = "fresh-at-uris"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    mention = {"start": 0, "end": 3, "type": "A"}
    rows = [{"document_id": f"d{n}", "text": "one two three", "mentions": [mention]} for n in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def manifest_of(storage: Storage) -> Callable[[str], dict[str, Any]]:
    return lambda name: json.loads(
        bytes(obstore.get(storage.store(), f"{PLACE}/{name}/_manifest.json").bytes())
    )


def toy(corpus: Path) -> Any:
    values = {"task": "toy", "encoder": "random:16x1", "types": [{"name": "A"}]}
    return parse_recipe({**values, "corpus": {"train": [str(corpus)]}, "training": {"epochs": 1}}, "recipe")


@pytest.mark.parametrize(
    ("name", "lost"),
    [("train", "recipe.yaml"), ("train", "result.json"), ("convert", "counts.json"), ("convert", "parquet")],
)
def test_what_lost_an_object_starts_over(
    storage: Storage,
    corpus: Path,
    manifest_of: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    lost: str,
) -> None:
    out = Path(uri(f"{PLACE}/{name}-{lost}"))

    def do(fresh: bool) -> None:
        if name == "train":
            train(toy(corpus), out, fresh=fresh, workers=0)
        else:
            convert([corpus], out, workers=0, fresh=fresh)

    do(False)
    files = manifest_of(f"{name}-{lost}")["files"]
    gone = next(entry["object"] for path, entry in files.items() if path.endswith(lost))
    obstore.delete(storage.store(), [f"{PLACE}/{name}-{lost}/{gone}"])
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    with pytest.raises(InputError, match="start over if the command has --fresh"):
        do(False)
    do(True)
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "third"))
    made = [path for path in local(out).rglob("*") if path.name.endswith(lost)]
    assert made
    assert all(path.stat().st_size for path in made)


@pytest.mark.parametrize(
    ("file", "what"), [("sweep.json", "a sweep"), ("last/checkpoint.json", "the run of a training")]
)
def test_a_place_of_another_kind_of_run_is_refused_before_it_is_taken_over(
    manifest_of: Callable[[str], dict[str, Any]],
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    what: str,
) -> None:
    place = f"of-{Path(file).stem}"
    published(f"{PLACE}/{place}", {file: "{}"})
    out, before = Path(uri(f"{PLACE}/{place}")), manifest_of(place)
    for name in ("check_space", "planned_settings", "sweep_config"):
        monkeypatch.setattr(sweeps, name, lambda *_, **__: None)
    given: Any = SimpleNamespace(folds=0, held_out=0)
    training = partial(train, toy(corpus), workers=0)
    begin = training if what == "a sweep" else partial(sweeps.sweep, given, given, settings=given)
    with pytest.raises(InputError, match=rf"--out s3://.*{place}: holds {what}; name another folder"):
        begin(out=out, fresh=True)
    assert manifest_of(place) == before


@pytest.mark.parametrize("module", [sweeps, context_pairs])
def test_what_is_kept_in_place_starts_over(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    seen: list[bool] = []

    class Opened(Exception):
        pass

    def opened(out: Path, doing: str, fresh: bool = False, written: object = None) -> None:
        seen.append(fresh)
        # Beside a sweep may lie what others name.
        assert written == (OWN if module is sweeps else None)
        raise Opened

    monkeypatch.setattr(module, "kept_in_place", opened)
    if module is sweeps:
        for name in ("check_space", "planned_settings", "sweep_config"):
            monkeypatch.setattr(module, name, lambda *_, **__: None)
        monkeypatch.setattr(module, "named_paths", lambda *_: [])
    given: Any = SimpleNamespace(folds=0, held_out=0, domains={})
    if module is sweeps:
        begin = partial(module.sweep, given, given, Path("out"), given)
    else:
        begin = partial(module.contexts, [], Path("out"), given)
    for fresh in (False, True):
        with pytest.raises(Opened):
            begin(fresh=fresh)
    assert seen == [False, True]
