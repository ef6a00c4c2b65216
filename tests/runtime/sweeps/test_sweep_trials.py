"""What is read of a sweep's folder: progress over runs, the table, the page."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from rayner.config.recipe_files import dump_recipe, with_settings
from rayner.errors import InputError, RaynerError
from rayner.runtime.reports.figures_sweep import Curve, learning_curves
from rayner.runtime.reports.report import report
from rayner.runtime.sweeps.callback import SweepCallback, line_of, trials_table
from rayner.runtime.sweeps.corpora import Corpora
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.ray_tune import TrialResources
from rayner.runtime.sweeps.sampling import key_of, short_names, trial_name
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trials import (
    Trial,
    rank_of,
    read_progress,
    read_trial,
    read_trials,
    record_failure,
    write_json,
    write_outcome,
)
from rayner.runtime.sweeps.winner import _doubt, conclude_sweep, interval_of, pareto_of
from rayner.tasks.base import Metric
from rayner.tasks.registry import load_recipe, parse_recipe
from tests.browser import Visit
from tests.runtime.sweeps.written_trials import EPOCHS, write_trial

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_score_is_the_mean_over_runs_by_their_best_evaluations(plan: Plan) -> None:
    settings = {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, settings, [[0.2, 0.6, 0.5, 0.4], [0.4, 0.3]])
    reports, values = read_progress(plan, folder, settings)
    assert [report["f1"] for report in reports] == pytest.approx([0.2, 0.6, 0.6, 0.6, 0.6, 0.5, 0.5])
    assert [report["epochs"] for report in reports] == [1, 2, 3, 4, 4, 5, 6]
    assert [report["seconds"] for report in reports] == [2, 4, 6, 8, 9, 11, 13]
    assert reports[-1]["steps"] == 60
    assert values == [0.6, 0.4]
    [trial] = read_trials(plan)
    assert trial.state == "running"
    assert trial.spread == pytest.approx(math.sqrt(0.02))


def test_steps_and_seconds_are_those_of_all_runs(plan: Plan) -> None:
    plan, settings = replace(plan, runs={"one": {}, "two": {}, "three": {}}), {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, settings, [[0.5] * EPOCHS] * 3)
    wanted = {"f1": 0.5, "epochs": 12, "steps": 120, "seconds": 27}
    assert read_progress(plan, folder, settings)[0][-1] == wanted


def test_a_trial_that_was_stopped_comes_after_those_that_finished(plan: Plan) -> None:
    for number, (state, score) in enumerate((("stopped", 0.9), ("finished", 0.8)), 1):
        settings = {"training.learning_rate": number / 10}
        write_outcome(write_trial(plan, number, settings, [[score] * EPOCHS] * 2), state)
    ranked = sorted(read_trials(plan), key=lambda trial: rank_of(trial, plan))
    assert [trial.state for trial in ranked] == ["finished", "stopped"]


def test_a_trial_goes_by_the_metric_that_its_own_settings_choose(plan: Plan) -> None:
    recipe = parse_recipe({"task": "chains", "encoder": "random:8x1", "corpus": {"train": ["x"]}}, "test")
    plan = replace(plan, recipe=recipe, settings=sweep_settings(objectives=objectives(["mrr"], recipe)))
    run = next(iter(plan.runs))
    rows = [{"mrr": 0.9, "mrr_other_stories": 0.91}, {"mrr": 0.5, "mrr_other_stories": 0.95}]
    for negatives, best in (("other_stories", 0.5), ("same_story", 0.9)):
        settings = {"loss.negatives": negatives}
        folder = plan.folder(settings)
        (folder / run).mkdir(parents=True)
        lines = [json.dumps({"step": i, "epoch": i, "metrics": row}) + "\n" for i, row in enumerate(rows, 1)]
        (folder / run / "log.jsonl").write_text("".join(lines))
        assert read_progress(plan, folder, settings)[0][-1]["mrr"] == best


def test_the_best_evaluation_is_that_of_the_metric_and_its_mode(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = SimpleNamespace(metric=Metric("f1", "min"))
    monkeypatch.setattr("rayner.runtime.sweeps.trials.train_task", lambda recipe: task)
    settings = {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, settings, [[40.0, 12.0, 13.0]])
    assert [report["f1"] for report in read_progress(plan, folder, settings)[0]] == [40, 12, 12]


def test_an_evaluation_may_say_nothing_about_the_metric(plan: Plan) -> None:
    settings = {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, settings, [[None, None, 0.4, 0.3]])
    reported = [report["f1"] for report in read_progress(plan, folder, settings)[0]]
    assert reported[2:] == [0.4, 0.4, 0.4]
    assert all(map(math.isnan, reported[:2]))


def fill(plan: Plan) -> None:
    for number in range(1, 11):
        rate, scheme = 10 ** (-number / 2), "BIO" if number % 2 else "BIOES"
        settings = {"training.learning_rate": rate, "model.scheme": scheme}
        top = 0.9 - 0.02 * abs(number - 4)
        run = [top * (1 - math.exp(-epoch)) for epoch in range(1, EPOCHS + 1)]
        stopped = number > 6
        folder = write_trial(plan, number, settings, [run[:2]] if stopped else [run, run])
        write_outcome(folder, "stopped" if stopped else "finished")
    folder = plan.folder({"training.learning_rate": 9.0, "model.scheme": "BIO"})
    settings = {"training.learning_rate": 9.0, "model.scheme": "BIO"}
    write_json(folder / "trial.json", {"number": 11, "settings": settings})
    record_failure(folder, "a <bad> loss", diverged=True)
    write_outcome(folder, "failed", "a <bad> loss")


def test_the_table_shows_the_searched_keys_and_the_best_first(plan: Plan) -> None:
    fill(plan)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(trials_table(read_trials(plan), plan, rows=4))
    lines = console.export_text().splitlines()
    assert lines[0].split() == ["trial", "learning_rate", "scheme", "f1", "seconds", "epochs", "state", "key"]
    assert lines[1].split()[0] == "4"
    assert "and 7 more" in lines[-1]
    columns = trials_table(read_trials(plan), replace(plan, fixed=frozenset({"model.scheme"}))).columns
    assert (columns[1].header, len(columns)) == ("learning_rate", 7)
    assert "  f1 82.5 (deviation 0.0)  seconds 18  8 epochs  " in line_of(read_trials(plan)[0], plan, 11)
    line = line_of(read_trials(plan)[10], plan, 11)
    assert line.startswith("trial 11/11  scheme=BIO,learning_rate=9.0-")
    assert line.endswith("failed: a <bad> loss")


def test_names_are_short_where_that_is_clear() -> None:
    assert short_names(["training.dropout", "model.dropout", "loss.beta"]) == {
        "training.dropout": "training.dropout",
        "model.dropout": "model.dropout",
        "loss.beta": "beta",
    }


class Page(HTMLParser):
    """Counts elements and keeps the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.browser
@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 400)])
def test_a_browser_shows_the_page_of_a_sweep_without_a_network(
    plan: Plan, browser: Browser, dark: bool, width: int
) -> None:
    fill(plan)
    page = report(plan.out)
    visit = Visit(browser, "file://", width=width, dark=dark)
    visit.page.goto(page.as_uri())
    assert visit.violations() == []
    assert visit.page.locator("figure svg").count() == 4
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()
    assert [request.url for request in visit.asked] == [page.as_uri()]
    assert visit.complaints == []


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_sweep_has_all_plots_and_all_trials(plan: Plan) -> None:
    fill(plan)
    page = Page(report(plan.out).read_text())
    assert page.tags.count("svg") == 4
    assert "Left out" not in page.text.replace("Left out: the sweep is not over", "")
    assert page.text.count("stopped") >= 4
    assert "a <bad> loss" in page.text
    assert "mathdefault" not in page.text


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_sweep_that_held_nothing_out_says_what_the_winner_scores(plan: Plan) -> None:
    fill(plan)
    winner = {"checkpoint": "winner/best", "seed": 3, "seconds": 1.0, "score": {"f1": 0.8712}}
    write_json(plan.out / "result.json", {"winner": winner})
    assert "trained again87.1on all training items, seed 3" in "".join(
        Page(report(plan.out).read_text()).text.split("\n")
    )
    write_json(plan.out / "result.json", {"winner": {**winner, "held_out": {"f1": 0.8534}}})
    text = Page(report(plan.out).read_text()).text
    assert "on all training items but those held out, seed 3" in text
    assert "85.3" in text


@pytest.mark.usefixtures("undrawn")
def test_a_page_of_a_winner_that_failed_says_so(plan: Plan) -> None:
    fill(plan)
    winner = {"checkpoint": None, "seed": 3, "seconds": None, "score": {}, "error": "step 3: a <bad> loss"}
    write_json(plan.out / "result.json", {"winner": winner})
    page = report(plan.out).read_text()
    assert "Training the best settings again failed: step 3: a &lt;bad&gt; loss" in page
    assert "trained again" not in page


def test_epochs_of_trials_under_way_are_not_saved(plan: Plan) -> None:
    write_outcome(write_trial(plan, 1, {"training.learning_rate": 0.1}, [[0.5] * EPOCHS] * 2), "finished")
    write_outcome(write_trial(plan, 2, {"training.learning_rate": 0.2}, [[0.5] * 2]), "stopped")
    write_trial(plan, 3, {"training.learning_rate": 0.3}, [[0.5]])
    assert f"{100 * (1 - 10 / 16):.0f} %" in Page(report(plan.out).read_text()).text


def test_a_sweep_with_one_finished_trial_has_no_front(plan: Plan) -> None:
    for number, scores in enumerate(([[0.2, 0.4, 0.5, 0.6]] * 2, [[0.1]]), 1):
        folder = write_trial(plan, number, {"training.learning_rate": 0.1 * number}, scores)
        write_outcome(folder, "finished" if number == 1 else "stopped")
    assert "Left out: fewer than two trials have finished" in report(plan.out).read_text()


def test_a_sweep_that_has_just_begun_has_no_page(plan: Plan) -> None:
    with pytest.raises(InputError, match="no trial has a score"):
        report(plan.out)
    write_trial(plan, 1, {"training.learning_rate": 0.1}, [[0.2]])
    text = report(plan.out).read_text()
    assert "Left out: all trials have the same settings" in text
    assert '<th scope="col">learning_rate</th>' in text


def test_the_front_has_what_nothing_beats(plan: Plan) -> None:
    fill(plan)
    trials = [trial for trial in read_trials(plan) if trial.state == "finished"]
    front = pareto_of(trials, {"f1": 1, "epochs": -1})
    assert [trial.number for trial in front] == [4]
    assert pareto_of(trials, {"seconds": -1}) == trials


def test_a_trial_without_one_of_the_objectives_is_not_on_the_front(plan: Plan) -> None:
    settings = plan.settings.model_copy(update={"objectives": objectives(["f1", "macro_f1"], plan.recipe)})
    plan = replace(plan, settings=settings)
    write_trial(plan, 1, {"training.learning_rate": 0.1}, [[0.5] * EPOCHS] * 2)
    trials = read_trials(plan)
    assert pareto_of(trials, {"f1": 1, "macro_f1": 1}) == []
    assert pareto_of(trials, {"f1": 1}) == trials


def test_a_metric_that_no_dev_has_is_told(plan: Plan) -> None:
    settings = plan.settings.model_copy(update={"objectives": objectives(["macro_f1"], plan.recipe)})
    plan = replace(plan, settings=settings)
    write_outcome(write_trial(plan, 1, {"training.learning_rate": 0.1}, [[0.5] * EPOCHS] * 2), "finished")
    with pytest.raises(RaynerError, match="dev has nothing to compute macro_f1 from"):
        conclude_sweep(plan, Corpora([{}], {}, None), read_trials(plan), TrialResources({"CPU": 1}, 1))


def test_what_may_go_on_keeps_what_it_goes_on_from(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayner.runtime.sweeps.winner._train_again", lambda *_: {})
    for number, state in enumerate(("finished", "failed", None), 1):
        folder = write_trial(plan, number, {"training.learning_rate": number / 10}, [[0.5] * EPOCHS] * 2)
        (folder / "fold0-seed1" / "last").mkdir()
        scored = with_settings(plan.recipe, {"seed": 1001}, "recipe")
        (folder / "fold0-seed1" / "recipe.yaml").write_text(dump_recipe(scored))
        if state is not None:
            write_outcome(folder, state)
    result = conclude_sweep(plan, Corpora([{}], {}, None), read_trials(plan), TrialResources({"CPU": 1}, 1))
    # The recipe's own seed gave no finite loss.
    assert load_recipe(result["best"]).seed == 1001
    # More trials were asked for before, and may be again.
    assert result["trials"] == {"finished": 1, "failed": 1, "unfinished": 1}
    kept = {
        trial.state: [path.name for path in plan.folder(trial.settings).glob("*/last")]
        for trial in read_trials(plan)
    }
    assert kept == {"finished": [], "failed": ["last"], "running": ["last"]}


def test_an_interval_is_that_of_the_development_items(plan: Plan) -> None:
    chosen = {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, chosen, [[0.8] * EPOCHS, [0.9] * EPOCHS])
    (trial,) = read_trials(plan)
    assert interval_of(plan, trial) is None
    alone = replace(plan, runs={"fold0-seed1": {}})
    (trial,) = read_trials(alone)
    assert interval_of(alone, trial) is None
    metrics = {"f1": 0.8, "intervals": {"f1": [0.7, 0.85]}}
    write_json(folder / "fold0-seed1" / "result.json", {"steps": 40, "seconds": 9.0, "metrics": metrics})
    assert interval_of(alone, trial) == (0.7, 0.85)
    for number, score in ((2, 0.75), (3, 0.5)):
        write_trial(alone, number, {"training.learning_rate": number / 10}, [[score] * EPOCHS])
    best, *others = read_trials(alone)
    assert _doubt(alone, best, [best, *others]) == {"interval": [0.7, 0.85], "within_interval": 1}


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_how_many_trials_the_development_items_do_not_tell_apart(plan: Plan) -> None:
    fill(plan)
    winner = {"checkpoint": "winner/best", "seed": 3, "seconds": 1.0, "score": {"f1": 0.8712}}
    write_json(plan.out / "result.json", {"winner": winner, "interval": [0.7, 0.85], "within_interval": 1})
    text = "".join(Page(report(plan.out).read_text()).text.split("\n"))
    assert "within its 95 % interval1 other70.0 to 85.0" in text


@pytest.mark.usefixtures("undrawn")
def test_a_trial_has_the_name_of_its_settings(plan: Plan) -> None:
    settings = {"training.learning_rate": 0.1, "model.scheme": "BIO"}
    plan = replace(plan, fixed=frozenset({"model.scheme"}))
    folder = write_trial(plan, 1, settings, [[0.2]])
    [trial] = read_trials(plan)
    assert folder.name == trial.name == trial_name(settings, {"model.scheme"})
    assert trial.name == f"learning_rate=0.1-{key_of(settings)}"
    assert trial.key == key_of(settings)
    assert trial.name in report(plan.out).read_text()


def test_a_metric_without_a_value_is_told_when_the_first_trial_is_over(
    plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    settings = plan.settings.model_copy(update={"objectives": objectives(["macro_f1"], plan.recipe)})
    plan = replace(plan, settings=settings)
    callback = SweepCallback(plan, 2)
    for number, rate in enumerate((0.1, 0.2), 1):
        given = {"training.learning_rate": rate}
        write_trial(plan, number, given, [[0.5] * EPOCHS] * 2)
        callback.on_trial_complete(number, [], SimpleNamespace(config=given))
        warned = [row.getMessage() for row in caplog.records if row.levelname == "WARNING"]
        assert len(warned) == 1
        assert warned[0].startswith("trial 1 has no macro_f1; if dev has nothing to compute it from")


def test_the_table_on_a_terminal_reads_one_trial_at_each_event(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [{"training.learning_rate": rate} for rate in (0.1, 0.2, 0.3)]
    for number, settings in enumerate(given, 1):
        write_trial(plan, number, settings, [[0.5]])
    callback, seen = SweepCallback(plan, 3), list[Path]()

    def reading(plan: Plan, folder: Path) -> Trial:
        seen.append(folder)
        return read_trial(plan, folder)

    monkeypatch.setattr("rayner.runtime.sweeps.callback.read_trial", reading)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for settings in given[1:]:
        callback.on_trial_result(1, [], SimpleNamespace(config=settings), {})
    assert callback._live is not None
    assert callback._live.get_renderable().row_count == 3
    assert len(seen) == 2
    callback.on_experiment_end([])


@pytest.mark.parametrize(
    ("scheduler", "state", "kept"), [("asha", "stopped", []), ("halving", "paused", ["last"])]
)
def test_a_trial_that_ends_before_its_end(plan: Plan, scheduler: str, state: str, kept: list[str]) -> None:
    plan = replace(plan, settings=plan.settings.model_copy(update={"scheduler": scheduler}))
    given = {"training.learning_rate": 0.1}
    folder = write_trial(plan, 1, given, [[0.5]])
    (folder / "fold0-seed1" / "last").mkdir()
    callback, trial = SweepCallback(plan, 2), SimpleNamespace(config=given)
    callback.on_trial_complete(1, [], trial)
    assert [one.state for one in read_trials(plan)] == [state]
    assert [path.name for path in folder.glob("*/last")] == kept
    callback.on_trial_start(2, [], trial)
    assert [one.state for one in read_trials(plan)] == ["stopped" if state == "stopped" else "running"]


def curves(*scores: list[float]) -> ElementTree.Element:
    rows = enumerate(scores)
    drawn = [Curve(number, range(1, 1 + len(row)), row, finished=True, rank=number) for number, row in rows]
    return ElementTree.fromstring(learning_curves(drawn, "f1"))


def test_trials_with_equal_scores_show_through_each_other() -> None:
    def patterns(page: ElementTree.Element) -> list[str]:
        lines = [line.get("style", "") for line in page.iterfind(".//*[@id='axes_1']//*[@clip-path]")]
        return [
            line.partition("stroke-dasharray: ")[2].partition(";")[0] for line in lines if "series" in line
        ]

    one, other = [0.1, 0.5, 0.6], [0.2, 0.4, 0.7]
    assert set(patterns(curves(one, other))) == {""}
    equal = patterns(curves(one, one, other, one))
    assert len(set(equal)) == 3
    assert equal[0] == equal[2] == ""


def test_the_legend_of_the_curves_lies_beside_them() -> None:
    page = curves([0.1, 0.5], [0.2, 0.4])
    assert page.find(".//*[@id='legend_1']") is not None
    assert page.find(".//*[@id='axes_1']//*[@id='legend_1']") is None
