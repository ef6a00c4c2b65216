"""Types that a handful of annotated examples name: their words are the neighbours that answers come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rayner.data.schema import UNKNOWN, Document, Mention, mention_from_row, mention_to_row
from rayner.data.writers import write_jsonl
from rayner.errors import CheckpointError, InputError, RecipeError
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint
from rayner.tasks.gaussian import neighbours
from rayner.tasks.gaussian.neighbours import encoded
from rayner.tasks.gaussian.task import GaussianOptions
from rayner.tasks.predict import predict
from rayner.tasks.stages import load_pipeline, read_pipeline
from tests.tasks.gaussian.small_gaussian import SUPPORT, gaussian, learned
from tests.tasks.small import built, corpus, spans


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a pre-training without a development set, on other types."""
    folder = tmp_path_factory.mktemp("gaussian")
    task = gaussian()
    save_checkpoint(folder / "best", task, learned(task, corpus(), 10), {})
    return folder / "best"


def test_types_that_were_never_learned_are_found_by_a_handful_of_examples(
    checkpoint: Path, tmp_path: Path
) -> None:
    write_jsonl(corpus(SUPPORT), tmp_path / "support.jsonl")
    pipeline = load_pipeline(checkpoint, "cpu", support=tmp_path / "support.jsonl")
    given = corpus(SUPPORT)
    # The same ids and texts as the support: its words are neighbours of what is asked all the same.
    answers = pipeline.predict([replace(document, mentions=()) for document in given])
    assert [spans(document) for document in answers] == [spans(document) for document in given]
    predictor: Any = pipeline.predictor
    assert predictor.names == ["DISH", "VESSEL"]
    metrics = evaluate(
        checkpoint, tmp_path / "support.jsonl", options={"support": tmp_path / "support.jsonl"}
    )
    assert set(metrics["per_type"]) == {"DISH", "VESSEL"}
    assert metrics["f1"] == 1.0


def test_a_word_outside_counts_against_the_types_that_its_document_was_annotated_for(
    checkpoint: Path, tmp_path: Path
) -> None:
    given = corpus(SUPPORT)
    apart = [
        replace(
            document,
            document_id=f"{document.document_id} {name}",
            mentions=tuple(m for m in document.mentions if m.type == name),
            annotated_types=(name,),
        )
        for document in given
        for name in ("DISH", "VESSEL")
    ]
    write_jsonl(apart, tmp_path / "support.jsonl")
    pipeline = load_pipeline(checkpoint, "cpu", support=tmp_path / "support.jsonl")
    answers = pipeline.predict([replace(document, mentions=()) for document in given])
    assert [spans(document) for document in answers] == [spans(document) for document in given]


def test_a_support_is_read_where_and_as_the_model_was_loaded(checkpoint: Path, tmp_path: Path) -> None:
    write_jsonl(corpus(SUPPORT), tmp_path / "support.jsonl")
    loaded = load_checkpoint(checkpoint, "cpu", "bfloat16")
    predictor = loaded.predictor(GaussianOptions(support=tmp_path / "support.jsonl"))
    # By these its contexts, which a ranker may choose, are chosen too.
    task = vars(predictor)["_task"]
    assert (task.device, task.precision) == ("cpu", "bfloat16")


def test_what_may_be_a_mention_is_no_neighbour(checkpoint: Path, tmp_path: Path) -> None:
    first, second = corpus(SUPPORT)
    open_ = tuple(replace(m, type=UNKNOWN) if m.type == "VESSEL" else m for m in first.mentions)
    write_jsonl([replace(first, mentions=open_), second], tmp_path / "open.jsonl")
    predictor: Any = load_pipeline(checkpoint, "cpu", support=tmp_path / "open.jsonl").predictor
    assert predictor.names == ["DISH"]
    words, of_vessel = sum(len(d.text.split()) for d in (first, second)), len(("a", "pan"))
    assert len(vars(predictor)["_support"].labels) == words - of_vessel


def test_a_span_of_which_nobody_knows_what_it_is_is_no_example(checkpoint: Path, tmp_path: Path) -> None:
    (document, *_) = corpus(["[DISH:Paella] arrived in a pan ."])
    start = document.text.index("a pan")
    unknown = Mention(start, start + 5, "?")
    write_jsonl([replace(document, mentions=(*document.mentions, unknown))], tmp_path / "support.jsonl")
    pipeline = load_pipeline(checkpoint, "cpu", support=tmp_path / "support.jsonl")
    predictor: Any = pipeline.predictor
    assert predictor.names == ["DISH"]
    write_jsonl([replace(document, mentions=(unknown,))], tmp_path / "support.jsonl")
    with pytest.raises(InputError, match="has no mention, so that there is no type to look for"):
        load_pipeline(checkpoint, "cpu", support=tmp_path / "support.jsonl")


def test_the_uncertainty_of_a_mention_is_the_entropy_of_its_words(checkpoint: Path, tmp_path: Path) -> None:
    write_jsonl(corpus(SUPPORT), tmp_path / "support.jsonl")
    pipeline = load_pipeline(checkpoint, "cpu", support=tmp_path / "support.jsonl")
    (answer,) = pipeline.predict([replace(corpus(SUPPORT)[0], mentions=())])
    model: Any = pipeline.checkpoints[0].model
    task: Any = pipeline.checkpoints[0].task
    (window,) = task.windows_of(answer)
    with torch.inference_mode():
        entropies = encoded(task, model, [window]).entropies().numpy()
    assert [m.uncertainty for m in answer.mentions] == [
        pytest.approx(entropies[:1].mean(), abs=1e-5),
        pytest.approx(entropies[3:5].mean(), abs=1e-5),
    ]
    assert mention_from_row(mention_to_row(answer.mentions[0])) == answer.mentions[0]


def test_many_neighbours_are_held_against_words_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = gaussian()
    model = built(task).eval()
    with torch.no_grad():
        task.fit(model, corpus())
    found = []
    for at_once in (1 << 14, 7):
        monkeypatch.setattr(neighbours, "_AT_ONCE", at_once)
        predictor = task.predictor(model)
        assert predictor is not None
        found.append(list(predict(predictor, corpus())))
    whole, parts = found
    assert list(map(spans, parts)) == list(map(spans, whole))
    one, other = ([m.score or 0.0 for d in answers for m in d.mentions] for answers in (whole, parts))
    assert one == pytest.approx(other, abs=1e-4)


def test_a_support_that_cannot_be_used(checkpoint: Path, tmp_path: Path) -> None:
    message = r"which has nothing to answer; give annotated examples \(--support\), or train another task"
    with pytest.raises(CheckpointError, match=message):
        load_pipeline(checkpoint, "cpu")
    write_jsonl([Document("d", "No mention at all.")], tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="has no mention, so that there is no type to look for"):
        load_pipeline(checkpoint, "cpu", support=tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="support"):
        load_pipeline(checkpoint, "cpu", support=3)
    with pytest.raises(RecipeError, match=r"^support: .*nowhere does not exist"):
        load_pipeline(checkpoint, "cpu", support=tmp_path / "nowhere")


def test_a_support_of_names_alone_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    write_jsonl(corpus(["[DISH:Paella]", "[DISH:soup]"]), tmp_path / "names.jsonl")
    with pytest.raises(InputError, match="no word outside of mentions, so that every word would be one"):
        load_pipeline(checkpoint, "cpu", support=tmp_path / "names.jsonl")


def test_a_type_of_a_support_that_only_lies_in_longer_mentions_is_told(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_jsonl(corpus(["[ORG:University of [LOC:Paris]] hired her ."]), tmp_path / "nested.jsonl")
    load_pipeline(checkpoint, "cpu", support=tmp_path / "nested.jsonl")
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "nested.jsonl has no word of LOC, which cannot be found" in told


def test_another_support_is_another_version(checkpoint: Path, tmp_path: Path) -> None:
    write_jsonl(corpus(SUPPORT), tmp_path / "support.jsonl")
    one = read_pipeline(checkpoint, {"support": tmp_path / "support.jsonl"}).version
    assert read_pipeline(checkpoint, {"support": tmp_path / "support.jsonl"}).version == one
    write_jsonl(corpus(SUPPORT[:1]), tmp_path / "support.jsonl")
    assert read_pipeline(checkpoint, {"support": tmp_path / "support.jsonl"}).version != one
    assert read_pipeline(checkpoint).version != one
