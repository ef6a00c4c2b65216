"""What a report shows of the scores of pairs and of fine types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rayner.data.schema import Document, Mention
from rayner.runtime.reports.report import report
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.kinds.pairs import Pairs
from rayner.tasks.kinds.typed_mentions import TypedMentions
from rayner.tasks.ranker.pair_splits import Relevance


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "best" / "evaluation").mkdir(parents=True)
    return tmp_path / "run"


def shown(run: Path, task: str, metrics: dict, tables: dict) -> str:
    (run / "recipe.yaml").write_text(f"task: {task}\n")
    (run / "best" / "metrics.json").write_text(json.dumps(metrics))
    for name, table in tables.items():
        pq.write_table(table, run / "best" / "evaluation" / f"{name}.parquet")
    return report(run).read_text("utf-8")


def test_a_pair_is_as_certain_as_its_answer(run: Path) -> None:
    pairs = [ContextRow(f"Sentence {i}.", "Context.", i % 2 == 0) for i in range(20)]
    # Half of them are answered rightly, all with 0.9: where it is not relevant, the score is 0.1.
    answers = [Relevance(0.9 if i < 10 else 0.1, i < 10) for i in range(20)]
    page = shown(run, "ranker", {"accuracy": 0.5, "f1": 0.5}, Pairs().to_tables(pairs, answers))
    assert "Reliability of scores of pairs" in page
    assert "Scores of pairs: 20 in bins" in page
    assert "Expected calibration error\n40.0 %" in page


def test_each_fine_type_has_its_row(run: Path) -> None:
    gold = [Document("d", "a b", (Mention(0, 1, "x"), Mention(2, 3, "y")))]
    types = (("x", 0.75), ("y", 0.25))
    predicted = [Document("d", "a b", tuple(Mention(i, i + 1, "mention", types=types) for i in (0, 2)))]
    page = shown(run, "typer", {"macro_f1": 0.5}, TypedMentions().to_tables(gold, predicted))
    assert "Probabilities of fine types: 4 in bins" in page
    row = '<th scope="row">x</th><td class="n">2</td><td class="n">75.0</td><td class="n">50.0</td>'
    assert row + '<td class="n">25.0</td>' in page


def test_of_many_types_the_first_have_rows(run: Path) -> None:
    many = tuple((f"t{i}", 0.5) for i in range(40))
    documents = [Document("d", "a", (Mention(0, 1, "mention", types=many),))]
    page = shown(run, "typer", {"macro_f1": 0.5}, TypedMentions().to_tables(documents, documents))
    assert len(re.findall(r'<th scope="row">t\d', page)) == 25
    assert "The 25 of 40 types with most predictions." in page


def test_what_is_not_there_is_said(run: Path) -> None:
    assert "Left out: best/evaluation/pairs.parquet is not there" in shown(run, "ranker", {"f1": 0.5}, {})
