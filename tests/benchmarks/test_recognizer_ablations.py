"""What `python -m benchmarks.recognizer_ablations` sets, and what its rows are over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import recognizer_ablations
from benchmarks.recognizer_ablations import ERROR, PLAIN, RECIPE, SCORED, TABLES, example_of
from rayner.data.schema import Document, Mention
from rayner.tasks.registry import load_recipe


@pytest.mark.parametrize("name", TABLES)
def test_the_first_row_is_the_papers_method_and_each_other_one_differs_from_it(name: str) -> None:
    table, paper = TABLES[name], load_recipe(RECIPE)
    assert len({row.name for row in table.rows}) == len(table.rows)
    for row in table.rows:
        changed = [f"{key}={json.dumps(value)}" for key, value in row.changes.items()]
        assert (load_recipe(RECIPE, changed) == paper) == (row.name == PLAIN), row
    assert table.rows[0].name == PLAIN


def test_an_example_is_a_sentence_of_a_fair_length_with_one_mention() -> None:
    texts = (
        "Ada came .",
        "Ada and Bob came to the house by the sea .",
        "Then Cy looked at the sea for an hour .",
    )
    text = " ".join(texts)
    begins = [0, len(texts[0]) + 1, len(texts[0]) + len(texts[1]) + 2]
    names = [
        (text.index(name, begins[place]), name)
        for place, name in ((0, "Ada"), (1, "Ada"), (1, "Bob"), (2, "Cy"))
    ]
    mentions = tuple(Mention(start, start + len(name), "PER") for start, name in names)
    sentences = tuple((begin, begin + len(of)) for begin, of in zip(begins, texts, strict=True))
    document = Document("a", text, mentions, sentences=sentences)
    assert example_of("PER", [document]) == "Then [[Cy]] looked at the sea for an hour ."
    with pytest.raises(ValueError, match="no sentence of 8 to 30 words has one mention of LOC"):
        example_of("LOC", [document])


def test_gains_are_over_the_first_row(tmp_path: Path) -> None:
    table = TABLES["descriptions"].rows
    counts = {(0, 1): [[2, 2, 2], [2, 2, 2]], (0, 2): [[2, 2, 2], [1, 2, 2]]}
    counts |= {(1, seed): [[1, 2, 2], [1, 2, 2]] for seed in (1, 2)}
    for (place, seed), found in counts.items():
        out = tmp_path / f"{table[place].name}_{seed}"
        out.mkdir()
        (out / SCORED).write_text(json.dumps(found))
        (out / ERROR).write_text(json.dumps({"calibration_error": seed / 100} if place else {}))
    plain, learned = recognizer_ablations.rows(table, [1, 2, 3], tmp_path)
    assert (plain["threshold"], plain["seeds"], plain["f1"]) == ("dynamic", 2, pytest.approx(0.875))
    assert not {"gain", "calibration_error"} & plain.keys()
    assert (learned["f1"], learned["gain"]) == (pytest.approx(0.5), pytest.approx(-0.375))
    assert learned["gain_interval"] == pytest.approx([-0.5, -0.25])
    assert learned["calibration_error"] == pytest.approx(0.015)
