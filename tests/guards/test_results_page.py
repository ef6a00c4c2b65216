"""docs/results.md is made from docs/results/*.json, and each of these can be made again by its command."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import string
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import (
    RESULTS,
    Figure,
    Hardware,
    Origin,
    Result,
    add_out,
    command_line,
    here,
    keep_origin,
    measured,
    origin_of,
    read_result,
    read_results,
    write_result,
)
from benchmarks.results_page import PAGE, page, table
from rayner.errors import InputError

FILES = sorted(RESULTS.glob("*.json"))


class Parsed(Exception):
    """The arguments were accepted."""


def result(name: str = "made_up", **changes: object) -> Result:
    told: dict[str, object] = {
        "name": name,
        "title": "Made up",
        "section": "Speed",
        "task": "recognizer",
        "conditions": "None.",
        "command": f"python -m benchmarks.{name}",
        "commit": "0123456",
        "date": "2026-01-02",
        "hardware": Hardware(cpu="a CPU", cores=2, threads=1),
        "precision": "float32",
        "seeds": (1, 2),
        "rows": ({"types": 3, "f1": Figure(value=86.3, unit="%", deviation=0.6, headline=True)},),
    }
    return Result.model_validate(told | changes)


def test_the_page_is_what_the_command_makes() -> None:
    assert PAGE.read_text("utf-8") == page(read_results()), "run python -m benchmarks.results_page"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_command_of_a_file_is_one_that_its_benchmark_takes(
    path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, dash_m, name, *arguments = shlex.split(read_result(path).command)
    assert (python, dash_m) == ("python", "-m")
    monkeypatch.chdir(root)
    main = importlib.import_module(name).main
    if name == "benchmarks.sweep_cost":
        app = typer.Typer()
        app.command()(main)
        assert typer.main.get_command(app).make_context(name, arguments)
        return
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, given: list[str] | None = None) -> None:
        parse(parser, given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    monkeypatch.setattr("sys.argv", [name, *arguments])
    with pytest.raises(Parsed):
        main()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_file_names_a_place_of_one_machine(path: Path) -> None:
    assert re.findall(r"(?<![\w.)$-])/\w[^\s\"]*/\S*", path.read_text("utf-8")) == []


def test_readme_shows_the_figures_of_the_quick_start(root: Path) -> None:
    readme = (root / "README.md").read_text("utf-8")
    boxes = [re.split(r"\s*│\s*", line.strip("│ ")) for line in readme.splitlines() if line[:1] == "│"]
    of_types = {cells[0]: cells[1:] for cells in boxes if len(cells) == 5}
    linked = next(cells for cells in boxes if len(cells) == 7)
    rows = read_result(RESULTS / "quickstart.json").rows

    def shown(row: dict, *keys: str) -> list[str]:
        return [f"{row[key].value:.1f}" for key in keys]

    assert of_types == {
        row["type"]: [*shown(row, "precision", "recall", "f1"), str(row["support"])]
        for row in rows
        if "type" in row
    }
    (whole,) = (row for row in rows if row.get("type") == "all")
    (entities,) = (row for row in rows if "top1" in row)
    assert linked[1:5] == shown(entities, "top1", "top3", "top5", "mrr")
    for name, row, key in (("F1", whole, "f1"), ("top 1", entities, "top1")):
        low, high = row[key].interval
        assert f"95 % interval of {name}: {low:.1f} to {high:.1f}" in readme
    (seconds,) = (row["seconds"] for row in rows if "seconds" in row)
    assert re.search(rf"seconds:\s+{seconds.value}\n", readme)


numbers = st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6)
keys = st.text(string.ascii_lowercase, min_size=1, max_size=5)
made = st.builds(
    Figure,
    value=numbers | st.lists(numbers, min_size=1, max_size=3).map(tuple),
    unit=st.sampled_from(("%", "ratio", "ms", "")),
    interval=st.none() | st.tuples(numbers, numbers),
    deviation=st.none() | numbers,
    n=st.none() | st.integers(1, 9),
    headline=st.booleans(),
)
rows = st.lists(st.dictionaries(keys, made | numbers | st.text(), min_size=1), min_size=1, max_size=3)


@given(rows, st.text(max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list, note: str) -> None:
    written = result(rows=tuple(rows), notes=(note,))
    path = tmp_path_factory.mktemp("results") / "made_up.json"
    write_result(written, path)
    assert read_result(path) == written
    assert page([written])


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ('"task": ', '"tasks": ', "task"),
        ('"value": 86.3', '"value": "86.3"', "rows.0.f1"),
        ('"2026-01-02"', '"yesterday"', "date"),
        ('"name": "made_up"', '"name": "other"', "name"),
        ('"section": "Speed"', '"section": "Haste"', "section"),
    ],
)
def test_a_file_that_says_something_else_is_refused(
    tmp_path: Path, before: str, after: str, where: str
) -> None:
    path = tmp_path / "made_up.json"
    write_result(result(), path)
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")
    with pytest.raises(InputError) as refused:
        read_result(path)
    assert str(refused.value).startswith(f"{path}: {where}")


def test_rows_become_figures_by_their_units() -> None:
    printed = [
        {"task": "tagger", "seeds": 2, "f1": 0.86349, "f1_deviation": 0.006, "minutes": 38.4, "none": None},
        {"task": "other", "seeds": 1, "f1": 0.5, "f1_deviation": None, "minutes": float("nan"), "none": 1},
    ]
    first, second = measured(
        printed,
        {"f1": "%", "minutes": "min"},
        n=lambda row: row["seeds"],
        headline="f1",
        where=lambda row: row["task"] == "tagger",
    )
    assert first == {
        "task": "tagger",
        "seeds": 2,
        "f1": Figure(value=86.3, unit="%", deviation=0.6, n=2, headline=True),
        "minutes": Figure(value=38, unit="min", n=2),
    }
    assert second == {"task": "other", "seeds": 1, "f1": Figure(value=50.0, unit="%", n=1), "none": 1}


def test_a_table_ends_where_the_columns_change() -> None:
    first = {"by": "a|b", "build_mb": Figure(value=1.0, unit="MB")}
    second = {"by": "c", "build_mb": Figure(value=1024.25, unit="MB", interval=(1.0, 2.0))}
    of_epochs = {"f1": Figure(value=(1.0, 2.5), unit="%")}
    assert table([first, second, of_epochs]) == [
        "| by | build (MB) |\n| --- | ---: |\n| a\\|b | 1.00 |\n| c | 1,024.25 (1.00 to 2.00) |",
        "| f1 (%) |\n| ---: |\n| 1.0, 2.5 |",
    ]


def test_the_top_shows_the_headlines() -> None:
    shown = page([result()]).split("## Speed")[0]
    assert "| [Made up](#made-up) | f1 (%): 86.3 ± 0.6 | a CPU, 2 cores, 1 thread | 0123456 |" in shown
    quiet = result(rows=({"f1": Figure(value=86.3, unit="%")},))
    assert "Made up" not in page([quiet]).split("## Speed")[0]


def test_the_top_tells_the_figures_of_a_column_apart() -> None:
    def head(*rows: dict) -> str:
        given = [{**row, "regret": Figure(value=0.5, unit="%", headline=True)} for row in rows]
        return page([result(rows=tuple(given))]).split("## Speed")[0]

    words = head({"encoder": "untrained", "seeds": 1}, {"encoder": "trained", "seeds": 3})
    assert "regret (%): untrained 0.5, trained 0.5 |" in words
    shares = [{"encoder": encoder, "nil_share": share} for encoder in ("a", "b") for share in (0.0, 0.1)]
    assert (
        "regret (%): a nil share 0.0: 0.5, a nil share 0.1: 0.5, b nil share 0.0: 0.5, b nil share 0.1: 0.5 |"
    ) in head(*shares)


def test_the_top_has_commands_short() -> None:
    long = result(command="python -m benchmarks.made_up --runs runs/x --seeds 1 2 3")
    top, _, below = page([long]).partition("## Speed")
    assert "| `benchmarks.made_up` |" in top
    assert long.command in below


def test_a_command_names_no_place_of_this_machine(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYNER_DATA", "/some/data")
    given = [
        "/some/data/n/a.tsv",
        f"{root}/jobs/a.yaml",
        "--set",
        "a=[/some/data/x]",
        "/me/runs/b",
    ]
    assert command_line("results", given) == (
        "python -m benchmarks.results $RAYNER_DATA/n/a.tsv jobs/a.yaml --set 'a=[$RAYNER_DATA/x]' runs/b"
    )


def test_runs_tell_where_they_were_trained(tmp_path: Path) -> None:
    unknown = origin_of([tmp_path / "none"])
    assert (unknown.commit, unknown.date, unknown.hardware.cpu) == ("not recorded",) * 3
    keep_origin(tmp_path / "run")
    now = here()
    kept = origin_of([tmp_path / "none", tmp_path / "run"])
    assert (kept.commit, kept.hardware.cpu) == (now.commit, now.hardware.cpu)
    older = Origin(commit="0", date="2020-01-01", hardware=Hardware(cpu="another"))
    (tmp_path / "old.origin.json").write_text(older.model_dump_json(), "utf-8")
    both = origin_of([tmp_path / "run", tmp_path / "old"])
    assert both.commit == f"0, {now.commit}"
    assert (both.date, both.hardware.cpu) == (kept.date, now.hardware.cpu)


@pytest.mark.parametrize("out", ["figures", "Figures.json", "a-b.json"])
def test_a_file_without_a_name_is_refused_at_once(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_out(parser, "made_up")
    with pytest.raises(SystemExit):
        parser.parse_args(["--out", f"some/{out}"])
    assert f"--out: some/{out}: name a file" in capsys.readouterr().err
    assert parser.parse_args([]).out == RESULTS / "made_up.json"
