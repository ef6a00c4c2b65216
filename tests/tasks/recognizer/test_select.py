from __future__ import annotations

import pytest
import torch

from rayner.losses.span_contrast import SpanScores
from rayner.models.span_search import Rule
from rayner.tasks.recognizer.selection import select

WINDOWS, TYPES, LENGTH, WIDTHS = 2, 3, 6, 3


def case() -> tuple[SpanScores, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    line = (WINDOWS, TYPES, LENGTH)
    scores = SpanScores(
        *(torch.randn(s) for s in (line, line, (*line, WIDTHS), line[:2], line[:2], line[:2]))
    )
    word_start, word_end = torch.rand(WINDOWS, LENGTH) < 0.7, torch.rand(WINDOWS, LENGTH) < 0.7
    word_start[:, 0] = word_end[:, 0] = False
    return scores, word_start, word_end


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize(("of_start", "of_end"), [(0.0, 0.0), (0.2, 0.0), (0.3, 0.5)])
@pytest.mark.parametrize("shift", [0.0, -0.5, [0.1, -1.0, 2.0]])
def test_finds_what_loops_find(
    joint: bool, of_start: float, of_end: float, shift: float | list[float]
) -> None:
    scores, word_start, word_end = case()
    shifts = shift if isinstance(shift, list) else [shift] * TYPES
    weights = 1 - of_start - of_end, of_start, of_end
    expected = []
    for b in range(WINDOWS):
        for k in range(TYPES):
            bars = [
                t[b, k].item() for t in (scores.span_threshold, scores.start_threshold, scores.end_threshold)
            ]
            for i in range(LENGTH):
                for j in range(i, min(i + WIDTHS, LENGTH)):
                    if not (word_start[b, i] and word_end[b, j]):
                        continue
                    cells = scores.span[b, k, i, j - i], scores.start[b, k, i], scores.end[b, k, j]
                    margins = [cell.item() - bar for cell, bar in zip(cells, bars, strict=True)]
                    if joint and min(margins[1:]) < 0:
                        continue
                    score = sum(w * cell.item() for w, cell in zip(weights, cells, strict=True))
                    margin = sum(w * m for w, m in zip(weights, margins, strict=True))
                    if margin > shifts[k]:
                        expected.append((b, k, i, j, score, margin))
    given = torch.tensor(shift) if isinstance(shift, list) else shift
    found = select(scores, word_start, word_end, given, rule=Rule(of_start, of_end, joint))
    assert expected
    assert len(found.window) == len(expected)
    for row, wanted in zip(zip(*(t.tolist() for t in found), strict=True), expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-6)


def test_nothing_above_the_threshold() -> None:
    scores, word_start, word_end = case()
    assert all(len(column) == 0 for column in select(scores, word_start, word_end, 1e9))
