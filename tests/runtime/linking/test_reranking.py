"""From a standardizer to one with a re-ranker, by commands; the same answers wherever it is asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import rayner
from rayner import cli
from rayner.data.schema import Document, Mention
from rayner.errors import InputError
from rayner.files.locks import LOCK, locked
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.linking import reranking
from rayner.runtime.linking.indexes import build
from rayner.runtime.linking.reranking import add_reranker
from rayner.runtime.linking.standardize import standardize
from rayner.runtime.training.train import train
from rayner.serving.knowledge import Choice, serve_knowledge_base
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint, version_of
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.stages import read_pipeline
from rayner.tasks.standardizer import task as standardizers
from tests.small_rerankers import cross_encoder
from tests.tasks.standardizer.small_names import ENTITIES, small_recipe, write

ASKED = ["my sql", "Java 2", "the web server", "quinoa"]


class Places(NamedTuple):
    standardizer: Path
    ranker: Path
    reranked: Path
    index: Path
    rows: Path
    told: dict[str, Any]


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exited:
        cli.main([*map(str, arguments)])
    assert isinstance(exited.value.code, int)
    return exited.value.code


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Untrained models: what is fitted on held-out mentions needs no more."""
    folder = tmp_path_factory.mktemp("reranking")
    values = small_recipe(folder / "data")
    dev = folder / "data" / "dev.jsonl"
    rows = [{"mention": n[3] + end, "entity_id": i} for i, n in ENTITIES.items() for end in ("", " 9", "s")]
    write(dev, [*rows, *({"mention": text, "entity_id": None} for text in ("quinoa", "Zug", "toothbrush"))])
    recipe = parse_recipe(values, "recipe")
    standardizer, index, pairs = folder / "standardizer", folder / "index", folder / "rows.jsonl"
    task: Any = train_task(recipe)
    torch.manual_seed(1)
    save_checkpoint(standardizer, task, task.build(), {})
    build(standardizer, [folder / "data" / "base.jsonl"], index)
    assert run("kb", "candidates", standardizer, "--out", pairs, "--candidates", 6) == 0
    small: dict[str, Any] = {"task": "ranker", "encoder": "random:32x2", "training": {"epochs": 1}}
    small["pairs"] = {"train": [str(pairs)], "dev_fraction": 0.3}
    train(parse_recipe(small, "recipe"), folder / "ranker", workers=0)
    reranked = folder / "reranked"
    arguments = ("kb", "rerank", standardizer, folder / "ranker", "--out", reranked, "--candidates", 10)
    arguments = (*arguments, "--precision", "bfloat16")
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", lambda *given, **_: printed.extend(map(str, given)))
        assert run(*arguments, "--json") == 0
    return Places(standardizer, folder / "ranker", reranked, index, pairs, json.loads(printed[-1]))


def test_the_commands_say_what_they_did(places: Places) -> None:
    rows = [json.loads(line) for line in places.rows.read_text().splitlines()]
    assert len(rows) == 6 * 20
    assert {"sentence", "context", "relevant", "entities", "group"} == set(rows[0])
    assert places.told["held_out"] == 33
    assert places.told["ranker"] >= 0
    for name in ("before", "after"):
        assert 0 <= places.told[name]["top1"] <= 1
        assert 0 <= places.told[name]["nil_auc"] <= 1
    assert version_of(places.reranked) != version_of(places.standardizer)
    card = (places.reranked / "best" / "README.md").read_text()
    assert f"`{version_of(places.ranker)}`, in `reranker/`, reads the first 10" in card
    assert "Re-ranker" not in (places.standardizer / "README.md").read_text()


def test_the_knowledge_base_is_encoded_once(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = standardizers.encode_texts, Counter[str]()

    def counted(model: Any, texts: Sequence[str], *given: Any, **options: Any) -> Any:
        encoded.update(set(texts))
        return encode(model, texts, *given, **options)

    monkeypatch.setattr(standardizers, "encode_texts", counted)
    add_reranker(places.standardizer, places.ranker, tmp_path, candidates=10, precision="bfloat16")
    assert {encoded[names[0]] for names in ENTITIES.values()} == {1}
    for name in ("standardizer.json", "metrics.json", "model.safetensors"):
        assert (tmp_path / "best" / name).read_bytes() == (places.reranked / "best" / name).read_bytes()


def test_aliases_of_the_knowledge_base_may_be_left_out(
    places: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    assert (
        run("kb", "candidates", places.standardizer, "--out", out, "--candidates", 6, "--mentions-only") == 0
    )
    rows, all_rows = (list(map(json.loads, path.read_text().splitlines())) for path in (out, places.rows))
    mentioned = {names[2] for names in ENTITIES.values()}
    assert {row["entities"][0] for row in rows} == mentioned
    assert rows == [row for row in all_rows if row["entities"][0] in mentioned]
    values = small_recipe(tmp_path / "data", mentions={"train": []})
    recipe = parse_recipe(values, "recipe")
    task: Any = train_task(recipe)
    save_checkpoint(tmp_path / "without", task, task.build(), {})
    given = ("kb", "candidates", tmp_path / "without", "--out", tmp_path / "none.jsonl")
    assert run(*given) == 0
    capsys.readouterr()
    (tmp_path / "none.jsonl").unlink()
    assert run(*given, "--mentions-only") == 2
    assert "has no mention to learn from" in capsys.readouterr().err
    assert not (tmp_path / "none.jsonl").exists()


def test_rows_do_not_overwrite_what_they_are_made_of(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    data = places.standardizer.parent / "data"
    before = {path: path.read_bytes() for path in sorted(data.iterdir())}
    for path, key in (("base", "knowledge_base.paths"), ("train", "mentions.train"), ("dev", "mentions.dev")):
        assert run("kb", "candidates", places.standardizer, "--out", data / f"{path}.jsonl") == 2
        assert f"would overwrite what the checkpoint's recipe reads as {key}" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in sorted(data.iterdir())} == before


def test_a_reranker_computes_in_the_precision_of_the_checkpoint(places: Places) -> None:
    weights = [
        load_file(folder / "model.safetensors") for folder in (places.standardizer, places.reranked / "best")
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    found = []
    for precision in ("float32", "bfloat16"):
        predictor: Any = load_checkpoint(places.reranked, "cpu", precision).predictor(None)
        (answer,) = predict(predictor, ASKED[:1])
        encoder = predictor.reranker.ranker._model.text_encoder
        found.append((encoder.precision, {one.entity_id: one.ranker for one in answer.candidates}))
    assert [precision for precision, _ in found] == ["float32", "bfloat16"]
    same = found[0][1].keys() & found[1][1].keys()
    assert any(found[0][1][name] != found[1][1][name] for name in same)


def test_the_same_answers_wherever_it_is_asked(places: Places, tmp_path: Path) -> None:
    answers = rayner.load(places.reranked, index=places.index).predict(ASKED)
    assert all(one.ranker is not None for answer in answers for one in answer.candidates)
    expected = [answer.to_row() for answer in answers]
    file = write(tmp_path / "asked.jsonl", [{"mention": text} for text in ASKED])
    given = standardize(places.reranked, places.index, file)["answers"]
    assert [{k: v for k, v in row.items() if k != "line"} for row in given] == expected
    stage = read_pipeline(places.reranked, {"index": places.index}).stages[0]
    loaded = load_checkpoint(places.reranked, "cpu")
    predictor: Any = loaded.predictor(stage.options)
    served = serve_knowledge_base(stage, loaded, loaded.record.as_stage(predictor, stage.options))  # type: ignore[arg-type]
    asked = served.stages.make(Choice(top_k=7))
    (first, *_) = predict(asked.standardizer, ASKED)
    assert [one.entity_id for one in first.candidates][:5] == [one.entity_id for one in answers[0].candidates]
    assert (len(first.candidates), first.probability) == (7, pytest.approx(answers[0].probability, abs=1e-5))
    with pytest.raises(InputError, match="asks for 11 candidates"):
        served.stages.make(Choice(top_k=11))
    text = "We moved to my sql. Nobody knows Java 2."
    mentions = tuple(Mention(text.index(name), text.index(name) + len(name), "T") for name in ASKED[:2])
    (document,) = predict(served.stages.make(Choice()), [Document("d", text, mentions)])
    corpus = {"document_id": "d", "text": text, "mentions": []}
    corpus["mentions"] = [{"start": m.start, "end": m.end, "type": "T", "entity_id": "4"} for m in mentions]
    out = tmp_path / "evaluation"
    evaluate(
        places.reranked,
        write(tmp_path / "corpus.jsonl", [corpus]),
        options={"index": places.index},
        intervals=False,
        out=out,
    )
    (table,) = out.rglob("answers.parquet")
    scored = pq.read_table(table).to_pylist()
    for mention, row in zip(document.mentions, scored, strict=True):
        assert mention.entity_id == row["entity_id"]
        assert mention.probability == pytest.approx(row["probability"], abs=1e-5)
        assert mention.candidates[0].score == pytest.approx(row["candidates"][0]["score"], abs=1e-5)


@pytest.mark.parametrize(
    ("ranker", "out", "options", "said"),
    [
        ("standardizer", "new", (), "holds a standardizer, which scores no pairs"),
        ("index", "new", (), "is no checkpoint of a ranker"),
        ("bert", "new", (), "is a model of transformers, which ranks contexts alone"),
        ("ranker", "ranker", (), "holds a checkpoint without a re-ranker"),
        ("ranker", "ranker/best", (), "is a checkpoint"),
        ("ranker", "reranked/best", (), "is a checkpoint"),
        ("ranker", "index", (), "holds '000001' and no checkpoint with a re-ranker"),
        ("ranker", "new", ("--candidates", 3), "--candidates"),
        ("ranker", "rows.jsonl", (), "rows.jsonl: is a file"),
    ],
)
def test_what_cannot_be_is_one_line(
    places: Places,
    ranker: str,
    out: str,
    options: tuple[object, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = places.rows.parent
    if ranker == "bert":
        cross_encoder(folder / ranker)
    status = run("kb", "rerank", places.standardizer, folder / ranker, "--out", folder / out, *options)
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert said in printed.err.splitlines()[-1]
    assert not (folder / "new").exists()


def test_one_process_at_a_time_works_in_a_folder(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranking, "load_standardizer", lambda *_, **__: pytest.fail("it began to work"))
    with (
        locked(tmp_path / LOCK, "writes it"),
        pytest.raises(InputError, match=r"another process \(.*\) adds a re-ranker in this folder"),
    ):
        add_reranker(places.standardizer, places.ranker, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_candidates_take_a_standardizer(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kb", "candidates", places.ranker, "--out", places.rows.with_name("none.jsonl")) == 2
    assert "is no checkpoint of a standardizer" in capsys.readouterr().err
    for out, what in ((places.rows.parent, "is a folder"), (places.rows / "x", "cannot be written")):
        assert run("kb", "candidates", places.standardizer, "--out", out) == 2
        assert f"--out {out}: {what}" in capsys.readouterr().err
