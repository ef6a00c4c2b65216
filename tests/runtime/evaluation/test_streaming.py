"""An evaluation reads its corpus while it answers: of the texts it holds some, however many there are."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from rayner.data import scans
from rayner.errors import CorpusError
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.tasks import predict
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.kinds.documents import Documents
from tests.runtime.evaluation.toy_checkpoint import checkpoint_in
from tests.whole_corpora import split_documents

WORD = "x" * 199
DOCUMENT_BYTES = 100 * 200


def corpus(path: Path, documents: int) -> Path:
    """Files of ten documents of a hundred long words, the first of each a mention."""
    path.mkdir()
    row: dict[str, Any] = {"text": f"{WORD} " * 100, "mentions": [{"start": 0, "end": 199, "type": "A"}]}
    for first in range(0, documents, 10):
        rows = [row | {"document_id": f"d{number}"} for number in range(first, first + 10)]
        (path / f"{first:05d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_memory_does_not_grow_with_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = checkpoint_in(tmp_path, bias=-9.0)
    monkeypatch.setattr(scans, "PART_BYTES", 10 * DOCUMENT_BYTES)
    monkeypatch.setattr(predict, "BATCHES_PER_ROUND", (1, 1))

    def peak(given: Path) -> int:
        tracemalloc.start()
        found = evaluate(checkpoint, given, intervals=False)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found["support"] == len(list(given.iterdir())) * 10
        return most

    few, many = corpus(tmp_path / "few", 40), corpus(tmp_path / "many", 240)
    peak(few)  # What is read once and kept counts for neither.
    assert peak(many) - peak(few) < 0.25 * 200 * DOCUMENT_BYTES


def test_a_corpus_without_a_mention_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = tmp_path / "plain.jsonl"
    given.write_text('{"text": "Nobody is named here."}\n')
    evaluate(checkpoint_in(tmp_path, bias=0.0), given)
    assert "plain.jsonl: no mentions to score against" in caplog.text


def test_scores_are_those_of_documents_that_are_held(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, bias=0.0)
    given = corpus(tmp_path / "corpus", 30)
    (given / "again.jsonl").write_text((given / "00000.jsonl").read_text())
    loaded = load_checkpoint(checkpoint)
    predictor = loaded.predictor()
    settings = loaded.recipe.corpus.model_copy(update={"train": (str(given),), "dev": (str(given),)})
    held = split_documents(settings, "dev")
    answers = list(predict.predict(predictor, held))
    found = evaluate(checkpoint, given)
    assert found["support"] == 30
    expected = predictor.evaluate(answers, held)
    intervals = Documents().intervals(held, answers, expected)
    assert found == expected | {"intervals": intervals, "compute_precision": "float32"}


def test_a_corpus_without_documents_is_refused(tmp_path: Path) -> None:
    checkpoint = checkpoint_in(tmp_path, bias=0.0)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(CorpusError, match=r"empty\.jsonl"):
        evaluate(checkpoint, tmp_path / "empty.jsonl")
