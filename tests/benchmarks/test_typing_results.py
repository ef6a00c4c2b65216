"""What `python -m benchmarks.typing_results` reads, and how it compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import typing_results
from benchmarks.typing_corpora import CORPORA
from benchmarks.typing_results import Run
from benchmarks.typing_runs import SCORED, Cut
from rayner.config.recipe_files import dump_recipe
from rayner.errors import RaynerError
from rayner.tasks.registry import parse_recipe
from tests.tasks.chains.small_chains import chains_recipe


@pytest.mark.parametrize("name", ["gum", "litbank"])
def test_no_document_is_learned_from_and_asked(corpora: Path, name: str) -> None:
    corpus = CORPORA[name]()
    [paths] = [json.loads(c.partition("=")[2]) for c in corpus.learning if c.startswith("corpus.train=")]
    learned, asked = {Path(path) for path in paths}, set(corpus.asked)
    assert len(asked) == {"gum": 30, "litbank": 9}[name]
    assert not {path.stem for path in learned} & {path.stem for path in asked}
    assert learned | asked == set(corpus.asked[0].parent.glob(f"*{corpus.asked[0].suffix}"))


def test_an_encoder_that_was_never_trained_is_named(tmp_path: Path) -> None:
    (tmp_path / "novels" / "last").mkdir(parents=True)
    assert typing_results.encoder_of("novels", tmp_path, Cut()) == str(tmp_path / "novels" / "last")
    with pytest.raises(RaynerError, match=r"--encoders: .*/stories/last is no folder"):
        typing_results.encoder_of("stories", tmp_path, Cut())


def test_another_pretraining_is_told_by_its_size(tmp_path: Path) -> None:
    recipe = parse_recipe(chains_recipe(tmp_path, training={"tokens_per_step": 8192, "epochs": 1}), "recipe")
    (tmp_path / "novels").mkdir()
    (tmp_path / "novels/recipe.yaml").write_text(dump_recipe(recipe))
    (tmp_path / "novels/result.json").write_text('{"steps": 197, "compute_precision": "bfloat16"}')
    told = typing_results.about_pretraining("novels", tmp_path)
    assert "negatives of other stories and masked words (of mentions: head)" in told
    assert "197 steps of 8,192 sub-words in 1 pass, bfloat16" in told


def test_a_gain_and_its_interval_are_over_documents(tmp_path: Path) -> None:
    """Of two documents the gain is in the first alone: each draw has it twice, once or not at all."""
    gold = [[["person"], ["place"]], [["person"], ["place"]]]
    answers = {
        "untrained": [[["place"], ["person"]], [["person"], ["place"]]],
        "masked language modelling": [gold[0], [["place"], ["place"]]],
        "coreference chains": gold,
    }
    planned = [Run("gum", encoder, "frozen", 1) for encoder in answers]
    for run in planned:
        run.out(tmp_path).mkdir(parents=True)
        kept = {"gold": gold, "found": answers[run.encoder]}
        (run.out(tmp_path) / SCORED).write_text(json.dumps(kept))
    (tmp_path / "untrained_mrr.json").write_text(json.dumps({"mrr": 0.8, "mrr_other_stories": 0.9}))
    before, plain, control, pretrained = typing_results.rows(planned, tmp_path, Cut())
    assert before["encoder"] == "untrained"
    assert (before["chain_mrr"], before["chain_mrr_other_stories"]) == (0.8, 0.9)
    assert (plain["macro_f1"], pretrained["macro_f1"]) == (0.5, 1.0)
    assert pretrained["gain"] == 0.5
    assert pretrained["gain_interval"] == [0.0, 1.0]
    # The control errs in one mention of the other document, and is not held against itself.
    assert (control["gain"], pretrained["gain_over_control"]) == (0.25, 0.25)
    assert pretrained["gain_over_control_interval"] == [0.0, 0.5]
    assert "gain_over_control" not in control
