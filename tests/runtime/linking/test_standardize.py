"""A real checkpoint (with an encoder that has learned nothing) and a real index, from the command line on."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import rayner
from rayner import cli
from rayner.data.mention_strings import MentionString
from rayner.errors import CheckpointError, InputError, RecipeError
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.linking.indexes import build
from rayner.runtime.linking.standardize import standardize
from rayner.runtime.reports.report import report
from rayner.runtime.training.dev_answers import write_predictions
from rayner.tasks.checkpoint import read_recipe, save_checkpoint
from rayner.tasks.kinds.mentions import Mentions
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.task import StandardizerTask
from tests.tasks.small import corpus, recognizer, trained
from tests.tasks.standardizer.small_index import ENTITIES

DEV = [
    *(MentionString(text, (id_,)) for text, id_ in (("Postgre", "pg"), ("mysql 5", "my"), ("Andriod", "an"))),
    *(MentionString(text, (id_,)) for text, id_ in (("NGINX", "ng"), ("Redhat Linux", "rh"), ("RHEL", "my"))),
    *(MentionString(text, ()) for text in ("toothbrush", "quinoa", "yo", "Zug", "ffff")),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training would leave, less the training; and an index of the same entities beside it."""
    folder = tmp_path_factory.mktemp("standardizer")
    rows = [{"entity_id": e.entity_id, "name": e.name, "aliases": list(e.aliases)} for e in ENTITIES]
    base = folder / "kb.jsonl"
    base.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {"task": "standardizer", "encoder": "random:32x2", "knowledge_base": {"paths": [str(base)]}}
    recipe = parse_recipe(values, "recipe.yaml")
    task = StandardizerTask(recipe)  # type: ignore[arg-type]
    # Else the weights, and what is NIL, would depend on the tests before.
    torch.manual_seed(0)
    model = task.build().eval()
    task.fit(model, DEV)
    predictor = task.predictor(model)
    answers = list(predict(predictor, DEV))
    best = folder / "run" / "best"
    save_checkpoint(best, task, model, predictor.evaluate(answers, DEV))
    write_predictions(best / "evaluation", Mentions(), DEV, answers)
    for name, table in task.inspect(model, DEV).items():
        pq.write_table(table, best / "evaluation" / f"{name}.parquet")
    shutil.copy(best / "recipe.yaml", folder / "run" / "recipe.yaml")
    with pytest.raises(SystemExit) as exited:
        cli.main(["index", "build", str(best), str(base), "--out", str(folder / "index")])
    assert exited.value.code == 0
    return folder


@pytest.fixture
def command(run: Path, capsys: pytest.CaptureFixture[str]):
    """Run a command with the checkpoint and the index: (exit status, standard output, standard error)."""

    def command(name: str, *arguments: object) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as exited:
            cli.main([name, str(run / "run" / "best"), *map(str, arguments)])
        printed = capsys.readouterr()
        return exited.value.code, printed.out, printed.err

    return command


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def mentions(tmp_path: Path) -> Path:
    path = tmp_path / "mentions.jsonl"
    given = ["nginx", "", "?!", "x" * 10_000, "постгрес", "nginx"]
    rows = [json.dumps({"mention": text}) for text in given]
    path.write_text("\n".join([*rows, '{"name": "x"}', ""]))
    return path


def test_each_row_has_an_answer_in_order(run: Path, command: Any, mentions: Path):
    status, printed, _ = command("standardize", mentions, "--index", run / "index", "--top-k", 2)
    rows = lines(printed)
    assert status == 0
    assert [row["line"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert [row["entity_id"] for row in rows[:4]] == ["ng", None, None, None]
    assert rows[0]["name"] == "nginx"
    assert len(rows[0]["candidates"]) == 2
    assert 0 <= rows[0]["probability"] <= 1
    reasons = ["empty", "only punctuation", "longer than 500 characters"]
    assert [row["reason"] for row in rows[1:4]] == reasons
    assert (rows[6]["mention"], rows[6]["reason"]) == (None, "no text under `mention`")
    assert rows[5] == {**rows[0], "line": 6}


def test_a_pipeline_file_is_taken_for_its_stage_of_entities(
    run: Path, command: Any, mentions: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    finder = recognizer()
    save_checkpoint(tmp_path / "finder", finder, trained(finder, corpus()), {})
    pipeline = tmp_path / "pipeline.yaml"
    stages = [
        {"checkpoint": str(tmp_path / "finder")},
        {"checkpoint": str(run / "run"), "index": str(run / "index"), "top_k": 2},
    ]
    pipeline.write_text(json.dumps({"stages": stages}))

    def printed(*arguments: Any) -> str:
        with pytest.raises(SystemExit) as exited:
            cli.main([*map(str, arguments)])
        shown = capsys.readouterr()
        assert exited.value.code == 0, shown.err
        return shown.out

    _, expected, _ = command("standardize", mentions, "--index", run / "index", "--top-k", 2)
    assert printed("standardize", pipeline, mentions) == expected
    printed("index", "build", pipeline, run / "kb.jsonl", "--out", tmp_path / "index")
    _, expected, _ = command("standardize", mentions, "--index", tmp_path / "index")
    asked = ("--index", tmp_path / "index", "--top-k", 5)
    assert printed("standardize", pipeline, mentions, *asked) == expected
    (status, _, error) = command("standardize", mentions)
    assert (status, error) == (2, "error: --index: is not given; name the folder of `rayner index build`\n")
    # Before anything is loaded.
    with pytest.raises(InputError, match="--index: is not given"):
        standardize(tmp_path / "no checkpoint", None, mentions)


def test_the_share_of_nil_moves_answers_and_what_is_no_share_is_refused(
    run: Path, command: Any, mentions: Path
) -> None:
    arguments = ("standardize", mentions, "--index", run / "index")
    few, all_ = (lines(command(*arguments, "--nil-share", share)[1]) for share in (0, 1))
    assert few[4]["entity_id"] is not None
    assert {row["entity_id"] for row in all_} == {None}
    assert all_[0]["probability"] == 0 < few[0]["probability"]
    for share in ("nan", "1.5", "-1"):
        status, printed, err = command(*arguments, f"--nil-share={share}")
        assert (status, printed) == (2, "")
        assert f"'{share}' is no share: a number between 0 and 1" in " ".join(err.replace("│", "").split())


def test_the_precision_of_answers_can_be_asked_for(run: Path, command: Any, mentions: Path) -> None:
    arguments = ("standardize", mentions, "--index", run / "index", "--json")
    found = {p: lines(command(*arguments, "--precision", p)[1])[-1] for p in ("float32", "bfloat16")}
    assert {name: one["compute_precision"] for name, one in found.items()} == {name: name for name in found}
    scores = [[row["score"] for row in one["answers"]] for one in found.values()]
    assert scores[0] != scores[1]
    assert lines(command(*arguments)[1])[-1]["answers"] == found["float32"]["answers"]


def test_answers_go_to_a_file_and_counts_to_standard_output(
    run: Path, command: Any, mentions: Path, tmp_path: Path
):
    out = tmp_path / "new" / "answers.jsonl"
    arguments = (mentions, "--index", run / "index", "--operating-point", "never", "--json")
    status, printed, _ = command("standardize", *arguments, "--out", out)
    counts = lines(printed)[-1]
    assert status == 0
    assert {k: counts[k] for k in ("mentions", "linked", "nil", "unread", "answers")} == {
        "mentions": 7,
        "linked": 3,
        "nil": 4,
        "unread": 1,
        "answers": 7,
    }
    _, printed, _ = command("standardize", *arguments)
    assert lines(printed)[-1]["answers"] == lines(out.read_text())
    assert [path.name for path in out.parent.iterdir()] == ["answers.jsonl"]


def test_proposals_are_entities_of_a_knowledge_base(run: Path, command: Any, tmp_path: Path):
    path = tmp_path / "m.jsonl"
    given = [*({"mention": m} for m in ("toothbrush", "Toothbrush", "toothbrushes", "nginx")), {"name": "x"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in given))
    arguments = (path, "--index", run / "index", "--operating-point", "high_precision", "--propose")
    status, printed, _ = command("standardize", *arguments)
    assert status == 0
    first, *_ = lines(printed)
    assert first["entity_id"] == "new-1"
    assert first["mentions"] >= 2
    assert {first["name"], *first["aliases"]} <= {"toothbrush", "Toothbrush", "toothbrushes"}
    assert first["nearest"]["entity_id"] in {e.entity_id for e in ENTITIES}
    shown = [command("standardize", *asked, "--json")[1] for asked in (arguments, arguments[:-1])]
    counts, answered = (lines(text)[-1] for text in shown)
    linked = sum(answer["entity_id"] is not None for answer in answered["answers"])
    assert linked
    assert [counts[name] for name in ("mentions", "linked", "nil", "unread")] == [5, linked, 5 - linked, 1]
    kb = tmp_path / "new.jsonl"
    kb.write_text(printed)
    with pytest.raises(SystemExit) as exited:
        cli.main(["kb", "convert", str(kb), "--out", str(tmp_path / "new.parquet")])
    assert exited.value.code == 0


def test_evaluate_has_scores_curves_intervals_and_mistakes(run: Path, command: Any, tmp_path: Path):
    path = tmp_path / "gold.jsonl"
    rows = [{"mention": m.text, "entity_id": m.entity_ids[0] if m.entity_ids else None} for m in DEV]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, printed, _ = command("evaluate", path, "--index", run / "index", "--json")
    metrics = lines(printed)[-1]
    assert status == 0
    assert {"top1", "top3", "top5", "mrr", "nil_precision", "nil_recall", "nil_auc"} <= metrics.keys()
    assert (metrics["mentions"], metrics["nil"], metrics["seen"]["mentions"]) == (11, 5, 2)
    assert metrics["intervals"]["top1"][0] <= metrics["top1"] <= metrics["intervals"]["top1"][1]
    assert metrics["coverage"][-1]["coverage"] == 1
    assert metrics["roc"][-1] == {"fpr": 1, "tpr": 1}
    assert set(metrics["errors"]) == {"counts", "examples"}
    _, printed, _ = command("evaluate", path, "--index", run / "index")
    assert "other strings" in printed
    assert "top k and MRR: of the 6 with an entity; 5 have none" in printed


def test_ids_of_gold_are_understood_as_in_training(run: Path, tmp_path: Path, caplog: Any):
    base = tmp_path / "medic.txt"
    base.write_text("D1|167000||PostgreSQL|Postgres\nMESH:D2||MySQL\nD3||nginx\n")
    build(run / "run" / "best", [base], tmp_path / "index")
    rows = [("Postgres", "OMIM:167000"), ("MySQL", "D2"), ("nginx", "D3"), ("nginx", "GO:D9")]
    gold = tmp_path / "gold.jsonl"
    lines = "".join(json.dumps({"mention": m, "entity_id": i}) + "\n" for m, i in rows)
    gold.write_text(lines + "bad\n")
    metrics = evaluate(run / "run" / "best", gold, options={"index": tmp_path / "index"})
    assert f"cannot be read: 1 row; the first: {gold}:5: not JSON" in caplog.text
    assert (metrics["top1"], metrics["linkable"], metrics["unknown"]) == (0.75, 4, 1)
    assert "the index lacks the ids of 1 of 4 mentions" in caplog.text
    assert "'nginx' is of GO:D9" in caplog.text


def test_gold_of_a_corpus_is_of_the_types_of_the_recipe(run: Path, tmp_path: Path):
    task = StandardizerTask(read_recipe(run / "run" / "best"))  # type: ignore[arg-type]
    mentions = task.recipe.mentions.model_copy(update={"types": ("Software",)})
    task.recipe = task.recipe.model_copy(update={"mentions": mentions})
    best = tmp_path / "best"
    save_checkpoint(best, task, task.build().eval(), {})
    build(best, [run / "kb.jsonl"], tmp_path / "index")
    corpus = tmp_path / "corpus.jsonl"
    spans = [(0, 5, "Software", "ng"), (10, 15, "Person", "Q1")]
    found = [dict(zip(("start", "end", "type", "entity_id"), span, strict=True)) for span in spans]
    corpus.write_text(json.dumps({"document_id": "1", "text": "nginx and Linus", "mentions": found}) + "\n")
    assert evaluate(best, corpus, options={"index": tmp_path / "index"})["linkable"] == 1
    assert evaluate(best, corpus, types=(), options={"index": tmp_path / "index"})["linkable"] == 2


def test_an_id_of_gold_that_holds_a_plus_is_one(run: Path, tmp_path: Path):
    names = {"C": "C", "C++": "Cplusplus"}
    base = tmp_path / "kb.jsonl"
    base.write_text("".join(json.dumps({"entity_id": i, "name": n}) + "\n" for i, n in names.items()))
    build(run / "run" / "best", [base], tmp_path / "index")
    corpus = tmp_path / "corpus.jsonl"
    mention = {"start": 0, "end": 9, "type": "Language", "entity_id": "C++"}
    corpus.write_text(json.dumps({"document_id": "1", "text": "Cplusplus", "mentions": [mention]}))
    assert evaluate(run / "run" / "best", corpus, options={"index": tmp_path / "index"})["top1"] == 1.0


def test_what_does_not_fit_is_one_line_and_exit_2(run: Path, command: Any, mentions: Path, tmp_path: Path):
    table = tmp_path / "m.csv"
    table.write_text("name\nx\n")
    types, gold = tmp_path / "types.yaml", tmp_path / "gold.jsonl"
    types.write_text("- name: Software\n")
    gold.write_text('{"mention": "nginx", "entity_id": "ng"}\n')
    for arguments, expected in [
        (("standardize", table, "--index", run / "index"), "no column 'mention'"),
        (("standardize", mentions, "--index", tmp_path), "index"),
        (("standardize", mentions, "--index", run / "index", "--out", tmp_path), "is a folder"),
        (("standardize", mentions, "--index", run / "index", "--out", mentions), "would overwrite"),
        (("standardize", mentions, "--index", run / "index", "--out", table / "x"), "cannot be written"),
        (
            ("standardize", mentions, "--index", run / "index", "--propose", "--operating-point", "never"),
            "without a threshold nothing is",
        ),
        (("standardize", mentions, "--index", run / "index", "--top-k", 0), "--top-k"),
        (("evaluate", mentions, "--index", run / "index"), "write null for a mention of no entity"),
        (
            ("evaluate", gold, "--index", run / "index", "--types", types),
            "types.0: is no name of a type; a standardizer looks for no types",
        ),
    ]:
        status, printed, error = command(*arguments)
        assert (status, printed) == (2, "")
        assert expected in error
        assert len(error.splitlines()[-1:]) == 1


def test_a_nil_threshold_without_a_calibration_is_refused(run: Path, tmp_path: Path):
    best = tmp_path / "best"
    shutil.copytree(run / "run" / "best", best)
    values = json.loads((best / "standardizer.json").read_text())
    (best / "standardizer.json").write_text(json.dumps(values | {"nil": None}))
    with pytest.raises(CheckpointError, match=r"standardizer\.json: is cut short or not the file"):
        rayner.load(best, index=run / "index")
    task = StandardizerTask(read_recipe(run / "run" / "best"))  # type: ignore[arg-type]
    model = task.build().eval()
    task.fit(model, [])
    assert task.fitted.nil is None
    save_checkpoint(tmp_path / "uncalibrated", task, model, {})
    with pytest.raises(SystemExit):
        cli.main(
            [
                "index",
                "build",
                str(tmp_path / "uncalibrated"),
                str(run / "kb.jsonl"),
                "--out",
                str(tmp_path / "i"),
            ]
        )
    with pytest.raises(InputError, match="has none"):
        rayner.load(tmp_path / "uncalibrated", index=tmp_path / "i", operating_point="accuracy")
    (answer,) = rayner.load(tmp_path / "uncalibrated", index=tmp_path / "i").predict("toothbrush")
    assert answer.entity_id is not None
    assert answer.probability is None


def test_texts_go_straight_to_entities(run: Path, tmp_path: Path):
    task = recognizer()
    model = trained(task, corpus())
    found = tmp_path / "recognizer"
    save_checkpoint(found, task, model, {})
    best, index = run / "run" / "best", run / "index"
    texts = [document.text for document in corpus()]

    def piped(*stages: dict[str, Any]) -> Path:
        path = tmp_path / "pipeline.yaml"
        path.write_text(json.dumps({"stages": list(stages)}, default=str))
        return path

    last = {"checkpoint": best, "index": index, "types": ["PER"], "operating_point": "never"}
    linked = rayner.load(piped({"checkpoint": found}, last), "cpu").predict(texts)
    alone = rayner.load(found, "cpu").predict(texts)
    assert [[(m.start, m.end, m.type, m.score) for m in d.mentions] for d in linked] == [
        [(m.start, m.end, m.type, m.score) for m in d.mentions] for d in alone
    ]
    kinds = {(m.type == "PER", m.entity_id is not None) for d in linked for m in d.mentions}
    assert kinds == {(True, True), (False, False)}
    standardizer = rayner.load(best, "cpu", index=index, operating_point="never")
    for document in linked:
        for mention in document.mentions:
            if mention.type == "PER":
                (answer,) = standardizer.predict(document.text[mention.start : mention.end])
                assert mention.entity_id == answer.entity_id
                candidates = [one.entity_id for one in mention.candidates]
                assert candidates == [found.entity_id for found in answer.candidates]
    with pytest.raises(RecipeError, match=r"stages\.1\.types: .* the types are LOC, ORG, PER"):
        rayner.load(piped({"checkpoint": found}, {**last, "types": ["Drug"]}))
    (given,) = rayner.load(piped(last), "cpu").predict([replace(linked[0], mentions=alone[0].mentions)])
    assert given.mentions == linked[0].mentions
    with pytest.raises(InputError, match="no stage that finds mentions, by which a pipeline is scored; eval"):
        evaluate(piped(last), run / "kb.jsonl")
    with pytest.raises(RecipeError, match="the order entities, mentions; write contexts, mentions"):
        rayner.load(piped(last, {"checkpoint": found}))
    with pytest.raises(RecipeError, match=r"stages\.0\.index: is no option of a recognizer"):
        rayner.load(piped({"checkpoint": found, "index": index}))
    with pytest.raises(InputError, match="index: is no option of a recognizer"):
        rayner.load(found, index=index)


def test_the_report_shows_candidates_confidence_and_mistakes(run: Path):
    page = report(run / "run", run / "page.html").read_text()
    for expected in (
        "How often the right entity is among the first candidates",
        "Accuracy against coverage, and ROC curve",
        "Reliability of probabilities, and risk against coverage",
        "weighted so that 10.0 % are NIL",
        "Mistakes by category",
        "RHEL",
        "bootstrap over distinct strings",
    ):
        assert expected in page
    assert "candidates.parquet" not in page
    assert "Left out: log.jsonl is not there" in page


@pytest.mark.usefixtures("undrawn")
def test_parts_of_a_report_that_cannot_be_shown_say_why(run: Path, tmp_path: Path):
    shutil.copytree(run / "run", tmp_path / "run")
    for name in ("answers", "calibration"):
        (tmp_path / "run" / "best" / "evaluation" / f"{name}.parquet").unlink()
    (tmp_path / "run" / "best" / "metrics.json").write_text('{"accuracy": 0.5}')
    page = report(tmp_path / "run").read_text()
    for name in ("answers", "calibration"):
        assert f"Left out: best/evaluation/{name}.parquet is not there" in page
    for reason in ("holds no top1", "holds no mistakes"):
        assert f"Left out: best/metrics.json {reason}" in page
