"""Files and folders that are not what an argument asks for: one line that says what to name."""

from __future__ import annotations

import json
import os
import shutil

import pytest


def refused(run, *arguments):
    """The one line on standard error."""
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    return err


def test_a_run_without_a_checkpoint_is_told_how_to_go_on(run, trained, examples, tmp_path):
    begun = shutil.copytree(trained, tmp_path / "begun", ignore=shutil.ignore_patterns("best"))
    for command in (
        ("evaluate", begun, examples / "test.jsonl"),
        ("annotate", begun, examples / "test.jsonl", "--out", tmp_path / "annotated"),
        ("predict", begun, "a text"),
        ("train", examples / "recipe.yaml", "--set", f"encoder={begun}", "--out", tmp_path / "next"),
    ):
        err = refused(run, *command)
        assert f"{begun}: is a run without best/" in err
        assert f"rayner train RECIPE --out {begun}" in err
        assert f"or name {begun / 'last'}" in err


def test_a_damaged_checkpoint_is_to_be_copied_again(run, trained, examples, tmp_path):
    copy = shutil.copytree(trained / "best", tmp_path / "copy")
    (copy / "checkpoint.json").unlink()
    assert "copy the whole checkpoint folder again" in refused(run, "evaluate", copy, examples / "test.jsonl")


@pytest.mark.parametrize("inside", ["", "run"])
def test_an_output_folder_that_is_a_file_is_refused(run, examples, tmp_path, inside):
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "file" / inside
    for command in (
        ("corpus", "convert", examples / "test.jsonl", "--out", out),
        ("quickstart", "--out", out),
        ("train", examples / "recipe.yaml", "--set", f"corpus.train=[{examples}]", "--out", out),
    ):
        err = refused(run, *command)
        assert f"--out {out}" in err
        assert err.rstrip().endswith("is a file; name a folder")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.usefixtures("undrawn")
def test_where_nothing_can_be_made_is_told_in_a_line(run, trained, examples):
    corpus = examples / "test.jsonl"
    for command in (
        ("train", examples / "recipe.yaml", "--set", f"corpus.train=[{examples}]"),
        ("evaluate", trained / "best", corpus),
        ("corpus", "contexts", corpus),
        ("report", trained),
    ):
        status, out, err = run(*command, "--out", "/proc/rayner/out")
        assert (status, out) == (2, ""), err
        assert err.splitlines()[-1].startswith("error: /proc"), err


def test_a_folder_in_the_place_of_a_file_is_told_what_file_to_name(run, trained, examples, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    best, corpus = trained / "best", examples / "test.jsonl"
    assert "name a configuration file of `rayner serve`" in refused(run, "serve", folder)
    assert "name a YAML list of types" in refused(run, "evaluate", best, corpus, "--types", folder)
    assert "name a recipe file" in refused(run, "train", folder)
    contexts = ("corpus", "contexts", corpus, "--out", tmp_path / "rows")
    assert "name a file of prompts" in refused(run, *contexts, "--prompts", folder)


def test_a_finding_is_a_line_whatever_the_name_of_its_file(run, tmp_path):
    (tmp_path / "a\nb.jsonl").write_text("x")
    _, out, _ = run("corpus", "check", tmp_path)
    assert f"{tmp_path}/a\\nb.jsonl:1: error: not JSON" in out


@pytest.mark.parametrize("uri", ["http://host/out", "file:///out"])
def test_an_output_at_what_cannot_be_written_to_is_no_folder_of_that_name(
    run, examples, tmp_path, monkeypatch, uri
):
    monkeypatch.chdir(tmp_path)
    scheme = uri.partition(":")[0]
    err = refused(run, "corpus", "convert", examples / "test.jsonl", "--out", uri)
    assert f"{scheme}:// cannot be written to; name a local path" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("variable", ["RAYNER_STORAGE", "RAYNER_CACHE"])
def test_a_variable_that_names_what_cannot_be_written_to_is_named(
    run, examples, tmp_path, monkeypatch, variable
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("rayner.runtime.doctor.doctor._SECONDS_PER_PRECISION", 0)
    for uri in ("s3x://bucket/folder", "http://host/folder"):
        monkeypatch.setenv(variable, uri)
        wanted = f"{variable}={uri}: {uri.partition(':')[0]}:// cannot be written to; name a local folder"
        where = () if variable == "RAYNER_STORAGE" else ("--out", "run")
        corpus = f"corpus.train=[{examples / 'train.jsonl'}]"
        train = ("train", examples / "recipe.yaml", "--set", corpus, *where, "--workers", 0)
        assert wanted in refused(run, *train)
        status, out, _ = run("doctor", "--json")
        [problem] = [one for one in json.loads(out)["findings"] if one["where"] == f"{variable}={uri}"]
        assert (status, problem["severity"]) == (1, "error")
    assert not list(tmp_path.glob("**/*:*"))


def test_no_folder_with_the_name_of_a_scheme_makes_a_uri_a_path(
    run, trained, examples, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3x:").mkdir()
    (tmp_path / "s3x:" / "bucket").mkdir()
    err = refused(run, "annotate", trained, examples / "test.jsonl", "--out", "s3x://bucket", "--workers", 0)
    assert "s3x://bucket" in err
    assert not list((tmp_path / "s3x:" / "bucket").iterdir())


def test_an_evaluation_that_cannot_be_written_is_refused_before_it_is_made(run, trained, examples):
    err = refused(run, "evaluate", trained, examples / "test.jsonl", "--out", "s3x://bucket/found")
    assert "s3x:// cannot be written to" in err


def test_a_name_that_is_not_utf_8_is_told_to_be_renamed(run, trained, examples, tmp_path):
    strange = os.fsdecode(b"a\xffb")
    for command in (
        ("corpus", "convert", examples / "test.jsonl", "--out", f"{tmp_path}/{strange}"),
        ("kb", "convert", examples / "knowledge_base.jsonl", "--out", f"{tmp_path}/{strange}.parquet"),
        ("predict", f"{trained}{strange}", "a text"),
    ):
        assert "the name is not UTF-8; rename it" in refused(run, *command)


def test_home_is_put_in_where_no_shell_did_that(run, examples, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    status, _, err = run("kb", "convert", examples / "knowledge_base.jsonl", "--out", "~/kb/base.parquet")
    assert status == 0, err
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]
    assert run("kb", "check", "~/kb/base.parquet")[0] == 0


def test_the_uri_of_a_file_is_a_path(run, trained):
    status, _, err = run("predict", trained.resolve().as_uri(), "a text", "--json")
    assert status == 0, err


def test_an_empty_path_is_not_the_working_folder(run, examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = examples / "test.jsonl"
    for command in (
        ("corpus", "check", ""),
        ("corpus", "convert", corpus, "--out", ""),
        ("train", examples / "recipe.yaml", "--out", ""),
        ("annotate", tmp_path, corpus, "--out", ""),
        ("report", " "),
    ):
        assert "empty path; name a" in refused(run, *command)
    assert not list(tmp_path.iterdir())


def test_the_quick_start_refuses_a_key_before_it_converts(run, tmp_path):
    assert "nope" in refused(run, "quickstart", "--set", "nope=1", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["mentions.jsonl", "mentions.txt", "mentions.csv"])
def test_an_empty_file_of_mentions_is_refused(run, trained, tmp_path, name):
    (tmp_path / name).write_text("mention\n" if name.endswith("csv") else "")
    (tmp_path / "index").mkdir()
    err = refused(run, "standardize", trained / "best", tmp_path / name, "--index", tmp_path / "index")
    assert f"{tmp_path / name}: no mentions in it" in err
