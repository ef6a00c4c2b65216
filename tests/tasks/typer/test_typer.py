"""The typer as a task: examples, loss, answers, what is wrong with its input."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from rayner.config import TyperRecipe
from rayner.config.typer import MentionEncoding
from rayner.data.fine_types import gold_types
from rayner.data.schema import Document, Mention
from rayner.data.writers.jsonl import write_jsonl
from rayner.errors import CheckpointError, CorpusError, RecipeError
from rayner.models.encoder import load_encoder
from rayner.models.kept_tensors import KeptTensors
from rayner.runtime.training.example_building import build_examples
from rayner.tasks.base import Progress
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, task_of
from rayner.tasks.stage_chain import chain
from rayner.tasks.typer import mention_batches
from rayner.tasks.typer import predictor as predictor_module
from rayner.tasks.typer.task import TyperOptions, TyperTask
from rayner.tasks.typer.vocabulary import FILE, read_vocabulary
from tests.tasks.small import built, collated, corpus, found, tagger, trained, weighted_loss
from tests.tasks.typer.small_typer import DOCUMENTS, ROWS, TOKENIZER, typed, typer, types_of

GOLD = types_of(DOCUMENTS)


@pytest.mark.parametrize("encoding", get_args(MentionEncoding))
@pytest.mark.parametrize("head", ["linear", "labels"])
def test_it_learns_its_training_documents_by_heart(encoding: str, head: str) -> None:
    task = typer(model={"mention_encoding": encoding, "head": head, "projection_size": 16})
    model = trained(task, DOCUMENTS, until=lambda m: types_of(found(task, m, DOCUMENTS)) == GOLD)
    answers = found(task, model, DOCUMENTS)
    assert types_of(answers) == GOLD
    metrics = task.predictor(model).evaluate(answers, DOCUMENTS)
    assert metrics["accuracy"] == metrics["macro_f1"] == metrics["micro_f1"] == 1.0
    assert metrics["per_frequency"].keys() == {"1-9"}


def test_types_have_the_vectors_of_the_encoder_that_is_in_the_model() -> None:
    """One without a source has other weights each time, and a training builds a model twice."""
    task = typer(model={"head": "labels", "projection_size": 16})
    built(task, seed=1)
    model = built(task, seed=2)
    predictors = [task.predictor(model, given) for given in (None, TyperOptions(types=tuple(task.names)))]
    one, other = ([m.types for d in predict(p, DOCUMENTS) for m in d.mentions] for p in predictors)
    assert [[name for name, _ in types] for types in one] == [[name for name, _ in types] for types in other]
    assert np.allclose([s for types in one for _, s in types], [s for types in other for _, s in types])


def test_a_frozen_encoder_stays_as_it_is() -> None:
    task = typer(model={"train_encoder": False})
    before = {k: v.clone() for k, v in built(task).text_encoder.state_dict().items()}
    model = trained(task, DOCUMENTS, steps=5)
    assert all(torch.equal(before[k], v) for k, v in model.text_encoder.state_dict().items())


@pytest.mark.parametrize("encoding", ["head", "span_markers"])
@pytest.mark.parametrize("head", ["linear", "labels"])
def test_a_frozen_encoder_reads_each_window_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, head: str
) -> None:
    """The loss and its gradients are those of reading the windows in each step."""
    source = load_encoder("random:32x2")
    for folder in ("encoder", "other"):
        source.model.save_pretrained(tmp_path / folder)
        TOKENIZER.save(tmp_path / folder)
        torch.nn.init.zeros_(next(source.parameters()))
    settings = {"train_encoder": False, "mention_encoding": encoding, "head": head, "projection_size": 8}
    stored = typer(encoder=str(tmp_path / "encoder"), model=settings)
    model, documents = built(stored).train(), [*DOCUMENTS, *DOCUMENTS[::-1]]
    monkeypatch.setattr(mention_batches, "TOKENS_PER_BATCH", 40)
    batch = collated(stored, documents)
    assert batch.states.shape == (len(documents), 32)
    direct = dataclasses.replace(batch, states=None)
    losses, gradients = [], []
    for each in (batch, direct):
        model.zero_grad()
        losses.append(weighted_loss(stored, model, each))
        losses[-1].backward()
        gradients.append([p.grad.clone() for p in model.head.parameters() if p.grad is not None])
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients)
    reads: list[object] = []
    model.text_encoder.register_forward_hook(lambda *_: reads.append(1))
    weighted_loss(stored, model, batch)
    assert not reads
    other = typer(encoder=str(tmp_path / "other"), model=settings)
    assert other.example_settings()["states"] != stored.example_settings()["states"]
    assert typer(encoder=str(tmp_path / "other")).example_settings()["states"] is None


def test_the_types_of_a_given_mention_are_no_input() -> None:
    task = typer()
    model = built(task).eval()
    bare = [typed(text, mention, ()) for text, mention, _ in ROWS]
    assert types_of(found(task, model, bare)) == types_of(found(task, model, DOCUMENTS))


def test_examples_hold_indices_only() -> None:
    vocabulary = {f"t{i}": 1 for i in range(10_331)} | {"/place": 1}
    (row,) = typer(vocabulary).examples(DOCUMENTS[2:3])
    assert (row["type_mention"], row["type_index"], row["known"]) == ([0], [10_331], [])
    assert sum(np.size(value) for value in row.values()) < 40


def test_scores_below_their_thresholds_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,331 types only the best remains of a mention, however few mentions are scored at once."""
    task = typer({f"t{i}": 1 for i in range(10_331)})
    model = built(task).eval()
    predictor = task.predictor(model)
    windows = [window for document in DOCUMENTS for window in predictor.prepare(document)]
    scores = predictor.forward(windows)
    assert [len(part.type) for part in scores] == [1] * len(DOCUMENTS)
    assert not any(part.above.any() for part in scores)
    monkeypatch.setattr(predictor_module, "CELLS", 1)
    for one, other in zip(scores, predictor.forward(windows), strict=True):
        assert np.array_equal(one.type, other.type)
        assert np.array_equal(one.mention, other.mention)


def test_an_encoder_that_does_not_learn_reads_dev_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a training: the first evaluation keeps the states of dev's mentions, and answers stay the same."""
    task = typer(model={"train_encoder": False}, decoding={"threshold": "tuned"})
    model = built(task).eval()
    right = list(predict(task.predictor(model), DOCUMENTS))
    task.fit(model, DOCUMENTS)
    first = list(predict(task.scorer(model), DOCUMENTS))
    monkeypatch.setattr(model.text_encoder, "forward", None)
    model.thresholds.fill_(0)
    torch.nn.init.normal_(model.head.linear.bias)
    task.fit(model, DOCUMENTS)
    answers = list(predict(task.scorer(model), DOCUMENTS))
    monkeypatch.undo()
    assert answers == list(predict(task.predictor(model), DOCUMENTS))
    assert answers != first != right


def test_what_is_kept_of_dev_is_bounded() -> None:
    """The rest is read in each evaluation, and answered alike."""
    task = typer(model={"train_encoder": False})
    model = built(task).eval()
    right = list(predict(task.predictor(model), DOCUMENTS))
    reads: list[object] = []
    model.text_encoder.register_forward_hook(lambda *_: reads.append(1))
    for mentions, times in ((0, 2), (1, 2), (100, 1)):
        model.kept = KeptTensors(4 * model.text_encoder.hidden_size * mentions)
        reads.clear()
        for _ in range(2):
            assert list(predict(task.scorer(model), DOCUMENTS)) == right
        assert len(reads) == times


def test_an_encoder_that_learns_reads_dev_each_time() -> None:
    task = typer()
    model = built(task).eval()
    first = list(predict(task.scorer(model), DOCUMENTS))
    torch.nn.init.normal_(next(model.text_encoder.parameters()))
    second = list(predict(task.scorer(model), DOCUMENTS))
    assert second == list(predict(task.predictor(model), DOCUMENTS)) != first


def test_mentions_of_a_window_share_it() -> None:
    (document,) = corpus(["[PER:Ada Lovelace] met [PER:Marie Curie] in [LOC:Paris] and [LOC:Rome]."])
    task = typer({"PER": 2, "LOC": 2})
    (row,) = task.examples([document])
    assert (row["type_mention"], row["type_index"]) == ([0, 1, 2, 3], [0, 0, 1, 1])
    marked = typer({"PER": 2, "LOC": 2}, model={"mention_encoding": "span_markers"})
    assert len(list(marked.examples([document]))) == 4


def test_types_that_a_document_was_not_annotated_for_teach_nothing() -> None:
    partly = typed(*ROWS[0], annotated_types=("/person", "/place"))
    task = typer()
    model, batch = built(task), collated(task, [partly, *DOCUMENTS[1:]])
    logits = model(batch.ids, batch.mask, batch.rows, batch.places)
    loss = task.forward(model, batch, Progress(0, 1, 0, 1)).sums["type"]
    right = torch.tensor([[float(name in names) for name in task.names] for _, _, names in ROWS])
    known = torch.ones_like(right)
    known[0] = torch.tensor([float(name in ("/person", "/place")) for name in task.names])
    losses = F.binary_cross_entropy_with_logits(logits, right, reduction="none")
    torch.testing.assert_close(loss, (losses * known).sum())


def test_fine_types_of_mentions_that_a_document_was_annotated_for_are_learned() -> None:
    """Where one of the mentions of a window has no fine type, each kind has a row of its own."""
    types = [(0, 3, "Person", ("/person",)), (8, 13, "/place", ()), (18, 22, "Thing", ("/place",))]
    mentions = [Mention(b, e, t, types=tuple((name, 1.0) for name in names)) for b, e, t, names in types]
    task = typer()
    annotated = ("Person", "/place/city")
    document = Document("d", "Ada saw Paris and Rome.", tuple(mentions), annotated_types=annotated)
    fine, coarse = task.examples([document])
    index = {name: number for number, name in enumerate(task.names)}
    assert (fine["type_index"], fine["known"]) == ([index["/person"]], [])
    assert (coarse["type_index"], coarse["known"]) == ([], [index["/place/city"]])
    assert (len(fine["places"]), len(coarse["places"])) == (1, 2)
    assert fine["rejects"] == [
        "d: mention at 8-13: the document was not annotated for /place",
        "d: mention at 18-22: the document was not annotated for /place",
    ]


def test_an_unknown_mention_has_no_type_to_learn() -> None:
    document = Document("d", "Ada met Bob.", (Mention(0, 3, "PER"), Mention(8, 11, "?")))
    assert [gold_types(mention) for mention in document.mentions] == [("PER",), ()]


def test_what_is_not_learned_is_named() -> None:
    text = "Ada  met \u200b Rome."
    mentions = (
        Mention(0, 3, "x", types=(("/person", 1.0), ("/ghost", 1.0))),
        Mention(4, 5, "/person"),
        Mention(11, 15, "mention"),
    )
    (row,) = typer().examples([Document("d", text, mentions)])
    assert row["rejects"] == [
        "d: mention at 0-3: the recipe has no type /ghost",
        "d: mention at 4-5: holds no word",
        "d: mention at 11-15: has no type",
    ]
    assert len(row["places"]) == 1


@pytest.mark.parametrize("frozen", [False, True])
def test_a_document_of_which_nothing_is_learned_is_named(tmp_path: Path, frozen: bool) -> None:
    encoder = load_encoder("random:32x2")
    encoder.model.save_pretrained(tmp_path / "encoder")
    TOKENIZER.save(tmp_path / "encoder")
    write_jsonl([Document("d", "Rome.", (Mention(0, 4, "mention"),)), *DOCUMENTS], tmp_path / "train.jsonl")
    task = typer(
        encoder=str(tmp_path / "encoder"),
        corpus={"train": [str(tmp_path / "train.jsonl")], "dev": ["nowhere"]},
        model={"train_encoder": not frozen},
    )
    found = build_examples(task, tmp_path / "cache")
    assert len(found) == len(DOCUMENTS)
    (reject,) = map(json.loads, (found.folder / "rejects.jsonl").read_text().splitlines())
    assert reject == {"where": "d: mention at 0-4", "what": "has no type", "hint": ""}


def test_a_mention_of_any_length_in_a_document_of_any_length() -> None:
    text = " ".join(["word"] * 400)
    mentions = (Mention(0, len(text), "x"), Mention(500, 504, "x"), Mention(4, 5, "x"))
    for encoding in get_args(MentionEncoding):
        task = typer(model={"mention_encoding": encoding})
        (answer,) = found(task, built(task).eval(), [Document("d", text, mentions)])
        assert [bool(m.types) for m in answer.mentions] == [True, True, False]


@pytest.mark.parametrize("threshold", ["tuned", "per_type"])
def test_thresholds_are_fitted(threshold: str) -> None:
    task = typer(decoding={"threshold": threshold, "always_best": False})
    model = trained(task, DOCUMENTS, steps=30)
    metrics = task.predictor(model).evaluate(found(task, model, DOCUMENTS), DOCUMENTS)
    usual = typer(decoding={"always_best": False})
    model.thresholds.zero_()
    fixed = usual.predictor(model).evaluate(found(usual, model, DOCUMENTS), DOCUMENTS)
    assert metrics["macro_f1"] > 0
    assert metrics["macro_f1"] >= fixed["macro_f1"] or threshold == "per_type"


def test_thresholds_know_what_a_document_was_annotated_for(monkeypatch: pytest.MonkeyPatch) -> None:
    task, given = typer(decoding={"threshold": "tuned"}), []
    monkeypatch.setattr(task, "_tuned", lambda mentions: given.extend(mentions) or np.zeros(5))
    annotated = (("/person",), ("/person", "mention"), None, None)
    documents = [
        dataclasses.replace(document, annotated_types=types)
        for document, types in zip(DOCUMENTS, annotated, strict=True)
    ]
    task.fit(built(task), documents)
    assert [one.annotated for one in given] == [frozenset({"/person"}), None, None, None]


def test_a_typer_follows_a_stage_that_finds_mentions() -> None:
    documents = corpus()
    first, second = tagger(), typer({"PER": 5, "ORG": 5, "LOC": 5})
    models = trained(first, documents), trained(second, documents, steps=120)
    stage = task_of("typer").as_stage(second.predictor(models[1]), None)
    both = chain([first.predictor(models[0]), stage])
    answers = list(predict(both, [Document(d.document_id, d.text) for d in documents]))
    assert all(names == {m.type} for d in answers for m, names in zip(d.mentions, types_of([d]), strict=True))
    metrics = both.evaluate(answers, documents)
    assert metrics["f1"] == metrics["types_accuracy"] == metrics["types_macro_f1"] == 1.0
    assert metrics["per_type"].keys() == {"PER", "ORG", "LOC"}
    assert "names" not in vars(stage)


def test_types_come_from_the_corpus_a_file_or_the_recipe(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        {
            "y_str": ["b", "a"],
            "mention_span": "Ann",
            "left_context_token": [],
            "right_context_token": ["ran"],
        },
        {"y_str": ["b"], "mention_span": "Bob", "left_context_token": [], "right_context_token": []},
    ]
    (tmp_path / "train.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "types.txt").write_text("z\nb\n\n")
    base = {"task": "typer", "corpus": {"train": [str(tmp_path / "train.json")]}, "types": "auto"}

    def vocabulary(**changes: Any) -> dict[str, int]:
        recipe = parse_recipe(base | changes, "test")
        assert isinstance(recipe, TyperRecipe)
        return dict(TyperTask(recipe, TOKENIZER).vocabulary)

    assert vocabulary() == {"a": 1, "b": 2}
    assert vocabulary(min_count=2) == {"b": 2}
    assert list(vocabulary(type_list=str(tmp_path / "types.txt")).items()) == [("z", 0), ("b", 2)]
    (tmp_path / "marked.txt").write_text("b\r\nz\r\n", encoding="utf-8-sig")
    assert vocabulary(type_list=str(tmp_path / "marked.txt")) == {"b": 2, "z": 0}
    assert vocabulary(types=[{"name": "a"}]) == {"a": 1}
    (tmp_path / "types.txt").write_text("b\n/x/y/z\n/x/y2\n")
    listed = {"type_list": str(tmp_path / "types.txt")}
    assert list(vocabulary(**listed)) == ["b", "/x/y/z", "/x/y2"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "not among the types, though above some of them, and so in no answer: 2 names (/x/y of /x/y/z"
    )
    assert "/x of /x/y/z" in line
    assert vocabulary(**listed, decoding={"hierarchy": "none"})
    assert len(caplog.records) == 1
    with pytest.raises(CorpusError, match=r"no mention of a type .*: b \(2\), a \(1\)"):
        vocabulary(min_count=3)
    (tmp_path / "types.txt").write_text("a\nb\na\n")
    with pytest.raises(RecipeError, match=r"type_list: .*types\.txt:3: 'a' occurs twice"):
        vocabulary(type_list=str(tmp_path / "types.txt"))
    (tmp_path / "types.txt").write_text("a\n?\n")
    with pytest.raises(RecipeError, match=r"type_list: .*types\.txt:2: '\?' is no type"):
        vocabulary(type_list=str(tmp_path / "types.txt"))
    (tmp_path / "types.txt").write_text("\n")
    with pytest.raises(RecipeError, match="holds no type"):
        vocabulary(type_list=str(tmp_path / "types.txt"))
    with pytest.raises(RecipeError, match="type_list: nowhere does not exist"):
        vocabulary(type_list="nowhere")


def test_a_recipe_has_one_source_of_types() -> None:
    with pytest.raises(RecipeError, match="has both types and type_list"):
        typer(types=[{"name": "a"}], type_list="types.txt")
    with pytest.raises(RecipeError, match=r"the type 'a' occurs twice"):
        typer(types=[{"name": "a"}, {"name": "a"}])
    with pytest.raises(RecipeError, match=r"threshold tuned needs corpus\.dev"):
        typer(corpus={"train": ["nowhere"]}, decoding={"threshold": "tuned"})


def test_a_checkpoint_has_its_own_types(tmp_path: Path) -> None:
    task = typer(model={"head": "labels", "projection_size": 8})
    model = built(task).eval()
    task.save(model, tmp_path)
    again = TyperTask(task.recipe, TOKENIZER)
    loaded = again.load(tmp_path)
    assert again.vocabulary == task.vocabulary
    assert found(again, loaded.eval(), DOCUMENTS) == found(task, model, DOCUMENTS)
    (tmp_path / FILE).write_text('{"a": ')
    with pytest.raises(CheckpointError, match=rf"{FILE}: is cut short"):
        read_vocabulary(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        read_vocabulary(tmp_path)
