"""`corpus resolve`: texts to stories that the task `chains` learns from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayner.data import scans
from rayner.data.readers import read_corpus
from rayner.data.schema import chained
from rayner.errors import CheckpointError, CorpusError, InputError
from rayner.runtime.corpora import resolve as command
from rayner.runtime.corpora.resolve import resolve_texts
from rayner.runtime.training.train import train
from rayner.supervision.resolvers.rules import RuleResolver
from rayner.tasks import resolvers as known
from rayner.tasks.registry import parse_recipe
from tests.tasks.chains.small_chains import chains_recipe

STORIES = (
    "Emma met Tom. She saw him.",
    "The ship sank. Emma saw it. The ship was old.",
    "Tom slept. He woke.",
)


class Far(RuleResolver):
    """Finds a mention of another document."""

    name = "far"

    def __call__(self, document: Any) -> Any:
        return [[(0, 1), (900, 910)]]


class Names(RuleResolver):
    """The rules, but for what they say of things."""

    name = "people"
    version = "people"

    def __call__(self, document: Any) -> Any:
        return [chain for chain in super().__call__(document) if document.text[chain[0][0]].isupper()]


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three stories, a text without a mention, an empty one; and a second resolver beside the rules."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, story in enumerate(STORIES):
        (folder / f"s{number}.txt").write_text(story, encoding="utf-8")
    (folder / "none.txt").write_text("nothing to see", encoding="utf-8")
    (folder / "void.txt").write_text("", encoding="utf-8")
    own = known._known()
    monkeypatch.setattr(known, "_known", lambda: {**own, "people": lambda _: Names(), "far": lambda _: Far()})
    return folder


def found(out: Path) -> dict[str, list[list[str]]]:
    stories = {}
    for document in read_corpus(out).documents:
        chains: dict[str, list[str]] = {}
        for mention in chained(document):
            assert mention.chain is not None
            chains.setdefault(mention.chain, []).append(document.text[mention.start : mention.end])
        stories[document.document_id] = sorted(chains.values())
    return stories


def test_links_of_both_resolvers_become_stories(texts: Path, tmp_path: Path) -> None:
    counts = resolve_texts([texts], tmp_path / "out", ["rules", "people"], "rule", workers=0)
    assert found(tmp_path / "out") == {"s0": [["Emma", "She"], ["Tom", "him"]], "s2": [["Tom", "He"]]} | {
        "s1": [["The ship", "it", "The ship"]]
    }
    assert (counts["documents"], counts["rejected"], counts["chains"], counts["pronouns"]) == (3, 2, 4, 4)
    assert counts["agreement"] == {"rules & people": 1.0}
    assert counts["links"] == {"rules": 6, "people": 6}
    rejects = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()]
    assert sorted(row["what"] for row in rejects) == [
        "an empty file",
        "no coreference link on which two resolvers agree",
    ]


def test_what_only_one_finds_is_dropped_and_counted(texts: Path, tmp_path: Path) -> None:
    (texts / "s1.txt").write_text("Emma saw the ship. She left. Tom saw the ship.", encoding="utf-8")
    counts = resolve_texts([texts], tmp_path / "out", ["rules", "people"], "rule", workers=0)
    assert found(tmp_path / "out")["s1"] == [["Emma", "She"]]
    assert counts["agreement"] == {"rules & people": 4 / 5}
    assert counts["agreement_with_pronouns"] == {"rules & people": 1.0}


def test_an_interrupted_run_goes_on_and_a_finished_one_is_not_repeated(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "PART_UNITS", 1)
    whole = resolve_texts([texts], tmp_path / "whole", ["rules"], "rule", workers=0)
    seen: list[str] = []
    original = command.resolve

    def stopping(document: Any, *arguments: Any) -> Any:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(document.document_id)
        return original(document, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(command, "resolve", stopping)
        with pytest.raises(KeyboardInterrupt):
            resolve_texts([texts], tmp_path / "out", ["rules"], "rule", workers=0)
    again: list[str] = []
    monkeypatch.setattr(command, "resolve", lambda d, *a: (again.append(d.document_id), original(d, *a))[1])
    counts = resolve_texts([texts], tmp_path / "out", ["rules"], "rule", workers=0)
    assert {k: v for k, v in counts.items() if k != "seconds"} == {
        k: v for k, v in whole.items() if k != "seconds"
    }
    assert sorted(seen + again) == ["none", "s0", "s1", "s2"]
    assert resolve_texts([texts], tmp_path / "out", ["rules"], "rule", workers=0) == counts
    assert len(again) == 2
    resolve_texts([texts], tmp_path / "out", ["people"], "rule", workers=0)
    assert len(again) == 6


@pytest.mark.parametrize(
    ("names", "where", "hint"),
    [
        ([], "--resolver", "give one or more, such as rules and ranking:RUN/best; there are coreferee"),
        (["rulez"], "--resolver rulez", "there are coreferee"),
        (["rules", "rules"], "--resolver rules", "name two that differ"),
        (["rules:x"], "--resolver rules:x", "write rules"),
        (["ranking"], "--resolver ranking", "RUN/best"),
    ],
)
def test_a_resolver_that_cannot_be_had_is_named(texts: Path, names: list[str], where: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        resolve_texts([texts], texts.parent / "out", names, "rule", workers=0)
    assert error.value.where == where
    assert hint in error.value.hint
    assert not (texts.parent / "out").exists()


def test_a_folder_that_is_no_checkpoint_is_named(texts: Path) -> None:
    with pytest.raises(CheckpointError, match="is missing"):
        resolve_texts([texts], texts.parent / "out", [f"ranking:{texts}"], "rule", workers=0)


def test_texts_of_which_none_has_a_chain_are_an_error(texts: Path) -> None:
    for path in texts.glob("s*.txt"):
        path.unlink()
    with pytest.raises(CorpusError, match="no coreference link of rules"):
        resolve_texts([texts / "none.txt"], texts.parent / "out", ["rules"], "rule", workers=0)


def test_a_chain_that_leaves_its_document_rejects_it(texts: Path) -> None:
    with pytest.raises(CorpusError, match="the resolver far found a mention at 900-910"):
        resolve_texts([texts / "s0.txt"], texts.parent / "out", ["rules", "far"], "rule", workers=0)


def test_the_pretraining_learns_from_the_stories(texts: Path, tmp_path: Path) -> None:
    resolve_texts([texts], tmp_path / "out", ["rules"], "rule", workers=0)
    corpus = {"train": [str(tmp_path / "out")], "dev": []}
    recipe = parse_recipe(chains_recipe(tmp_path / "chains", corpus=corpus), "recipe")
    assert train(recipe, tmp_path / "run")["steps"] > 0


def test_the_same_stories_whatever_the_workers(texts: Path, tmp_path: Path, ray_cluster: None) -> None:
    alone = resolve_texts([texts], tmp_path / "alone", ["rules"], "rule", workers=0)
    shared = resolve_texts([texts], tmp_path / "shared", ["rules"], "rule", workers=2)
    assert {k: v for k, v in alone.items() if k != "seconds"} == {
        k: v for k, v in shared.items() if k != "seconds"
    }
    assert found(tmp_path / "alone") == found(tmp_path / "shared")
