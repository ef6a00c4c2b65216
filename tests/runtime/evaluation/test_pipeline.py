"""A pipeline file is scored as a whole, and shown: real checkpoints of all four stages, none of them good."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from rayner.cli.tables import print_evaluation
from rayner.data.schema import Document, Mention
from rayner.data.writers.parquet import write_parquet
from rayner.errors import InputError, RecipeError
from rayner.files.locks import locked
from rayner.runtime import answers
from rayner.runtime.evaluation import evaluate as module
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.reports.report import report
from rayner.tasks.predict import predict
from rayner.tasks.stages import load_pipeline
from tests.browser import Visit
from tests.serving.checkpoints import PEOPLE, pipeline_folder
from tests.tasks.small import corpus

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IDS = {"Ada Lovelace": "ada", "Marie Curie": "curie"}
LACKING = "hopper"


def with_entities(document: Document) -> Document:
    """People of the knowledge base have their entity, others one that it lacks; places have none."""

    def linked(mention: Mention) -> Mention:
        text = document.text[mention.start : mention.end]
        return replace(mention, entity_id=IDS.get(text, LACKING) if mention.type == "PER" else None)

    return replace(document, mentions=tuple(map(linked, document.mentions)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = pipeline_folder(tmp_path_factory.mktemp("pipeline"), PEOPLE)
    write_parquet(map(with_entities, corpus()), folder / "gold.parquet")
    write_parquet(corpus(), folder / "unlinked.parquet")
    return folder


@pytest.fixture(scope="module")
def evaluated(folder: Path) -> tuple[Path, dict[str, Any]]:
    out = folder / "evaluation"
    return out, evaluate(folder / "pipeline.yaml", folder / "gold.parquet", device="cpu", out=out)


def test_the_whole_is_scored(folder: Path, evaluated: tuple[Path, dict[str, Any]]) -> None:
    _, metrics = evaluated
    whole = metrics["end_to_end"]
    gold = [with_entities(document) for document in corpus()]
    people = [m for d in gold for m in d.mentions if m.type == "PER"]
    assert list(whole["levels"]) == list(whole["intervals"]["levels"])
    assert list(whole["levels"]) == [
        *("span", "span_type", "fine_types", "fine_types_of_gold", "entity", "known_entity"),
    ]
    assert whole["levels"]["span_type"]["f1"] == pytest.approx(metrics["f1"])
    assert whole["levels"]["fine_types"]["f1"] == pytest.approx(metrics["types_micro_f1"])
    assert sum(whole["outcomes"].values()) == metrics["support"]
    assert whole["accuracy"]["gold_mentions"]["mentions"] == len(people)
    assert whole["unknown"] == {"mentions": sum(m.entity_id == LACKING for m in people), "ids": [LACKING]}
    assert 0 < whole["unknown"]["mentions"] < len(people)


def test_the_later_stages_are_given_the_gold_mentions(
    folder: Path, evaluated: tuple[Path, dict[str, Any]]
) -> None:
    pipeline = load_pipeline(folder / "pipeline.yaml", "cpu")
    gold = [with_entities(document) for document in corpus()]
    people = [m for d in gold for m in d.mentions if m.type == "PER"]
    answers = list(predict(pipeline.after_mentions, gold))
    found = [(d.text[m.start : m.end], m) for d in answers for m in d.mentions if m.type == "PER"]
    right = sum(m.entity_id == IDS.get(text) for text, m in found)
    accuracy = evaluated[1]["end_to_end"]["accuracy"]["gold_mentions"]
    assert accuracy["entity"] == pytest.approx(right / len(people))


def test_workers_answer_the_same(
    folder: Path, evaluated: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Ray: what loads on an actor pickles, and has both the pipeline and its later stages; the corpus
    is looked at by all CPUs before."""
    read: list[tuple[int | None, int]] = []

    def mapped(work: Any, parts: Sequence[Any], workers: int | None) -> Iterator[Any]:
        read.append((workers, len(parts)))
        return map(pickle.loads(pickle.dumps(work)), parts)

    def each(
        load: Any, parts: Iterator[Any], workers: int, needs: Any, held: Sequence[Path], device: str | None
    ) -> Iterator[Any]:
        assert device == "cpu"
        assert all(folder.is_dir() for folder in held)
        return map(pickle.loads(pickle.dumps(load))(), parts)

    monkeypatch.setattr(answers, "each_on_actors", each)
    monkeypatch.setattr(module, "parallel_map", mapped)
    monkeypatch.setattr(answers, "PART", 2)
    found = evaluate(folder / "pipeline.yaml", folder / "gold.parquet", device="cpu", workers=2)
    assert found["end_to_end"] == evaluated[1]["end_to_end"]
    assert (None, 1) in read


def test_what_was_evaluated_lies_in_the_folder_and_is_shown(
    evaluated: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    out, metrics = evaluated
    assert json.loads((out / "metrics.json").read_text())["end_to_end"] == metrics["end_to_end"]
    rows = pq.read_table(out / "evaluation" / "outcomes.parquet").to_pylist()
    lost = [row for row in rows if row["outcome"] == "unknown"]
    assert len(lost) == metrics["end_to_end"]["outcomes"]["unknown"]
    assert sum(row["gold"] is not None for row in rows) == metrics["support"]
    page = report(out).read_text(encoding="utf-8")
    for part in ("The whole pipeline", "Where the gold mentions end", "Which part to improve", "Confidence"):
        assert f">{part}<" in page
    assert "Left out" not in page
    assert "<h2>Thresholds</h2>" not in page
    assert "stages:" in page
    assert not re.search(r"url\((?!#)|@import|<script|<img|<link", page)
    print_evaluation(metrics, "corpus")
    printed = capsys.readouterr().out
    assert "Where the gold mentions end" in printed
    assert LACKING in printed


@pytest.mark.usefixtures("undrawn")
def test_without_entities_nothing_is_said_of_them(folder: Path) -> None:
    out = folder / "without"
    metrics = evaluate(folder / "pipeline.yaml", folder / "unlinked.parquet", device="cpu", out=out)
    assert (metrics["linked_f1"], metrics["linked_support"]) == (None, 0)
    assert "Probabilities of entities" not in report(out).read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 400)])
def test_a_browser_shows_the_page_without_a_network(
    evaluated: tuple[Path, dict[str, Any]], browser: Browser, dark: bool, width: int
) -> None:
    page = report(evaluated[0])
    visit = Visit(browser, "file://", width=width, dark=dark)
    visit.page.goto(page.as_uri())
    assert visit.violations() == []
    assert visit.page.get_by_label("Where the gold mentions end").is_visible()
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()
    assert [request.url for request in visit.asked] == [page.as_uri()]
    assert visit.complaints == []


def test_a_corpus_without_entities_is_scored_by_spans_and_types(folder: Path) -> None:
    whole = evaluate(folder / "pipeline.yaml", folder / "unlinked.parquet", intervals=False)["end_to_end"]
    assert list(whole["levels"]) == ["span", "span_type", "fine_types", "fine_types_of_gold"]
    assert whole["outcomes"]["right"] == round(
        whole["levels"]["span_type"]["recall"] * sum(whole["outcomes"].values())
    )


def test_fine_types_that_no_stage_knows_are_not_scored(folder: Path, tmp_path: Path) -> None:
    other = (("/elsewhere", 1.0),)
    documents = [
        replace(document, mentions=tuple(replace(mention, types=other) for mention in document.mentions))
        for document in corpus()
    ]
    write_parquet(documents, tmp_path / "other.parquet")
    whole = evaluate(folder / "pipeline.yaml", tmp_path / "other.parquet", intervals=False)["end_to_end"]
    assert list(whole["levels"]) == ["span", "span_type"]


def test_answers_of_one_evaluation_never_lie_beside_what_another_found(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    evaluate(folder / "recognizer", folder / "gold.parquet", out=out, intervals=False)
    with pytest.raises(RecipeError, match="does not exist"):
        evaluate(folder / "recognizer", tmp_path / "nowhere.parquet", out=out)
    assert (out / "evaluation.yaml").exists()

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rayner.runtime.evaluation.evaluate.write_tables", stopped)
    with pytest.raises(KeyboardInterrupt):
        evaluate(folder / "recognizer", folder / "gold.parquet", out=out, intervals=False)
    assert not (out / "evaluation.yaml").exists()
    assert not (out / "metrics.json").exists()
    (out / "report.html").touch()
    with (
        locked(out / ".lock", "evaluates"),
        pytest.raises(InputError, match=r"another process .* evaluates into this"),
    ):
        evaluate(folder / "recognizer", folder / "gold.parquet", out=out)


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_takes_the_place_of_another_and_of_nothing_else(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    evaluate(folder / "pipeline.yaml", folder / "gold.parquet", out=out, intervals=False)
    evaluate(folder / "recognizer", folder / "gold.parquet", out=out, intervals=False)
    assert sorted(path.name for path in out.iterdir()) == [
        *(".lock", "evaluation", "evaluation.yaml", "metrics.json", "recipe.yaml"),
    ]
    assert sorted(path.name for path in (out / "evaluation").iterdir()) == [
        *("gold.parquet", "predictions.parquet"),
    ]
    page = report(out).read_text(encoding="utf-8")
    assert "<h2>Mistakes</h2>" in page
    assert "The whole pipeline" not in page
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something other than an evaluation; name a new folder"):
        evaluate(folder / "recognizer", folder / "gold.parquet", out=tmp_path / "other")
