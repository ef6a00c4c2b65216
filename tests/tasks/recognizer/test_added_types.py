"""Types added to a recognizer: what it had stays as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rayner
from rayner.config import RecognizerRecipe, SpanDecoding, TypeSettings
from rayner.data.schema import UNKNOWN, Document
from rayner.errors import CheckpointError, CorpusError, InputError
from rayner.losses.span_contrast import SpanScores, candidate_spans
from rayner.models.frozen_features import FrozenFeatures
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint
from rayner.tasks.recognizer.added_types import effects_of_flat_decoding, require_added, with_added_types
from rayner.tasks.recognizer.adding import STEPS_OF_AN_EPOCH, AddingTask, recognizer_task
from rayner.tasks.recognizer.task import RecognizerOptions, RecognizerTask
from rayner.tasks.registry import adding_types, parse_recipe
from tests.tasks.small import BASE, TYPES, built, corpus, found, marked, recognizer, spans, tagger, trained

VARIANTS: Sequence[dict[str, Any]] = (
    {},
    {"threshold": "tuned"},
    {"threshold": "learned", "encoders": "shared"},
    {"type_encoding": "atomic"},
    {"shared_linear": True, "width_embedding_size": 0},
)
ANIMAL = TypeSettings(name="ANIMAL", description="cats and dogs")


def saved(folder: Path, task: Any, model: torch.nn.Module) -> Path:
    save_checkpoint(folder, task, model, {})
    return folder


def adding(folder: Path, types: Sequence[Any], **changes: Any) -> AddingTask:
    values = {"task": "recognizer", "corpus": BASE["corpus"], "types": types, **changes}
    task = recognizer_task(with_added_types(parse_recipe(values, "test"), folder))
    assert isinstance(task, AddingTask)
    return task


def scores(task: RecognizerTask, model: Any, options: RecognizerOptions | None = None) -> SpanScores:
    """Of all windows of the corpus, 0 outside of them."""
    predictor = task.predictor(model, options)
    windows = [window for document in corpus() for window in predictor.prepare(document)]
    real = task.padded([window.row["ids"] for window in windows])[1]
    with torch.inference_mode():
        ((_, one),) = predictor.scores(windows)[0]
    span = one.span * candidate_spans(real, real, one.span.shape[3])[:, None]
    return one._replace(start=one.start * real[:, None], end=one.end * real[:, None], span=span)


def assert_same(one: SpanScores, other: SpanScores, columns: Any, atol: float = 1e-6) -> None:
    for name, before, after in zip(SpanScores._fields, one, other, strict=True):
        torch.testing.assert_close(after[:, columns], before, rtol=0, atol=atol, msg=name)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecognizerTask, Any, Path]:
    """A recognizer of two types, its model and its checkpoint."""
    task = recognizer(types=TYPES[:2])
    model = trained(task, corpus(), steps=10)
    return task, model, saved(tmp_path_factory.mktemp("taught") / "base", task, model)


@pytest.mark.parametrize("model", VARIANTS)
def test_the_scores_of_old_types_stay(tmp_path: Path, model: dict[str, Any]) -> None:
    task = recognizer(types=TYPES[:2], model=model)
    learned = trained(task, corpus(), steps=10)
    base = saved(tmp_path / "base", task, learned)
    task_2 = adding(base, TYPES[2:])
    begun, model_2 = built(task_2), trained(task_2, corpus(), steps=20, rate=0.02)
    changed = {
        name
        for name, tensor in model_2.state_dict().items()
        if not torch.equal(tensor, begun.state_dict()[name])
    }
    assert changed == {"own.vectors", "thresholds" if model.get("threshold") == "tuned" else "own.offsets"}
    loaded = load_checkpoint(saved(tmp_path / "second", task_2, model_2), "cpu")
    assert isinstance(loaded.task, AddingTask)
    before, after = scores(task, learned), scores(loaded.task, loaded.model)
    assert after.span.shape[1] == 3
    assert_same(before, after, slice(2))
    # Once more: both of the earlier kinds are as they were.
    task_3 = adding(tmp_path / "second", [{"name": "ANIMAL", "description": "cats and dogs"}])
    model_3 = trained(task_3, [*corpus(), marked("[ANIMAL:Cats] sleep.", "c")], steps=5, rate=0.02)
    third = load_checkpoint(saved(tmp_path / "third", task_3, model_3), "cpu")
    assert isinstance(third.task, AddingTask)
    assert third.recipe.added.earlier == ("LOC",)  # type: ignore[attr-defined]
    assert_same(after, scores(third.task, third.model), slice(3))


def test_an_added_type_begins_as_its_description_says(taught: tuple[RecognizerTask, Any, Path]) -> None:
    task, model, base = taught
    described = RecognizerOptions(types=(TypeSettings.model_validate(TYPES[2]),))
    expected = scores(task, model, described)
    task_2 = adding(base, TYPES[2:])
    # Vectors of length 1 are made so once more.
    assert_same(expected, scores(task_2, task_2.build().eval()), slice(2, 3), atol=1e-5)


def test_scores_are_calibrated_as_those_of_the_checkpoint(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2], calibration={"fraction": 0.2})
    model = trained(task, corpus(), steps=10)
    task.calibrate(model, corpus())
    assert task.calibration is not None
    task_2 = adding(saved(tmp_path / "base", task, model), TYPES[2:])
    model_2 = task_2.build().eval()
    assert task_2.calibration == task.calibration
    # Those of old types stay; those of added ones are fitted.
    task_2.calibrate(model_2, corpus())
    assert task_2.calibration is not None
    assert task_2.calibration.pooled == task.calibration.pooled
    old = [TypeSettings.model_validate(one).name for one in TYPES[:2]]
    for name in old:
        assert task_2.calibration.types.get(name) == task.calibration.types.get(name)
    added = TypeSettings.model_validate(TYPES[2]).name
    assert added in task_2.calibration.types
    assert added not in task.calibration.types


def test_scores_of_a_checkpoint_without_a_calibration_stay(taught: tuple[RecognizerTask, Any, Path]) -> None:
    task_2 = adding(taught[2], TYPES[2:])
    task_2.calibrate(task_2.build().eval(), corpus())
    assert task_2.calibration is not None
    added = TypeSettings.model_validate(TYPES[2]).name
    assert list(task_2.calibration.types) == [added]
    for margin in (-2.0, 0.0, 3.37):
        found = task_2.calibration.probability(TypeSettings.model_validate(TYPES[0]).name, margin)
        assert found == pytest.approx(1 / (1 + math.exp(-margin)))


def test_an_added_type_is_learned(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    base = saved(tmp_path / "base", task, built(task).eval())
    task_2 = adding(base, TYPES[2:])
    before = found(task_2, task_2.build().eval(), corpus())
    after = found(task_2, trained(task_2, corpus(), steps=120, rate=0.03), corpus())
    gold = {(d.document_id, *s) for d in corpus() for s in spans(d) if s[2] == "LOC"}
    hits = [len(gold & {(d.document_id, *s) for d in side for s in spans(d)}) for side in (before, after)]
    assert hits[1] > max(hits[0], len(gold) / 2)


@pytest.mark.parametrize("threshold", ["dynamic", "learned"])
def test_a_request_names_added_types_and_describes_others(
    tmp_path: Path, threshold: str, caplog: pytest.LogCaptureFixture
) -> None:
    task = recognizer(types=TYPES[:2], model={"threshold": threshold})
    learned = trained(task, corpus(), steps=10)
    base = saved(tmp_path / "base", task, learned)
    task_2 = adding(base, TYPES[2:])
    model_2 = trained(task_2, corpus(), steps=20, rate=0.02)
    model_2 = load_checkpoint(saved(tmp_path / "best", task_2, model_2), "cpu").model
    everything = scores(task_2, model_2)
    own = TypeSettings.model_validate(TYPES[2])
    for named in (TypeSettings(name="LOC"), own):
        asked = RecognizerOptions(types=(ANIMAL, named))
        there = scores(task_2, model_2, asked)
        assert_same(SpanScores(*(part[:, 2:] for part in everything)), there, slice(1, 2))
        # What was not added is encoded and held against the thresholds of the model that there was.
        assert_same(scores(task, learned, RecognizerOptions(types=(ANIMAL,))), there, slice(1))
    assert "is not read" not in caplog.text
    other = TypeSettings(name="LOC", description="colours")
    there = scores(task_2, model_2, RecognizerOptions(types=(other,)))
    assert_same(SpanScores(*(part[:, 2:] for part in everything)), there, slice(1))
    assert "the description that was given is not read: LOC" in caplog.text
    assert task_2.new_types(RecognizerOptions(types=(ANIMAL, other))).keys() == {"ANIMAL"}


def test_a_checkpoint_with_added_types_answers_as_any_other(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    base = saved(tmp_path / "base", task, built(task).eval())
    task_2 = adding(base, TYPES[2:])
    best = saved(tmp_path / "best", task_2, trained(task_2, corpus(), steps=80, rate=0.03))
    # It needs the first no more.
    base.rename(tmp_path / "elsewhere")
    answers = rayner.load(best, "cpu", shift=-2.0).predict(corpus())
    assert "LOC" in {m.type for d in answers for m in d.mentions}
    named = rayner.load(best, "cpu", types=[{"name": "LOC"}], shift=-2.0).predict(corpus())
    assert {m.type for d in named for m in d.mentions} == {"LOC"}


@pytest.mark.parametrize("model", [{}, {"threshold": "learned"}, {"shared_linear": True}])
def test_scores_depend_on_no_other_type(model: dict[str, Any]) -> None:
    task = recognizer(model=model)
    learned = trained(task, corpus(), steps=10)
    types = list(task.recipe.types)
    alone = scores(task, learned, RecognizerOptions(types=(types[0],)))
    words = ("red", "green stones of the river", "old", "things that somebody made by hand", "wild birds")
    texts = [f"{words[n % len(words)]} {n}" * (1 + n % 3) for n in range(1000)]
    others = [TypeSettings(name=f"T{n}", description=text) for n, text in enumerate(texts)]
    for count, place in ((1, 1), (2, 0), (7, 3), (100, 50), (1000, 0), (1000, 1000)):
        asked = (*others[:place], types[0], *others[place:count])
        assert len(asked) == count + 1
        together = scores(task, learned, RecognizerOptions(types=asked))
        assert_same(alone, together, slice(place, place + 1))


@pytest.fixture(scope="module")
def taught_more(taught: tuple[RecognizerTask, Any, Path]) -> tuple[AddingTask, Any]:
    """A third type added to it, and its model."""
    task = adding(taught[2], TYPES[2:])
    return task, trained(task, corpus(), steps=10)


@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_scores_depend_on_no_order(order: tuple[int, ...], taught_more: tuple[AddingTask, Any]) -> None:
    task_2, model = taught_more
    types = tuple(task_2.recipe.types[number] for number in order)
    plain, mixed = scores(task_2, model), scores(task_2, model, RecognizerOptions(types=types))
    assert_same(SpanScores(*(part[:, list(order)] for part in plain)), mixed, slice(3))


def test_what_flat_decoding_takes_is_counted() -> None:
    gold = [marked("[PER:Ada Lovelace] saw [ORG:Acme] and [LOC:Rome].", "d")]
    text = gold[0].text

    def mention(words: str, kind: str, margin: float) -> rayner.Mention:
        start = text.index(words)
        return rayner.Mention(start, start + len(words), kind, margin=margin)

    nested = [
        Document(
            "d",
            text,
            (
                mention("Ada Lovelace", "PER", 1.0),
                mention("Lovelace", "PER", 0.5),
                mention("Acme", "ORG", 1.0),
                mention("Ada", "NEW", 2.0),
                mention("Rome", "LOC", 0.2),
            ),
        )
    ]
    effects = effects_of_flat_decoding(gold, nested, ["NEW"], SpanDecoding())
    counts = {name: effects[name] for name in ("before", "after", "lost", "lost_correct", "gained")}
    assert counts == {"before": 3, "after": 3, "lost": 1, "lost_correct": 1, "gained": 1}
    assert (effects["f1_before"], effects["f1_after"]) == pytest.approx((1.0, 2 / 3))
    assert effects["per_type"]["PER"]["lost"] == 1
    assert effects["per_type"]["ORG"] == {
        **dict.fromkeys(("before", "after", "f1_before", "f1_after"), 1),
        **dict.fromkeys(("lost", "lost_correct", "gained"), 0),
    }
    assert effects_of_flat_decoding(gold, nested, ["NEW"], SpanDecoding(overlap="nested"))["lost"] == 0


def test_mentions_of_types_that_nobody_looks_for_change_no_effect(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    more = adding(saved(tmp_path / "base", task, trained(task, corpus(), 20)), [ANIMAL])
    model, dev = built(more), corpus()
    own = [replace(d, mentions=tuple(m for m in d.mentions if m.type in more.names)) for d in dev]
    others = [replace(d, mentions=(*d.mentions, rayner.Mention(0, 3, UNKNOWN))) for d in dev]
    assert sum(len(d.mentions) for d in own) < sum(len(d.mentions) for d in dev)
    effects = more.measure(model, own)
    assert effects["flat_decoding"]["f1_before"] > 0
    assert more.measure(model, others) == effects


def test_answers_of_which_nobody_knows_what_they_are_are_not_wrong(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    more = adding(saved(tmp_path / "base", task, trained(task, corpus(), 20)), [ANIMAL])
    model, dev = built(more), corpus()
    scores = []
    for kept in ((), (UNKNOWN,)):
        as_kept = [tuple(replace(m, type=name) for m in d.mentions for name in kept) for d in dev]
        given = [replace(d, mentions=as_kept[n] if n % 2 else d.mentions) for n, d in enumerate(dev)]
        scores.append(more.measure(model, given)["flat_decoding"]["f1_before"])
    assert 0 < scores[0] < scores[1]


def test_few_examples_are_gone_through_several_times(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    task_2 = adding(saved(tmp_path / "base", task, built(task)), TYPES[2:])
    lengths = np.array([300, 400, 500, 600])
    plans = [task_2.plan(lengths, None, epoch) for epoch in range(3)]
    assert {len(plan) for plan in plans} == {len(plans[0])}
    assert len(plans[0]) >= STEPS_OF_AN_EPOCH
    seen = np.bincount(np.concatenate(list(plans[1])))
    assert len(set(seen.tolist())) == 1
    many = np.full(1000, 500)
    assert np.bincount(np.concatenate(list(task_2.plan(many, None, 0)))).max() == 1


def test_features_are_computed_once_and_the_same_in_any_batch() -> None:
    asked = []

    def encode(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        asked.append(ids.tolist())
        return ids.unsqueeze(2) * torch.ones(3)

    ids, mask = torch.tensor([[1, 2, 0], [3, 4, 5]]), torch.tensor([[1, 1, 0], [1, 1, 1]]).bool()
    features = FrozenFeatures(encode)
    with torch.inference_mode():
        one = features(ids, mask)
    other = features(ids.flip(0), mask.flip(0))
    assert torch.equal(one, other.flip(0))
    assert torch.equal(one, ids.unsqueeze(2) * torch.ones(3))
    assert not other.is_inference()
    assert asked == [[[1, 2]], [[3, 4, 5]]]
    limited = FrozenFeatures(encode, limit=2 * 3 * 4)
    limited(ids, mask)
    limited(ids, mask)
    assert asked[2:] == [[[1, 2]], [[3, 4, 5]], [[3, 4, 5]]]


def test_what_cannot_be_added_is_said(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    base = saved(tmp_path / "base", task, built(task))
    with pytest.raises(InputError, match=r"^types: 'ORG' is a type that .*base already has; name only new"):
        adding(base, TYPES[1:])
    with pytest.raises(
        InputError, match=r"^model.max_span_width: is 12, but 8 in .*base, which stays as it is"
    ):
        adding(base, TYPES[2:], model={"max_span_width": 12})
    adding(base, TYPES[2:], model={"max_span_width": 8}, encoder="random:32x2")
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        adding(tmp_path, TYPES[2:])
    other = tagger()
    save_checkpoint(tmp_path / "tagger", other, built(other), {})
    with pytest.raises(CheckpointError, match="holds a tagger; types are added to a recognizer"):
        adding(tmp_path / "tagger", TYPES[2:])
    with pytest.raises(InputError, match=r"^task: types cannot be added to a tagger; train a recognizer"):
        adding_types(other.recipe, base)


def test_a_type_of_one_mention_is_refused(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    task_2 = adding(saved(tmp_path / "base", task, built(task)), TYPES[2:])
    require_added({"LOC": 2}, task_2.added)
    for counts, said in (({"LOC": 1}, "1 mention"), ({"PER": 7}, "no mention")):
        with pytest.raises(
            CorpusError, match=f"^corpus.train: {said} of the added type 'LOC', .* at least 2"
        ):
            require_added(counts, task_2.added)


def test_another_checkpoint_in_its_place_is_refused(tmp_path: Path) -> None:
    task = recognizer(types=TYPES[:2])
    base = saved(tmp_path / "base", task, built(task))
    task_2 = adding(base, TYPES[2:])
    base.rename(tmp_path / "old")
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        task_2.build()
    saved(tmp_path / "base", task, built(task, seed=1))
    with pytest.raises(CheckpointError, match="types were to be added to recognizer-"):
        task_2.build()


def test_added_types_are_the_last_of_a_recipe() -> None:
    added = {"checkpoint": "runs/x", "version": "recognizer-0", "types": ["PER"]}
    with pytest.raises(InputError, match="added names PER, which are not the last of types"):
        recognizer(added=added)
    assert isinstance(recognizer(added={**added, "types": ["LOC"]}).recipe, RecognizerRecipe)
