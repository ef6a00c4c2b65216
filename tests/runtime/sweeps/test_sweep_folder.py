"""The folder of a sweep: which sweep it belongs to, who works there, and who sees it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from rayner.errors import InputError
from rayner.files.locks import LOCK, locked
from rayner.runtime.reports.report import report
from rayner.runtime.run_folder import check_no_sweep
from rayner.runtime.shared_folder import NotSharedError, check_visible, marker_file
from rayner.runtime.sweeps.folder import check_data, claim_folder
from rayner.runtime.sweeps.space import Space
from rayner.runtime.sweeps.sweep import sweep, what_is_next
from rayner.runtime.sweeps.sweep_settings import sweep_settings
from tests.runtime.training.toy_task import toy_recipe

RATE = "training.head_learning_rate"
TAGGER = {"task": "tagger", "corpus": {"train": ["x"]}, "types": [{"name": "A"}]}


def config(epochs: int, scheduler: str = "asha", trials: int = 4) -> dict[str, Any]:
    settings = {"scheduler": scheduler, "trials": trials}
    return {"recipe": {"training": {"epochs": epochs}}, "settings": settings}


def test_a_sweep_that_was_refused_before_its_first_trial_leaves_the_folder_to_others(tmp_path: Path) -> None:
    claim_folder(tmp_path, False, config(1))
    (tmp_path / "corpora").mkdir()
    (tmp_path / ".examples").mkdir()
    claim_folder(tmp_path, False, config(2))
    assert not (tmp_path / "corpora").exists()
    assert (tmp_path / ".examples").exists()
    (tmp_path / "trials" / "a").mkdir(parents=True)
    with pytest.raises(InputError, match=r"changed: recipe\.training\.epochs; start over with --fresh"):
        claim_folder(tmp_path, False, config(1))
    claim_folder(tmp_path, True, config(1))
    assert not (tmp_path / "trials").exists()


@pytest.mark.parametrize("name", ["best.yaml", "result.json", "trials/mine.txt", "corpora/mine.txt"])
@pytest.mark.parametrize("fresh", [False, True])
def test_files_of_others_are_neither_written_over_nor_removed(tmp_path: Path, name: str, fresh: bool) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    # A second time, too: the first one leaves no mark.
    for _ in range(2):
        with pytest.raises(InputError, match=rf"would replace: {name.split('/')[0]}; name another folder"):
            sweep(Space("", {RATE: tune.choice([0.1])}), toy_recipe(), tmp_path, fresh=fresh)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(name).name]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_file_that_another_tool_calls_so_makes_no_folder_ours(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora/mine.txt").write_text("mine")
    (tmp_path / "sweep.json").write_text('{"method": "bayes"}')
    with pytest.raises(InputError, match=r"would replace: corpora, sweep\.json; name another folder"):
        sweep(Space("", {RATE: tune.choice([0.1])}), toy_recipe(), tmp_path, fresh=fresh)
    check_no_sweep(tmp_path, at_uri=False)
    assert (tmp_path / "sweep.json").read_text() == '{"method": "bayes"}'
    assert (tmp_path / "corpora/mine.txt").exists()


def test_what_the_space_searches_may_differ_in_the_recipe(tmp_path: Path) -> None:
    searched = {"space": {"training.epochs": "one of 1, 2"}}
    begun = claim_folder(tmp_path, False, config(1) | searched)
    (tmp_path / "trials" / "a").mkdir(parents=True)
    assert claim_folder(tmp_path, False, config(2) | searched) == begun, "the sweep is resumed"


def test_what_begins_with_the_name_of_a_searched_key_is_another_one(tmp_path: Path) -> None:
    searched = {"space": {"loss.outside": "one of all, neighbours"}}

    def weighted(weight: float) -> dict[str, Any]:
        loss = {"outside": "all", "outside_weight": weight}
        return config(1) | {"recipe": {"loss": loss}} | searched

    claim_folder(tmp_path, False, weighted(1.0))
    (tmp_path / "trials" / "a").mkdir(parents=True)
    with pytest.raises(InputError, match=r"changed: recipe\.loss\.outside_weight; start over"):
        claim_folder(tmp_path, False, weighted(0.5))


@pytest.mark.parametrize(
    ("section", "free"), [("scaling", True), ("tracking", True), ("scaling_of_others", False)]
)
def test_sections_that_change_no_result_are_free(tmp_path: Path, section: str, free: bool) -> None:
    claim_folder(tmp_path, False, config(1) | {"recipe": {section: {"workers": 1}}})
    (tmp_path / "trials" / "a").mkdir(parents=True)
    with contextlib.nullcontext() if free else pytest.raises(InputError, match=section):
        claim_folder(tmp_path, False, config(1) | {"recipe": {section: {"workers": 2}}})


def test_a_changed_space_is_named_by_its_keys(tmp_path: Path) -> None:
    claim_folder(tmp_path, False, config(1) | {"space": {"seed": "one of 1"}, "fixed": ["seed"]})
    (tmp_path / "trials" / "a").mkdir(parents=True)
    with pytest.raises(InputError, match=r"changed: space\.seed; start over"):
        claim_folder(tmp_path, False, config(1) | {"space": {"seed": "one of 1, 2"}, "fixed": []})


def test_what_tells_the_data_stays_with_the_sweep(tmp_path: Path) -> None:
    claim_folder(tmp_path, False, config(1))
    check_data(tmp_path, ["a", "b"])
    (tmp_path / "trials" / "a").mkdir(parents=True)
    begun = claim_folder(tmp_path, False, config(1))
    assert claim_folder(tmp_path, False, config(1)) == begun
    check_data(tmp_path, ["a", "b"])
    with pytest.raises(InputError, match="other data"):
        check_data(tmp_path, ["a", "c"])
    claim_folder(tmp_path, True, config(1))
    check_data(tmp_path, ["a", "c"])


@pytest.mark.parametrize(
    ("search", "scheduler", "trials", "adds"),
    [
        ("random", "asha", 16, True),
        ("grid", "none", 16, False),
        ("random", "halving", 16, False),
        ("optuna", "none", 6, False),
    ],
)
def test_only_where_there_can_be_more_trials_more_are_offered(
    search: Any, scheduler: Any, trials: int, adds: bool
) -> None:
    settings = sweep_settings(objectives=[{"metric": "f1"}], search=search, scheduler=scheduler)
    assert ("--trials" in what_is_next(settings, trials)) is adds


def test_a_folder_without_a_sweep_keeps_what_lies_in_it(tmp_path: Path) -> None:
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "mine.txt").write_text("Ada")
    claim_folder(tmp_path, False, config(1))
    assert (tmp_path / "corpora" / "mine.txt").exists()


@pytest.mark.parametrize("fresh", [False, True])
def test_the_folder_of_a_training_is_refused(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "checkpoint.json").touch()
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(InputError, match="holds the run of a training; name another folder"):
        claim_folder(tmp_path, fresh, config(1))
    assert {path.name for path in tmp_path.iterdir()} == {"last", "result.json"}


def test_trials_that_are_compared_with_all_others_stay_as_many(tmp_path: Path) -> None:
    for scheduler in ("halving", "asha"):
        claim_folder(tmp_path, True, config(1, scheduler))
        (tmp_path / "trials" / "begun").mkdir(parents=True)
        if scheduler == "asha":
            claim_folder(tmp_path, False, config(1, scheduler, trials=6))
        else:
            with pytest.raises(InputError, match=r"changed: settings\.trials"):
                claim_folder(tmp_path, False, config(1, scheduler, trials=6))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is cut short or not the file that a sweep wrote"),
        ("[]", "is cut short or not the file that a sweep wrote"),
        ('{"recipe": {}}', "is cut short or not the file that a sweep wrote"),
        (f'{{"recipe": {json.dumps(TAGGER)}, "settings": {{}}}}', "objectives: is missing"),
    ],
)
def test_a_damaged_file_of_a_sweep_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "trials" / "begun").mkdir(parents=True)
    (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(InputError, match=rf"sweep\.json: {message}"):
        report(tmp_path)
    if "objectives" not in message:
        with pytest.raises(InputError, match=rf"sweep\.json: {message}"):
            claim_folder(tmp_path, False, config(1))
    claim_folder(tmp_path, True, config(1))


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        locked(tmp_path / LOCK, "runs a sweep in this folder"),
        pytest.raises(InputError, match="runs a sweep in this folder"),
        locked(tmp_path / LOCK, "runs a sweep in this folder"),
    ):
        pass
    with locked(tmp_path / LOCK, "runs a sweep in this folder"):
        pass


def test_a_node_without_the_file_of_this_launch_does_not_see_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".shared-of-a-killed-launch").touch()
    with marker_file(tmp_path) as marker:
        check_visible(marker)
        assert list(tmp_path.iterdir()) == [marker]
    with pytest.raises(NotSharedError, match=r"the node [\d.]+ does not see this folder; name a folder on"):
        check_visible(marker)
