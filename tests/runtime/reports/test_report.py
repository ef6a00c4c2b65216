from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rayner.data.mention_strings import MentionString
from rayner.data.schema import UNKNOWN, Mention, documents_from_table, documents_to_table
from rayner.errors import InputError
from rayner.retrieval.names import Found
from rayner.runtime.reports import page_parts
from rayner.runtime.reports.drawing import percent_axis
from rayner.runtime.reports.figures import similarity_densities
from rayner.runtime.reports.report import report
from rayner.tasks.kinds.mentions import answers_to_table
from rayner.tasks.standardizer.predictor import Answer
from tests.browser import Visit
from tests.runtime.reports.written_run import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "voyages")


@pytest.fixture(scope="module")
def drawn(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the run, in a folder that its report makes."""
    return report(run, tmp_path_factory.mktemp("pages") / "new" / "page.html")


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to damage."""
    return Path(shutil.copytree(run, tmp_path / "run"))


class Page(HTMLParser):
    """Checks that tags are balanced; keeps the text, the tags and their attributes."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data

    def figures(self) -> list[str]:
        return [attrs["aria-label"] for tag, attrs in self.tags if tag == "svg"]


def read(page: Path) -> Page:
    return Page(page.read_text(encoding="utf-8"))


def test_a_full_run_gives_every_part(run, drawn):
    page = read(drawn)
    assert page.figures() == [
        "Training curves",
        "F1 of each type with its confidence interval",
        "Precision, recall and F1 against a shift of the thresholds",
        "Density of similarities",
        "Reliability of scores of mentions, and risk against coverage",
        "Mistakes of each type by category",
    ]
    assert "Left out" not in page.text
    assert f"{run.parent.name}/{run.name} · rayner report" in page.text
    metrics = json.loads((run / "best" / "metrics.json").read_text())
    low, high = metrics["intervals"]["f1"]
    assert f"{100 * metrics['f1']:.1f}" in page.text
    assert f"{100 * low:.1f} to {100 * high:.1f}" in page.text
    for expected in ("all-MiniLM-L6-v2", "corpora/voyages/dev.parquet", "Boundary and type", "95 % interval"):
        assert expected in page.text


def test_the_page_loads_nothing_and_runs_nothing(drawn):
    html = drawn.read_text()
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "image"} & {tag for tag, _ in page.tags}
    references = [v for _, attrs in page.tags for k, v in attrs.items() if k in ("href", "src", "xlink:href")]
    assert all(value.startswith("#") for value in references)
    assert not re.search(r"url\((?!#)|@import", html)
    assert "#0103" not in html  # the stand-ins for the page's colours
    assert "#010203" not in html


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = "$\\frac{<img src=x onerror=a()>"
    names = {"PER": "<script>x</script>", "LOC": image, "ORG": 'a"&b', "SHIP": "S" * 60}
    return report(write_run(tmp_path_factory.mktemp("hostile") / "<i>run", names))


def test_texts_and_names_are_escaped(hostile):
    page = read(hostile)
    assert not {"script", "i", "img"} & {tag for tag, _ in page.tags}
    assert page.text.count("<script>x</script>") > 3
    for expected in (
        "<b>knew</b>",
        "<i>run",
        "$\\frac{<img src=x onerror=a()>",
        'a"&b',
        "S" * 60,
        '<script>alert("recipe")</script>',
    ):
        assert expected in page.text


def test_names_of_entities_are_escaped(tmp_path):
    run, evil = tmp_path / "run", "<img src=x onerror=alert(1)>"
    (run / "best" / "evaluation").mkdir(parents=True)
    (run / "recipe.yaml").write_text("task: standardizer\n")
    mistake = {"text": f"text {evil}", "gold": f"gold {evil}", "predicted": f"answer {evil}"}
    errors = {"counts": {"no_match": 1}, "examples": {"no_match": [mistake]}}
    metrics = {"top1": 0.5, "top3": 0.5, "top5": 0.5, "mentions": 2, "errors": errors}
    (run / "best" / "metrics.json").write_text(json.dumps(metrics))
    answer = Answer(evil, evil, 0.5, 0.1, None, (Found(evil, evil, evil, 0.5, 0.5, 0.0),))
    table = answers_to_table([MentionString(evil, (evil,))], [answer])
    pq.write_table(table, run / "best" / "evaluation" / "answers.parquet")
    page = read(report(run))
    assert "img" not in {tag for tag, _ in page.tags}
    assert all(said in page.text for said in mistake.values())


@pytest.mark.browser
@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 400)])
def test_a_browser_shows_the_page_without_a_network(hostile, browser, dark, width):
    """From a file, under its own policy: plots with their colours, nothing asked for, nothing refused."""
    visit = Visit(browser, "file://", width=width, dark=dark)
    visit.page.goto(hostile.as_uri())
    assert visit.violations() == []
    ink, paper = visit.page.evaluate(
        """() => [getComputedStyle(document.querySelector("svg text")).fill,
                  getComputedStyle(document.body).backgroundColor]"""
    )
    light, deep = (sum(map(int, re.findall(r"\d+", colour)[:3])) > 384 for colour in (ink, paper))
    assert (light, deep) == (dark, not dark)
    assert visit.page.locator("figure svg").count() == 6
    assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()
    assert [request.url for request in visit.asked] == [hostile.as_uri()]
    assert visit.complaints == []


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("recipe.yaml", 6),
        ("log.jsonl", 5),
        ("best/metrics.json", 4),
        ("best/evaluation/gold.parquet", 4),
        ("best/evaluation/predictions.parquet", 4),
        ("best/evaluation/similarities.parquet", 5),
        ("best/evaluation/candidates.parquet", 5),
    ],
)
@pytest.mark.parametrize("damage", ["absent", "broken"])
@pytest.mark.usefixtures("undrawn")
def test_a_part_that_cannot_be_shown_is_left_out_and_says_why(own_run, name, figures, damage):
    if damage == "absent":
        (own_run / name).unlink()
    else:
        (own_run / name).write_bytes(b"{\xff")
    page = read(report(own_run))
    assert f"Left out: {name} {'is not there' if damage == 'absent' else 'cannot be read'}" in page.text
    assert len(page.figures()) == figures


@pytest.mark.usefixtures("undrawn")
def test_a_column_that_is_missing_is_named(own_run):
    path = own_run / "best" / "evaluation" / "candidates.parquet"
    pq.write_table(pq.read_table(path).drop_columns("margin"), path)
    assert "candidates.parquet lacks the column margin" in read(report(own_run)).text


@pytest.mark.usefixtures("undrawn")
def test_predictions_of_other_documents_are_not_compared(own_run):
    path = own_run / "best" / "evaluation" / "predictions.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    text = read(report(own_run)).text
    assert "Left out: gold and predicted documents do not agree: document 'voyage-00'" in text


@pytest.mark.usefixtures("undrawn")
def test_scores_are_held_against_what_is_right(own_run):
    evaluation = own_run / "best" / "evaluation"
    gold, predicted = (
        list(documents_from_table(pq.read_table(evaluation / f"{name}.parquet")))
        for name in ("gold", "predictions")
    )
    sure = [replace(d, mentions=tuple(replace(m, score=0.75) for m in d.mentions)) for d in predicted]
    pq.write_table(documents_to_table(sure), evaluation / "predictions.parquet")
    found, right = (
        [{(m.start, m.end, m.type) for m in d.mentions} for d in side] for side in (predicted, gold)
    )
    share = sum(len(a & b) for a, b in zip(found, right, strict=True)) / sum(map(len, found))
    text = " ".join(read(report(own_run)).text.split())
    assert f"Expected calibration error {100 * abs(0.75 - share):.1f} %" in text
    assert "mean score" in text


@pytest.mark.usefixtures("undrawn")
def test_a_resumed_log_with_a_cut_line_is_read(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    rows = [{"step": s, "epoch": 1, "loss": 2.0 - s, "parts": {}} for s in (1, 2, 3, 2, 3, 4)]
    (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 5, "lo')
    page = read(report(run))
    assert page.figures() == ["Training curves"]
    assert "4 steps" in page.text
    assert "Left out: 1 line of log.jsonl" in page.text


@pytest.mark.parametrize(("parts", "named"), [({"span": 2.0}, False), ({"span": 1.5, "start": 0.5}, True)])
def test_the_only_part_of_a_loss_does_not_hide_the_whole(tmp_path, parts, named):
    run = tmp_path / "run"
    run.mkdir()
    rows = [{"step": s, "epoch": 1, "loss": 2.0, "parts": parts} for s in (1, 2)]
    (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = report(run).read_text("utf-8")
    assert ">all<" in text
    assert (">span<" in text) == named


def test_a_log_without_a_loss_and_a_score_draws_nothing(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_text("task: chains\n")
    (run / "log.jsonl").write_text('{"step": 1, "epoch": 1, "metrics": {"mrr": null, "mentions": 0}}\n')
    page = read(report(run))
    assert page.figures() == []
    assert "log.jsonl holds no loss and no score" in page.text


@pytest.mark.usefixtures("undrawn")
def test_a_perfect_run_has_no_mistakes(own_run):
    evaluation = own_run / "best" / "evaluation"
    (evaluation / "predictions.parquet").write_bytes((evaluation / "gold.parquet").read_bytes())
    assert "None in spans and types" in read(report(own_run)).text


@pytest.mark.usefixtures("undrawn")
def test_mentions_of_types_that_are_not_scored_are_no_mistakes(own_run):
    evaluation = own_run / "best" / "evaluation"
    documents = list(documents_from_table(pq.read_table(evaluation / "gold.parquet")))
    pq.write_table(documents_to_table(documents), evaluation / "predictions.parquet")
    others = tuple(Mention(place, place + 2, name) for place, name in enumerate(("SHOE", UNKNOWN)))
    gold = [replace(document, mentions=(*document.mentions, *others)) for document in documents]
    pq.write_table(documents_to_table(gold), evaluation / "gold.parquet")
    assert "None in spans and types" in read(report(own_run)).text


@pytest.mark.usefixtures("undrawn")
def test_of_many_types_those_with_most_mentions_are_in_the_tables(own_run):
    names = [f"type-{n:04}" for n in range(1000)]
    path = own_run / "best" / "metrics.json"
    metrics = json.loads(path.read_text())
    row = {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    metrics["per_type"] = {name: {**row, "support": n} for n, name in enumerate(names)}
    path.write_text(json.dumps(metrics))
    columns = {"type": names, "margin": [0.1] * 1000, "gold": [n % 2 == 0 for n in range(1000)]}
    pq.write_table(pa.table(columns), own_run / "best" / "evaluation" / "candidates.parquet")
    recipe = {"task": "recognizer", "types": names, "corpus": {"train": [f"{n}.tsv" for n in range(40)]}}
    (own_run / "recipe.yaml").write_text(json.dumps(recipe))
    made = report(own_run)
    page, shown = read(made), re.findall(r'<th scope="row">(type-\d{4})', made.read_text())
    assert shown == [*names[:-26:-1], *names[-25:]]
    assert "type-0024 and 975 more" in page.text
    assert "5.tsv and 34 more" in page.text
    assert "the first 25 of 1000" in page.text
    assert "25 of 1000 types with most mentions" in " ".join(page.text.split())


@pytest.mark.usefixtures("undrawn")
def test_no_threshold_is_praised_below_the_last_span_that_is_known(own_run):
    """A training keeps the best spans: how many others lie below them nobody knows."""
    path = own_run / "best" / "metrics.json"
    metrics = json.loads(path.read_text())
    metrics["per_type"] = {"PER": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}}
    path.write_text(json.dumps(metrics))
    columns = {"type": ["PER"] * 3, "margin": [0.5, -1.0, -9.0], "gold": [True, False, True]}
    pq.write_table(pa.table(columns), own_run / "best" / "evaluation" / "candidates.parquet")
    part = page_parts._thresholds(own_run)
    assert part["rows"][0]["f1"] == pytest.approx(2 / 3)
    assert part["best"]["f1"] == pytest.approx(2 / 3)


def test_samples_without_spread_are_drawn(own_run):
    columns = {
        "type": ["PER", "PER", "LOC"],
        "kind": ["mention", "threshold", "other"],
        "similarity": [0.5, 0.5, 0.5],
    }
    pq.write_table(pa.table(columns), own_run / "best" / "evaluation" / "similarities.parquet")
    one = {"type": ["PER"], "margin": [0.1], "gold": [False]}
    pq.write_table(pa.table(one), own_run / "best" / "evaluation" / "candidates.parquet")
    for name in ("log.jsonl", "best/evaluation/predictions.parquet"):
        (own_run / name).unlink()
    assert read(report(own_run)).figures() == [
        "F1 of each type with its confidence interval",
        "Precision, recall and F1 against a shift of the thresholds",
        "Density of similarities",
    ]


def test_curves_of_similarities_are_scaled_each_by_itself(monkeypatch):
    """Thresholds hardly differ: their curve would be a hundred times as high as the others."""
    rng = np.random.default_rng(0)
    drawn: list[np.ndarray] = []
    monkeypatch.setattr(Axes, "fill_between", lambda _, x, y, **__: drawn.append(y))
    samples = {"mention": rng.normal(0.5, 0.2, 80), "threshold": rng.normal(0.3, 1e-3, 80)}
    similarity_densities({"PER": samples})
    assert [curve.max() for curve in drawn] == [1.0, 1.0]


@pytest.mark.usefixtures("undrawn")
def test_scores_of_mentions_that_are_no_probabilities_are_left_out(own_run):
    path = own_run / "best" / "evaluation" / "predictions.parquet"
    documents = list(documents_from_table(pq.read_table(path)))
    bare = [replace(d, mentions=tuple(replace(m, score=None) for m in d.mentions)) for d in documents]
    pq.write_table(documents_to_table(bare), path)
    assert "Left out: no prediction has a probability" in read(report(own_run)).text


@pytest.mark.usefixtures("undrawn")
def test_metrics_of_another_task_are_listed(tmp_path):
    run = tmp_path / "run"
    (run / "best").mkdir(parents=True)
    (run / "best" / "metrics.json").write_text('{"top1": 0.5, "mrr": 0.625}')
    text = read(report(run)).text
    assert "62.5" in text
    assert "Left out: best/metrics.json holds no scores by type" in text


@pytest.mark.usefixtures("undrawn")
def test_metrics_of_another_shape_are_left_out_and_say_why(own_run):
    path = own_run / "best" / "metrics.json"
    metrics = json.loads(path.read_text())
    name = next(iter(metrics["per_type"]))
    shutil.rmtree(own_run / "best" / "evaluation")
    (own_run / "log.jsonl").unlink()
    for changed, where in (
        ([metrics], " is not a JSON object"),
        ({**metrics, "per_type": [name]}, ": per_type: Input"),
        ({**metrics, "per_type": {name: {"f1": "0.9", "support": 3}}}, f": per_type.{name}.f1: Input"),
        ({**metrics, "intervals": [0.1, 0.2]}, ": intervals: Input"),
        ({**metrics, "intervals": {"per_type": {name: {"f1": 3}}}}, f": intervals.per_type.{name}.f1: Input"),
    ):
        path.write_text(json.dumps(changed))
        assert f"Left out: best/metrics.json{where}" in read(report(own_run)).text


@pytest.mark.usefixtures("undrawn")
def test_the_report_lies_in_the_run_unless_told_otherwise(run):
    assert report(run) == run / "report.html"


def test_a_folder_without_a_run_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no training run"):
        report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_close_percentages_have_labels_of_their_own() -> None:
    axes = Figure().subplots()
    axes.set_ylim(0.85, 0.856)
    axes.set_yticks([0.85, 0.8525, 0.855])
    percent_axis(axes.yaxis)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["85%", "85.25%", "85.5%"]
