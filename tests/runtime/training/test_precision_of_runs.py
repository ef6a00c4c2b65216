"""The precision of a run and of its answers: chosen once, kept, and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import rayner
from rayner.errors import InputError
from rayner.models.precision_choice import Choice
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.training import loop
from rayner.runtime.training.train import train, train_until
from rayner.serving.application_settings import ModelSettings
from rayner.serving.models import load_models
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import tiny_recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run of this module lies, and what it is of."""
    return tmp_path_factory.mktemp("precision")


@pytest.fixture(scope="module")
def run(folder: Path) -> dict[str, Any]:
    """A run that was to time float32 against bfloat16, was told that bfloat16 wins, and was resumed."""
    recipe = parse_recipe(tiny_recipe(folder, "recognizer", epochs=2, precision="auto"), "recipe")
    chosen = []

    def choose(asked: Any, *given: Any, **options: Any) -> Choice:
        chosen.append(asked)
        return Choice("bfloat16", 0.4)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "choose", choose)
        assert train_until(1, recipe, folder / "run") is None
        result = train(recipe, folder / "run")
    assert chosen == ["auto"]
    return result


@pytest.fixture(scope="module")
def checkpoint(run: dict[str, Any]) -> Path:
    return Path(run["checkpoint"])


def test_a_run_keeps_what_was_chosen_and_names_it(run: dict[str, Any], checkpoint: Path) -> None:
    assert run["compute_precision"] == "bfloat16"
    assert "bfloat16_time" not in run
    for name in ("best", "last"):
        manifest = json.loads((checkpoint.parent / name / "checkpoint.json").read_text())
        assert manifest["precision"] == "bfloat16"
    state = json.loads((checkpoint.parent / "last/state/state.json").read_text())
    assert state["precision"] == "bfloat16"


def test_float32_that_is_slower_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "choose", lambda *given, **options: Choice("float32", 0.44))
    recipe = parse_recipe(tiny_recipe(folder / "told", "recognizer", epochs=1), "recipe")
    result = train(recipe, folder / "told/run")
    assert (result["compute_precision"], result["bfloat16_time"]) == ("float32", 0.44)


def test_answers_are_those_of_float32_but_near_a_threshold(folder: Path, checkpoint: Path) -> None:
    texts = [json.loads(line)["text"] for line in (folder / "corpus.jsonl").read_text().splitlines()]

    def margins(precision: Any) -> dict[tuple[int, int, int, str], float]:
        # Below every threshold: what is found then is all that there is.
        loaded = rayner.load(checkpoint, "cpu", precision, shift=-1e3, overlap="nested")
        return {
            (number, m.start, m.end, m.type): m.margin
            for number, document in enumerate(loaded.predict(texts))
            for m in document.mentions
        }

    exact, rounded = margins("float32"), margins("bfloat16")
    assert exact.keys() == rounded.keys()
    assert len(exact) > 1000
    # A score is a cosine over the temperature, 0.07; the unit vectors of span, type and threshold move by
    # what 28 roundings come to, the root of their number times 2^-8.
    moved = 3 * 28**0.5 * 2**-8 / 0.07
    differences = [abs(exact[key] - rounded[key]) for key in exact]
    assert 0 < max(differences) < moved
    undecided = [key for key in exact if (exact[key] > 0) != (rounded[key] > 0)]
    assert all(abs(exact[key]) < moved for key in undecided)
    assert len(undecided) < 0.05 * len(exact)


def test_an_evaluation_names_it(folder: Path, checkpoint: Path) -> None:
    told = [evaluate(checkpoint, folder / "corpus.jsonl", precision=name) for name in (None, "bfloat16")]
    assert [metrics["compute_precision"] for metrics in told] == ["float32", "bfloat16"]
    assert told[0]["f1"] == pytest.approx(told[1]["f1"], abs=0.05)


def test_an_annotation_names_it_and_goes_on_in_no_other(folder: Path, checkpoint: Path) -> None:
    given, out = [folder / "corpus.jsonl"], folder / "annotated"
    result = annotate(checkpoint, given, out, workers=0, precision="auto")
    assert result["compute_precision"] in ("float32", "bfloat16")
    half = annotate(checkpoint, given, folder / "half", workers=0, precision="bfloat16")
    assert half["compute_precision"] == "bfloat16"
    assert half["model_version"].endswith("+bfloat16")
    versions = pq.read_table(folder / "half")["model_version"].unique().to_pylist()
    assert versions == [half["model_version"]]
    with pytest.raises(InputError, match="another precision"):
        annotate(checkpoint, given, folder / "half", workers=0)


def test_a_service_names_it_and_changes_it(checkpoint: Path) -> None:
    def loaded(precision: Any, old: Any = None) -> Any:
        return load_models(ModelSettings(checkpoint=str(checkpoint), precision=precision), 2, old, "cpu")

    plain = loaded(None)
    half = loaded("bfloat16", plain)
    assert half.flat_versions()["recognizer"] == plain.flat_versions()["recognizer"] + "+bfloat16"
    again = loaded("auto", half)
    assert again.pipelines[0].stages[0].loaded is half.pipelines[0].stages[0].loaded
    back = loaded(None, half)
    assert back.flat_versions() == plain.flat_versions()
