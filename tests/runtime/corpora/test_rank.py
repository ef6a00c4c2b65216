"""`corpus rank`: documents by how uncertain a checkpoint is about them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rayner.data.schema import Document
from rayner.data.writers import write_jsonl
from rayner.errors import CheckpointError, CorpusError
from rayner.runtime import answers
from rayner.runtime.corpora import rank as module
from rayner.runtime.corpora.convert import convert
from rayner.runtime.corpora.rank import rank
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.uncertainty import Uncertainty
from tests.pickled_actors import each_pickled
from tests.tasks.small import built, corpus, tagger, trained
from tests.tasks.small_pairs import ranker_recipe

STRANGE = Document("strange", "Zorn unaffably quizzed Qwxyz Ltd. near Grmbl.")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = tagger()
    folder = tmp_path_factory.mktemp("tagger") / "best"
    save_checkpoint(folder, task, trained(task, corpus()), {})
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    write_jsonl([*corpus(), STRANGE], folder / "a.jsonl")
    write_jsonl(corpus()[:2], folder / "b.jsonl")
    return folder


def test_what_is_strange_comes_first_and_each_document_once(
    checkpoint: Path, texts: Path, tmp_path: Path
) -> None:
    result = rank([texts], checkpoint, tmp_path / "out")
    assert (result["documents"], result["duplicates"], result["rejected"]) == (6, 2, 0)
    rows = [json.loads(line) for line in (tmp_path / "out/ranking.jsonl").read_text("utf-8").splitlines()]
    assert rows == pq.read_table(tmp_path / "out/ranking.parquet").to_pylist() == result["first"]
    assert rows[0]["document_id"] == "strange"
    assert [row["rank"] for row in rows] == list(range(1, 7))
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert sum(row["words"] for row in rows) == result["words"]
    again = rank([texts], checkpoint)
    assert again["first"] == rows
    lowered = rank([texts], checkpoint, precision="bfloat16")
    assert lowered["model_version"] == again["model_version"] + "+bfloat16"
    of_words = [{row["document_id"]: row["score"] for row in one["first"]} for one in (again, lowered)]
    assert of_words[0] != of_words[1]
    assert of_words[0] == pytest.approx(of_words[1], rel=0.1)


def test_a_document_without_words_comes_last(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The entropy of a narrow Gaussian is below 0, the score of a document of which there is nothing to say.
    certain = [Uncertainty(0.0, 0), Uncertainty(-2.0, 3), Uncertainty(-1.0, 3)]
    monkeypatch.setattr(
        module, "answers_here", lambda _, documents: [certain[n] for n, _ in enumerate(documents)]
    )
    documents = [Document("void", ""), Document("sure", "Ada slept well."), Document("less", "Zorn saw Qwx.")]
    write_jsonl(documents, tmp_path / "in/a.jsonl")
    first = rank([tmp_path / "in"], checkpoint)["first"]
    assert [row["document_id"] for row in first] == ["less", "sure", "void"]


def test_a_pipeline_file_is_taken_for_its_stage_of_mentions(
    checkpoint: Path, texts: Path, tmp_path: Path
) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(f"stages: [{{checkpoint: {checkpoint}}}]")
    found, known = (rank([texts], given) for given in (pipeline, checkpoint))
    assert {**found, "seconds": 0} == {**known, "seconds": 0}


def test_unlike_documents_of_one_id_are_rejected(checkpoint: Path, tmp_path: Path) -> None:
    write_jsonl([Document("d0", "Ada slept.")], tmp_path / "in/a.jsonl")
    write_jsonl([Document("d0", "Another text.")], tmp_path / "in/b.jsonl")
    result = rank([tmp_path / "in"], checkpoint, tmp_path / "out")
    assert (result["documents"], result["duplicates"], result["rejected"]) == (1, 0, 1)
    (reject,) = map(json.loads, (tmp_path / "out/rejects.jsonl").read_text("utf-8").splitlines())
    assert "document 'd0' differs from the one at" in reject["what"]
    assert reject["where"].endswith("b.jsonl:1")


def test_what_cannot_be_ranked(checkpoint: Path, texts: Path, tmp_path: Path) -> None:
    values = ranker_recipe(tmp_path / "ranker")
    task = train_task(parse_recipe(values, "recipe"))
    other = tmp_path / "other"
    save_checkpoint(other, task, task.build(), {})
    with pytest.raises(CheckpointError, match="is of the task ranker, which does not say") as refused:
        rank([texts], other)
    assert refused.value.hint.endswith("a task that does: recognizer, tagger, gaussian")
    (tmp_path / "void").mkdir()
    (tmp_path / "void/a.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a\.jsonl: an empty file"):
        rank([tmp_path / "void"], checkpoint)
    with pytest.raises(CorpusError, match="holds the input"):
        rank([texts], checkpoint, texts)
    broken = tagger()
    model = built(broken)
    model.linear.bias.data.fill_(float("nan"))
    save_checkpoint(tmp_path / "broken", broken, model, {})
    with pytest.raises(CheckpointError, match="NaN or infinite"):
        rank([texts], tmp_path / "broken")


def test_an_actor_ranks_as_this_process(
    checkpoint: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "each_on_actors", each_pickled)
    one, other = rank([texts], checkpoint), rank([texts], checkpoint, workers=1)
    assert {**other, "seconds": 0} == {**one, "seconds": 0}


def test_rejects_of_a_conversion_are_kept(checkpoint: Path, texts: Path, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"text": "Ada slept."}\n{\n')
    convert([tmp_path / "more.jsonl"], tmp_path / "out", workers=0)
    rejects = (tmp_path / "out/rejects.jsonl").read_text()
    with pytest.raises(CorpusError, match="holds files that are not from here"):
        rank([texts], checkpoint, tmp_path / "out")
    assert (tmp_path / "out/rejects.jsonl").read_text() == rejects
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    for _ in range(2):
        assert rank([texts], checkpoint, tmp_path / "mine")["documents"] == 6
