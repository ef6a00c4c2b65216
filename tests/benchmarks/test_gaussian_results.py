"""What `python -m benchmarks.gaussian_results` draws, counts and compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import gaussian_material, gaussian_results
from benchmarks.gaussian_results import Run
from rayner.data.schema import Document, Mention
from rayner.data.writers.jsonl import write_jsonl

TEXT = "El paciente toma aspirina"


def test_texts_are_drawn_once_and_in_one_order() -> None:
    documents = [Document(str(n), f"texto {n}") for n in range(20)]
    copies = [Document(f"copy{n}", f"Texto  {n}.") for n in range(20)]
    found = gaussian_material.drawn([*documents, *copies])
    assert len(found) == 20
    again = gaussian_material.drawn([*reversed(documents), *copies])
    assert [d.text for d in again] == [d.text for d in found]


def test_only_types_of_the_corpus_are_kept_and_told() -> None:
    document = Document("a", TEXT, (Mention(3, 11, "HUMAN"), Mention(17, 25, "UNCLEAR")))
    kept = gaussian_material.of_types(document, ["HUMAN", "SPECIES"])
    assert [m.type for m in kept.mentions] == ["HUMAN"]
    assert kept.annotated_types == ("HUMAN", "SPECIES")


def test_a_gain_is_of_the_seeds_that_both_ways_have(tmp_path: Path) -> None:
    files = {c: {"train": tmp_path / f"{c}.jsonl"} for c in gaussian_results.TYPES}
    for file in (parts["train"] for parts in files.values()):
        write_jsonl([Document("a", TEXT)], file)
    counts = {
        ("encoder as it is", 1): [[1, 2, 2], [1, 2, 2]],
        ("encoder as it is", 2): [[2, 2, 2], [2, 2, 2]],
        ("pre-trained", 1): [[2, 2, 2], [1, 2, 2]],
    }
    runs = [Run("livingner", way, seed) for way, seed in counts]
    for run, found in zip(runs, counts.values(), strict=True):
        run.out(tmp_path).mkdir()
        (run.out(tmp_path) / gaussian_results.SCORED).write_text(json.dumps(found))
    plain, pretrained = gaussian_results.rows(runs, files, tmp_path)
    assert (plain["seeds"], plain["f1"]) == (2, pytest.approx(0.75))
    assert pretrained["gain"] == pytest.approx(0.25)
    assert pretrained["gain_interval"] == pytest.approx([0, 0.5])
    # Four words: 5 epochs, and 3 of both corpora; 6 more epochs of one read as many.
    assert (plain["words_read"], pretrained["words_read"]) == (20, 44)
    assert gaussian_results.more_epochs(files, "livingner") == 11
