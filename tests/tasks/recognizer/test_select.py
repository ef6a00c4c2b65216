from __future__ import annotations

import pytest
import torch

from rayner.losses.span_contrast import SpanScores
from rayner.tasks.recognizer.predictor import select

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
@pytest.mark.parametrize("shift", [0.0, -0.5, [0.1, -1.0, 2.0]])
def test_finds_what_loops_find(joint: bool, shift: float | list[float]) -> None:
    scores, word_start, word_end = case()
    shifts = shift if isinstance(shift, list) else [shift] * TYPES
    expected = []
    for b in range(WINDOWS):
        for k in range(TYPES):
            for i in range(LENGTH):
                for j in range(i, min(i + WIDTHS, LENGTH)):
                    if not (word_start[b, i] and word_end[b, j]):
                        continue
                    if joint and scores.start[b, k, i] < scores.start_threshold[b, k]:
                        continue
                    if joint and scores.end[b, k, j] < scores.end_threshold[b, k]:
                        continue
                    score, threshold = scores.span[b, k, i, j - i].item(), scores.span_threshold[b, k].item()
                    if score > threshold + shifts[k]:
                        expected.append((b, k, i, j, score, score - threshold))
    found = select(
        scores, word_start, word_end, torch.tensor(shift) if isinstance(shift, list) else shift, joint=joint
    )
    assert expected
    assert len(found.window) == len(expected)
    for row, wanted in zip(zip(*(t.tolist() for t in found), strict=True), expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-6)


def test_nothing_above_the_threshold() -> None:
    scores, word_start, word_end = case()
    assert all(len(column) == 0 for column in select(scores, word_start, word_end, 1e9))
