"""`rayner corpus` on the example corpus."""

from __future__ import annotations

import json

import pytest

from rayner.data.readers import read_corpus


@pytest.fixture
def dictionary(examples, tmp_path):
    """The names of the example knowledge base with their types."""
    rows = map(json.loads, (examples / "knowledge_base.jsonl").read_text(encoding="utf-8").splitlines())
    path = tmp_path / "names.tsv"
    path.write_text("".join(f"{row['type']}\t{row['name']}\n" for row in rows), encoding="utf-8")
    return path


def test_convert_and_check(run, examples, tmp_path):
    out = tmp_path / "dev"
    status, printed, err = run(
        "corpus", "convert", examples / "dev.jsonl", "--out", out, "--workers", 0, "--json"
    )
    assert status == 0, err
    counts = json.loads(printed.splitlines()[-1])
    given = read_corpus(examples / "dev.jsonl").documents
    assert counts["documents"] == len(given) == len(read_corpus(out).documents)
    assert counts["mentions"] == sum(len(document.mentions) for document in given)
    status, printed, _ = run("corpus", "check", out, "--json")
    assert (status, json.loads(printed)["errors"]) == (0, 0)
    status, printed, _ = run("corpus", "convert", out, "--out", tmp_path / "again", "--workers", 0)
    assert status == 0
    assert f"rayner corpus check {tmp_path / 'again'}" in printed
    spaced = tmp_path / "my corpus"
    status, printed, _ = run("corpus", "convert", out, "--out", spaced, "--workers", 0)
    assert status == 0
    # A command that is printed to be run next is one that a shell takes.
    assert f"rayner corpus check '{spaced}'" in printed


def test_label_puts_the_dictionarys_mentions_in_place_of_the_corpus_own_and_scores_them(
    run, examples, tmp_path, dictionary
):
    arguments = ["corpus", "label", examples / "dev.jsonl", "--dictionary", dictionary, "--workers", 0]
    status, printed, err = run(*arguments, "--out", tmp_path / "labelled", "--json")
    assert status == 0, err
    counts = json.loads(printed.splitlines()[-1])
    labelled = read_corpus(tmp_path / "labelled").documents
    names = {line.split("\t")[1].casefold() for line in dictionary.read_text(encoding="utf-8").splitlines()}
    found = [d.text[m.start : m.end].casefold() for d in labelled for m in d.mentions]
    assert counts["mentions"] == len(found) > 50
    assert set(found) <= names
    assert 0.5 < counts["precision"] <= 1
    status, printed, _ = run(*arguments, "--out", tmp_path / "shown")
    assert status == 0
    assert "Labels against the corpus's own mentions" in printed
    assert f"rayner corpus check {tmp_path / 'shown'}" in printed


def test_types_that_the_corpus_lacks_are_not_scored(run, examples, tmp_path, dictionary, caplog):
    lines = dictionary.read_text(encoding="utf-8").splitlines()
    (tmp_path / "more.txt").write_text("\n".join([*lines, "Word\tthe", "Word\tand"]))
    scores = []
    for names in (dictionary, tmp_path / "more.txt"):
        out = tmp_path / f"of {names.stem}"
        arguments = [examples / "dev.jsonl", "--dictionary", names, "--workers", 0, "--out", out, "--json"]
        status, printed, _ = run("corpus", "label", *arguments)
        assert status == 0
        told = "Word is not scored: the corpus has no mention of that type" in caplog.text
        assert told == (names != dictionary)
        counts = json.loads(printed.splitlines()[-1])
        scores.append({name: counts[name] for name in ("precision", "recall", "f1", "per_type")})
    assert scores[0] == scores[1]


def test_labels_where_nobody_knows_what_is_right_are_not_scored(run, tmp_path):
    mentions = [{"start": 0, "end": 5, "type": "Software"}, {"start": 10, "end": 15, "type": "?"}]
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "Kafka and Redis", "mentions": mentions}))
    (tmp_path / "names.txt").write_text("Software\tKafka\nSoftware\tRedis\n")
    arguments = [
        "corpus",
        "label",
        tmp_path / "a.jsonl",
        "--dictionary",
        tmp_path / "names.txt",
        "--workers",
        0,
    ]
    status, printed, _ = run(*arguments, "--out", tmp_path / "out", "--json")
    assert status == 0
    counts = json.loads(printed.splitlines()[-1])
    assert (counts["precision"], counts["mentions"]) == (1.0, 2)


def test_label_names_the_line_of_a_dictionary_without_types(run, examples, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("Firefox\n", encoding="utf-8")
    arguments = ["corpus", "label", examples / "dev.jsonl", "--dictionary", names, "--out", tmp_path / "out"]
    status, _, err = run(*arguments, "--workers", 0)
    assert status == 2
    assert f"{names}:1" in err
    assert run(*arguments, "--workers", 0, "--default-type", "Software")[0] == 0


def test_check_lists_errors_first_with_their_place_and_ends_with_1(run, replaced, tmp_path):
    def finding(severity, line):
        where = f"x:{line}"
        return {"kind": severity, "severity": severity, "where": where, "what": "[wrong]", "hint": "fix it"}

    found = {"documents": 2, "errors": 1, "findings": [finding("warning", 1), finding("error", 2)]}
    replaced("corpora.check", "check", lambda paths, recipe, workers: found)
    status, out, _ = run("corpus", "check", tmp_path)
    assert status == 1
    assert out.splitlines() == [
        "x:2: error: [wrong]; fix it",
        "x:1: warning: [wrong]; fix it",
        "documents: 2",
        "errors:    1",
    ]


def test_check_says_each_kind_of_finding_once(run, replaced, tmp_path):
    def finding(severity, kind, line):
        return {"kind": kind, "severity": severity, "where": f"x:{line}", "what": kind, "hint": ""}

    notes = [finding("note", "nested", line) for line in range(9)]
    warnings = [finding("warning", "b", line) | {"what": f"b of {line}"} for line in (1, 2)]
    errors = [finding("error", "e", line) | {"what": f"e {line % 2}"} for line in (1, 2, 3)]
    found = {"errors": 3, "findings": [*notes, *warnings, *errors]}
    replaced("corpora.check", "check", lambda paths, recipe, workers: found)
    status, out, _ = run("corpus", "check", tmp_path)
    assert status == 1
    assert out.splitlines()[:-1] == [
        "x:1: error: e 1",
        "x:2: error: e 0",
        "  and 1 more of this kind (e): x:3; --json says all",
        "x:1: warning: b of 1",
        "  and 1 more of this kind (b): x:2; --json says all",
        "x:0: note: nested",
        "  and 8 more of this kind (nested): x:1, x:2, x:3, x:4, x:5, ...; --json says all",
    ]


def test_a_check_of_nothing_is_wrong_usage(run):
    status, _, err = run("corpus", "check")
    assert (status, "--recipe" in err) == (2, True)


@pytest.mark.parametrize("to", ["iob2", "brat", "pubtator", "jsonl"])
def test_convert_to_another_format(run, examples, tmp_path, to):
    arguments = ["corpus", "convert", examples / "dev.jsonl", "--to", to, "--workers", 0]
    status, printed, err = run(*arguments, "--out", tmp_path / "out", "--json")
    assert status == 0, err
    counts = json.loads(printed.splitlines()[-1])
    read = read_corpus(tmp_path / "out").documents
    assert counts["to"] == to
    assert (counts["documents"], counts["mentions"]) == (len(read), sum(len(d.mentions) for d in read))
    losses = (tmp_path / "out" / "losses.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum(counts["lost"].values()) == sum(json.loads(line)["count"] for line in losses)
    assert (counts["lost"].get("group", 0) > 0) == (to != "jsonl")


def test_a_conversion_that_cannot_be_had_is_one_line(run, examples, tmp_path):
    given = examples / "dev.jsonl"
    status, _, err = run("corpus", "convert", given, "--to", "conllu", "--out", tmp_path / "out")
    assert (status, err.count("\n")) == (2, 1)
    assert "docbin" in err
    (tmp_path / "mine.txt").write_text("mine")
    status, _, err = run("corpus", "convert", given, "--to", "brat", "--out", tmp_path, "--workers", 0)
    assert status == 2
    assert f"error: --out {tmp_path}: holds files that are not from here; name another folder" in err


def test_contexts_of_templates(run, examples, tmp_path):
    arguments = ["corpus", "contexts", examples / "dev.jsonl", "--out", tmp_path / "out"]
    status, printed, err = run(*arguments, "--json")
    assert status == 0, err
    result = json.loads(printed.splitlines()[-1])
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").open(encoding="utf-8")]
    assert result["rows"] == len(rows) > 50
    assert result["relevant"] == sum(row["relevant"] for row in rows)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--send"], "goes with --model"),
        (["--endpoint", "https://host/v1"], "goes with --model"),
        (["--endpoint", "ftp://host", "--model", "m"], "is not an address"),
        (["--checkpoint", ".", "--endpoint", "https://host/v1", "--model", "m"], "leave --endpoint"),
        (["--checkpoint", ".", "--method", "nearest"], "--method: methods.0"),
        (["--checkpoint", "."], "checkpoint"),
        (["--method", "bm25"], "--method: "),
        (["--minimum-gain", "0.1"], "--minimum-gain: "),
        (["--timeout", "9"], "--timeout: is for an --endpoint; name one"),
        (["--timeout", "-1", "--endpoint", "https://host/v1", "--model", "m"], "for '--timeout'"),
        (["--timeout", "inf", "--endpoint", "https://host/v1", "--model", "m"], "for '--timeout'"),
        (["--timeout", "nan", "--endpoint", "https://host/v1", "--model", "m"], "for '--timeout'"),
        (["--temperature", "inf", "--endpoint", "https://host/v1", "--model", "m"], "for '--temperature'"),
        (["--key-variable", "KEY", "--vllm", "m"], "--key-variable: is for an --endpoint; name one"),
        (["--tries", "3"], "--tries: is for an --endpoint or --vllm"),
        (["--temperature", "1", "--checkpoint", "."], "--temperature: is for an --endpoint or --vllm"),
        (["--candidates", "8", "--endpoint", "https://host/v1", "--model", "m"], "--candidates: "),
    ],
)
def test_contexts_that_cannot_be_had_are_one_line(run, examples, tmp_path, options, what):
    status, _, err = run("corpus", "contexts", examples / "dev.jsonl", "--out", tmp_path / "out", *options)
    assert status == 2
    assert what in err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_resolve_writes_stories_and_names_an_unknown_resolver(run, tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("Emma slept. She woke.", encoding="utf-8")
    arguments = ["corpus", "resolve", texts, "--out", tmp_path / "out", "--heads", "rule", "--workers", 0]
    status, printed, err = run(*arguments, "--resolver", "rules", "--json")
    assert status == 0, err
    counts = json.loads(printed.splitlines()[-1])
    assert (counts["documents"], counts["chains"], counts["pronouns"]) == (1, 1, 1)
    (story,) = read_corpus(tmp_path / "out").documents
    assert [story.text[m.start : m.end] for m in story.mentions] == ["Emma", "She"]
    status, _, err = run(*arguments, "--resolver", "rulez")
    assert status == 2
    assert "rulez" in err
    assert "ranking" in err
    status, printed, _ = run(*arguments, "--resolver", "rules", "--fresh")
    assert status == 0
    assert "chains:" in printed
    assert f" a recipe with task: chains and corpus.train: [{tmp_path / 'out'}]" in printed


@pytest.mark.parametrize("arguments", [["convert"], ["resolve", "--resolver", "rules", "--heads", "rule"]])
def test_the_place_of_the_rejects_is_beside_their_number(run, tmp_path, arguments):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "Emma slept. She woke."}\n{"text": 1}\n', encoding="utf-8")
    out = tmp_path / "out"
    status, printed, err = run("corpus", *arguments, texts, "--out", out, "--workers", 0)
    assert status == 0, err
    assert f" 1 ({out / 'rejects.jsonl'})\n" in printed
    assert (out / "rejects.jsonl").read_text(encoding="utf-8").count("\n") == 1


def test_rank_orders_documents_by_what_a_checkpoint_does_not_know(run, examples, trained, tmp_path):
    arguments = ["corpus", "rank", examples / "dev.jsonl", "--checkpoint", trained / "best"]
    status, printed, err = run(*arguments, "--out", tmp_path / "ranked", "--json")
    assert status == 0, err
    result = json.loads(printed.splitlines()[-1])
    documents = read_corpus(examples / "dev.jsonl").documents
    assert result["documents"] == len(documents)
    lines = (tmp_path / "ranked/ranking.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["document_id"] for line in lines} == {d.document_id for d in documents}
    assert [json.loads(line) for line in lines[:10]] == result["first"]
    status, printed, err = run(*arguments, "--out", tmp_path / "ranked")
    assert status == 0, err
    assert printed.splitlines()[0].split()[2] == result["first"][0]["document_id"]
    assert f" {tmp_path / 'ranked' / 'ranking.jsonl'}\n" in printed
