"""What `python -m benchmarks.recognizer_ablations` sets, and what its rows are over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import recognizer_ablations
from benchmarks.recognizer_ablations import ROWS, SCORED, example_of
from rayner.config.recognizer import BiEncoderSettings
from rayner.data.schema import Document, Mention


def test_the_first_row_is_the_papers_method() -> None:
    plain = BiEncoderSettings()
    assert ROWS[0] == (plain.type_encoding, plain.threshold)
    assert len({*ROWS}) == len(ROWS)


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
    counts = {(ROWS[0], 1): [[2, 2, 2], [2, 2, 2]], (ROWS[0], 2): [[2, 2, 2], [1, 2, 2]]}
    counts |= {(ROWS[1], seed): [[1, 2, 2], [1, 2, 2]] for seed in (1, 2)}
    for ((encoding, threshold), seed), found in counts.items():
        out = tmp_path / f"{encoding}_{threshold}_{seed}"
        out.mkdir()
        (out / SCORED).write_text(json.dumps(found))
    plain, learned = recognizer_ablations.rows([1, 2, 3], tmp_path)
    assert (plain["threshold"], plain["seeds"], plain["f1"]) == ("dynamic", 2, pytest.approx(0.875))
    assert "gain" not in plain
    assert (learned["f1"], learned["gain"]) == (pytest.approx(0.5), pytest.approx(-0.375))
    assert learned["gain_interval"] == pytest.approx([-0.5, -0.25])
