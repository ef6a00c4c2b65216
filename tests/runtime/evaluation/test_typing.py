"""What a run of the typer leaves: metrics, a checkpoint that is scored again, a table and a report."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rayner.cli.tables import print_metrics
from rayner.errors import CorpusError
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.reports.report import report
from rayner.runtime.training.train import train
from rayner.tasks.kinds.typed_mentions import TypedMentions
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import tiny_recipe


@pytest.mark.usefixtures("undrawn")
def test_a_run_is_scored_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    values: dict[str, Any] = tiny_recipe(tmp_path, "typer", epochs=1) | {"types": "auto"}
    recipe = parse_recipe(values, "recipe")
    found = train(recipe, tmp_path / "run")
    corpus = Path(values["corpus"]["train"][0])
    metrics = evaluate(Path(found["checkpoint"]), corpus)
    for name in ("accuracy", "macro_f1", "micro_f1"):
        assert metrics[name] == pytest.approx(found["metrics"][name], abs=1e-6)
        low, high = metrics["intervals"][name]
        assert low <= metrics[name] <= high
    assert metrics["untyped"] == 0
    mapped: list[int] = []

    def mapper(work: Any, parts: Sequence[Any]) -> Iterator[Any]:
        mapped.append(len(parts))
        return map(pickle.loads(pickle.dumps(work)), parts)

    read: Any = (values["corpus"]["train"], "auto", recipe, None, None, mapper)
    assert TypedMentions().read(*read).notes == {"untyped": 0}
    assert mapped == [0, 1, 1], "no large file; what is in the files; their mentions with types"
    print_metrics(metrics, "corpus")
    assert "macro_f1" in capsys.readouterr().out
    page = report(tmp_path / "run").read_text(encoding="utf-8")
    assert "<h2>Types</h2>" in page
    assert "LOC" in page
    assert "<h2>Thresholds</h2>" not in page
    assert "Reliability of probabilities of fine types" in page
    untyped = tmp_path / "untyped.jsonl"
    untyped.write_text('{"text": "a b", "mentions": [{"start": 0, "end": 1, "type": "mention"}]}\n')
    with pytest.raises(CorpusError, match="1 mention, none with a type"):
        evaluate(Path(found["checkpoint"]), untyped)
    assert "not looked for" not in caplog.text
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "a b", "mentions": [{"start": 0, "end": 1, "type": "SHIP"}]}\n')
    assert evaluate(Path(found["checkpoint"]), other)["macro_f1"] == 0
    assert "no mention is annotated of a type that is looked for: scores of 0 tell nothing" in caplog.text
    assert "types that are not looked for count as not found: SHIP (1)" in caplog.text
    caplog.clear()
    evaluate(Path(found["checkpoint"]), [corpus, other])
    assert "SHIP (1)" in caplog.text
    assert "no mention is annotated" not in caplog.text
    caplog.clear()
    evaluate(Path(found["checkpoint"]), [corpus, other], types=["LOC"])
    assert "SHIP" not in caplog.text
    evaluate(Path(found["checkpoint"]), [corpus, other], types=["SHIP"])
    assert "no mention is annotated of a type that is looked for" in caplog.text
