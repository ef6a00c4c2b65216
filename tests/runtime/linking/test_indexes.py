"""`rayner index` over a checkpoint with a random tiny encoder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import obstore
import pytest
import torch

from rayner import cli, load
from rayner.errors import CheckpointError, IndexFolderError, InputError, KnowledgeBaseError
from rayner.files.fetching import names_in
from rayner.files.locks import LOCK, locked
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.working import worked_on
from rayner.retrieval.index_folder import describe_index, last_version, open_index
from rayner.runtime.linking import indexes
from rayner.runtime.linking.indexes import add, build, list_index, remove
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, train_task
from tests.object_storage import BUCKET, Storage
from tests.pickled_actors import each_pickled

ROWS = (
    {"entity_id": "C1", "name": "gout", "aliases": ["podagra", "gouty arthritis"]},
    {"entity_id": "C2", "name": "asthma"},
    {"entity_id": "C3", "name": "chronic obstructive pulmonary disease", "aliases": ["COPD"]},
)
MORE = ({"entity_id": "C4", "name": "hay fever", "aliases": ["pollinosis"]},)


def knowledge_base(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def checkpoint(folder: Path, seed: int, loss=None, **index) -> Path:
    torch.manual_seed(seed)
    recipe = parse_recipe(
        {
            "task": "standardizer",
            "encoder": "random:32x2",
            "seed": seed,
            "knowledge_base": {"paths": ["nowhere.jsonl"]},
            "loss": loss or {},
            "index": index,
        },
        "test",
    )
    task = train_task(recipe)
    save_checkpoint(folder, task, task.build(), {})
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("trained") / "best", 1)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return knowledge_base(tmp_path / "base.jsonl", ROWS)


def test_build_then_standardize(trained: Path, base: Path, tmp_path: Path) -> None:
    result = build(trained, [base], tmp_path / "index")
    facts = {"version": 1, "entities": 3, "names": 6, "dimensions": 32, "search": "exact", "recall": 1.0}
    assert result.items() >= {**facts, "rejected": 0, "distance": "cosine"}.items()
    loaded = load(trained, index=tmp_path / "index")
    answers = loaded.predict(["podagra", "COPD", "asthma"])
    assert [answer.candidates[0].entity_id for answer in answers] == ["C1", "C3", "C2"]
    assert build(trained, [base], tmp_path / "index")["version"] == 2


def test_an_index_built_on_an_actor_equals_that_of_this_process(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rayner.runtime.linking.indexes._TEXTS", 2)
    monkeypatch.setattr("rayner.runtime.linking.indexes.each_on_actors", each_pickled)
    base = knowledge_base(tmp_path / "base.jsonl", [*ROWS, *MORE])
    alone, shared = (
        build(trained, [base], tmp_path / str(workers), workers=workers) | {"seconds": 0, "index": ""}
        for workers in (0, 1)
    )
    assert shared == alone
    vectors = [open_index(tmp_path / name).dense.vectors for name in ("0", "1")]
    assert (vectors[0] == vectors[1]).all()


def test_mentions_are_indexed_as_aliases(trained: Path, base: Path, tmp_path: Path) -> None:
    rows = ({"mention": "wheezing disease", "entity_id": "C2"}, {"mention": "gout", "entity_id": "C1"})
    mentions = knowledge_base(tmp_path / "mentions.jsonl", rows)
    result = build(trained, [base], tmp_path / "index", mentions=[mentions])
    assert result.items() >= {"entities": 3, "names": 7}.items()
    (answer,) = load(trained, index=tmp_path / "index").predict(["wheezing disease"])
    assert (answer.candidates[0].entity_id, answer.candidates[0].matched) == ("C2", "wheezing disease")
    others = knowledge_base(tmp_path / "others.jsonl", ({"mention": "flu", "entity_id": "D9"},))
    with pytest.raises(InputError, match="--mentions: the knowledge base lacks the ids of 1 of 1 mention"):
        build(trained, [base], tmp_path / "other", mentions=[others])
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("loss", "index", "distance"),
    [
        ({}, {}, "cosine"),
        ({"distance": "euclidean"}, {}, "euclidean"),
        ({"distance": "euclidean"}, {"distance": "cosine"}, "cosine"),
        ({"distance": "euclidean", "mining": "infonce"}, {}, "cosine"),
        ({"distance": "euclidean", "mining": "infonce"}, {"distance": "euclidean"}, "euclidean"),
    ],
)
def test_an_index_measures_what_was_learned(base: Path, tmp_path: Path, loss, index, distance) -> None:
    best = checkpoint(tmp_path / "best", 1, loss, **index)
    assert build(best, [base], tmp_path / "index")["distance"] == distance


def test_added_and_removed_without_encoding_the_rest(trained: Path, base: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    build(trained, [base], index)
    before = open_index(index).dense.vectors.copy()
    result = add(index, [knowledge_base(tmp_path / "more.jsonl", MORE)])
    assert result.items() >= {"added": 1, "entities": 4, "names": 8, "version": 2}.items()
    assert (open_index(index).dense.vectors[:6] == before).all()
    assert remove(index, ["C1", "C1"]).items() >= {"removed": 1, "entities": 3, "names": 5}.items()
    listed = list_index(index)
    assert [row["entity_id"] for row in listed["listed"]] == ["C2", "C3", "C4"]
    assert listed["checkpoint"] == str(trained)
    assert len(list_index(index, limit=1)["listed"]) == 1


def test_another_encoder_is_refused(trained: Path, base: Path, tmp_path: Path) -> None:
    other = checkpoint(tmp_path / "other", 2)
    build(trained, [base], tmp_path / "index")
    with pytest.raises(IndexFolderError, match="was built by another encoder") as refused:
        load(other, index=tmp_path / "index")
    assert str(trained) in refused.value.what
    with pytest.raises(IndexFolderError, match="was built by another encoder"):
        add(tmp_path / "index", [knowledge_base(tmp_path / "more.jsonl", MORE)], checkpoint=other)
    assert open_index(tmp_path / "index").version == 1


def test_what_another_encoder_builds_meanwhile_is_refused(
    trained: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, index = checkpoint(tmp_path / "other", 2), tmp_path / "index"
    build(trained, [base], index)
    read = indexes.read_knowledge_base

    def read_slowly(*given: Any) -> Any:
        monkeypatch.setattr(indexes, "read_knowledge_base", read)
        build(other, [base], index)
        return read(*given)

    monkeypatch.setattr(indexes, "read_knowledge_base", read_slowly)
    with pytest.raises(IndexFolderError, match="was built by another encoder"):
        add(index, [knowledge_base(tmp_path / "more.jsonl", MORE)])
    found = list_index(index)
    assert (found["version"], found["entities"], found["checkpoint"]) == (2, 3, str(other))


def test_an_index_that_is_written_is_refused_before_names_are_encoded(
    trained: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "build_index", lambda *_: pytest.fail("it began to work"))
    with (
        locked(tmp_path / "index" / LOCK, "writes it"),
        pytest.raises(InputError, match=r"another process \(.*\) writes this index"),
    ):
        build(trained, [base], tmp_path / "index")
    assert [path.name for path in (tmp_path / "index").iterdir()] == [LOCK]


def test_a_checkpoint_that_moved(base: Path, tmp_path: Path) -> None:
    moving, more = checkpoint(tmp_path / "before", 3), knowledge_base(tmp_path / "more.jsonl", MORE)
    build(moving, [base], tmp_path / "index")
    moving.rename(tmp_path / "after")
    with pytest.raises(CheckpointError, match="not there any more; name where it lies now"):
        add(tmp_path / "index", [more])
    assert add(tmp_path / "index", [more], checkpoint=tmp_path / "after")["entities"] == 4
    remove(tmp_path / "index", ["C4"])
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("stages: [{checkpoint: after, index: index}]")
    assert add(tmp_path / "index", [more], checkpoint=pipeline)["entities"] == 4


def test_thresholds_fitted_later_do_not_part_a_checkpoint_from_its_index(base: Path, tmp_path: Path) -> None:
    fitted = checkpoint(tmp_path / "best", 4)
    build(fitted, [base], tmp_path / "index")
    manifest = json.loads((fitted / "checkpoint.json").read_text("utf-8"))
    (fitted / "standardizer.json").write_text(json.dumps({"weight": 0.9, "nil": None}), "utf-8")
    digest = hashlib.sha256((fitted / "standardizer.json").read_bytes()).hexdigest()
    manifest["files"]["standardizer.json"] = digest
    (fitted / "checkpoint.json").write_text(json.dumps(manifest), "utf-8")
    assert load(fitted, index=tmp_path / "index").predictor.weight == 0.9


def test_the_recipe_and_the_caller_limit_aliases(trained: Path, base: Path, tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseError, match="aliases"):
        build(checkpoint(tmp_path / "strict", 1, max_aliases=1), [base], tmp_path / "index")
    with pytest.raises(KnowledgeBaseError, match="aliases"):
        build(trained, [base], tmp_path / "index", max_aliases=1)
    assert not (tmp_path / "index").exists()
    assert build(trained, [base], tmp_path / "index", max_aliases=2, search="ivf")["search"] == "ivf"
    row = {"entity_id": "C5", "name": "flu", "aliases": ["grippe", "influenza", "seasonal flu"]}
    with pytest.raises(KnowledgeBaseError, match=r"more\.jsonl.*aliases"):
        add(tmp_path / "index", [knowledge_base(tmp_path / "more.jsonl", [row])])


def test_what_cannot_be_used(trained: Path, base: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="missing"):
        build(tmp_path, [base], tmp_path / "index")
    build(trained, [base], tmp_path / "index")
    with pytest.raises(KnowledgeBaseError, match="entity C1, C2, C3: the index has them already"):
        add(tmp_path / "index", [base])
    with pytest.raises(KnowledgeBaseError, match="entity C8, C9: not in the index"):
        remove(tmp_path / "index", ["C8", "C1", "C9"])
    with pytest.raises(InputError, match="no entity named"):
        remove(tmp_path / "index", [])
    vectors = tmp_path / "index" / "000001" / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-40])
    with pytest.raises(IndexFolderError, match=r"vectors\.npy: is cut short"):
        load(trained, index=tmp_path / "index")


def test_what_fails_on_its_own_input_stops_nobody_who_writes_at_the_uri(
    storage: Storage, trained: Path, base: Path, tmp_path: Path
) -> None:
    index, run = (Path(f"s3://{BUCKET}/indexes/{name}") for name in ("one", "run"))
    build(trained, [base], index)
    with worked_on(run, "trains in this folder") as (folder, _):
        (folder / "log.jsonl").touch()
    others = knowledge_base(tmp_path / "others.jsonl", ({"mention": "flu", "entity_id": "D9"},))
    writing = Publication(f"s3://{BUCKET}/indexes/one"), Publication(f"s3://{BUCKET}/indexes/run")
    for one in writing:
        one.open()
    for error, what, fail in (
        (KnowledgeBaseError, "C9: not in the index", lambda: remove(index, ["C9"])),
        (KnowledgeBaseError, "the index has them already", lambda: add(index, [base])),
        (CheckpointError, "missing", lambda: build(tmp_path, [base], index)),
        (InputError, "none.jsonl", lambda: build(trained, [tmp_path / "none.jsonl"], index)),
        (InputError, "lacks the ids", lambda: build(trained, [base], index, mentions=[others])),
        (IndexFolderError, "holds 'log.jsonl' and no index", lambda: build(trained, [base], run)),
    ):
        with pytest.raises(error, match=what):
            fail()
        for one in writing:
            one.check()
    assert remove(index, ["C1"])["version"] == 2
    with pytest.raises(TakenOverError):
        writing[0].check()


def test_an_index_that_other_tools_copied_to_a_uri_is_changed_as_here(
    storage: Storage, trained: Path, base: Path, tmp_path: Path
) -> None:
    build(trained, [base], tmp_path / "index")
    for name, change, ids in (
        ("added", lambda at: add(at, [knowledge_base(tmp_path / "more.jsonl", MORE)]), 4),
        ("removed", lambda at: remove(at, ["C1"]), 2),
        ("built", lambda at: build(trained, [base], at), 3),
    ):
        for path in (tmp_path / "index" / "000001").iterdir():
            obstore.put(storage.store(), f"copied/{name}/000001/{path.name}", path)
        at = Path(f"s3://{BUCKET}/copied/{name}")
        assert change(at)["version"] == 2
        assert list_index(at).items() >= {"version": 2, "entities": ids}.items()
        assert names_in(at) == {"000001", "000002"}


def test_of_an_index_at_a_uri_no_more_is_fetched_than_is_read(
    storage: Storage, trained: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Path(f"s3://{BUCKET}/indexes/fetched")
    build(trained, [base], index)
    build(trained, [base], index)
    (last,) = [path.name for path in last_version(index).parent.iterdir()]
    assert last == "000002"
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    for do, fetched in ((describe_index, {"index.json"}), (open_index, names_in(index / last))):
        do(index)
        paths = [path for path in (tmp_path / "other" / "fetched").rglob("*") if path.is_file()]
        assert {path.name for path in paths} == fetched
        assert {path.parent.name for path in paths} == {last}
    assert open_index(index).version == describe_index(index)["version"] == 2
    with pytest.raises(IndexFolderError, match="s3://tests/indexes/none: no such folder"):
        open_index(Path(f"s3://{BUCKET}/indexes/none"))


def test_at_a_uri_as_here_a_version_is_one_by_its_files(storage: Storage, tmp_path: Path) -> None:
    store = storage.store()
    for key in ("dated/20260101/a.jsonl", "plain/part0.jsonl", "damaged/000001/entities.arrow"):
        obstore.put(store, f"versions/{key}", b"x")
    at = Path(f"s3://{BUCKET}/versions")
    before = storage.objects()
    for name, first in (("dated", "20260101"), ("plain", "part0.jsonl")):
        with pytest.raises(IndexFolderError, match=f"holds '{first}' and no index"):
            build(tmp_path, [tmp_path], at / name)
    with pytest.raises(IndexFolderError, match=r"index\.json: is missing"):
        describe_index(at / "damaged")
    assert storage.objects() == before


@pytest.fixture
def run(capsys):
    """Run the command in this process: (exit status, standard output, standard error)."""

    def run(*arguments: object) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as exited:
            cli.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return exited.value.code, printed.out, printed.err

    return run


def test_the_command(run, trained: Path, base: Path, tmp_path: Path) -> None:
    index, more = tmp_path / "index", knowledge_base(tmp_path / "more.jsonl", MORE)
    status, out, _ = run("index", "build", trained, base, "--out", index)
    assert status == 0
    assert f"rayner standardize {trained} --index {index} FILE" in out
    status, out, _ = run("index", "add", index, more, "--json")
    assert (status, json.loads(out.splitlines()[-1])["entities"]) == (0, 4)
    status, out, _ = run("index", "list", index, "--limit", "1")
    assert status == 0
    assert "C1  gout (podagra, gouty arthritis)" in out
    assert "3 more" in out
    status, out, _ = run("index", "remove", index, "C2", "C4", "--json")
    assert (status, json.loads(out.splitlines()[-1])["removed"]) == (0, 2)
    status, out, _ = run("index", "list", index, "--json")
    assert [row["entity_id"] for row in json.loads(out.splitlines()[-1])["listed"]] == ["C1", "C3"]
    status, out, err = run("index", "remove", index, "nobody")
    assert (status, out) == (2, "")
    assert "entity nobody: not in the index" in err
