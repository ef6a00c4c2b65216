"""What is fitted on held-out mentions, and what is said where nothing can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rayner.data.mention_strings import MentionString
from rayner.tasks.standardizer.fitting import fit
from tests.tasks.standardizer.small_index import SmallIndex, encode


class Excluding(SmallIndex):
    """It leaves entities out of answers, as an index does."""

    def search(self, texts: Any, vectors: np.ndarray, k: int, weight: float, exclude: Any = None) -> Any:
        found = super().search(texts, vectors, len(self.entities), weight)
        barred = exclude or [()] * len(texts)
        return [[f for f in of if f.entity_id not in ids][:k] for of, ids in zip(found, barred, strict=True)]


@pytest.mark.parametrize(
    ("mentions", "said"),
    [
        ([("toothbrush", ()), ("quinoa", ())], "all 2 mentions to fit on are without an entity"),
        ([("Android", ("pg",)), ("zug", ())], "no first candidate of 1 held-out mentions is right"),
        ([("Postgres", ("pg",)), ("MySQL", ("my",)), ("zug", ())], ""),
        ([], ""),
    ],
)
def test_the_log_says_why_nil_is_not_calibrated(
    mentions: list[tuple[str, tuple[str, ...]]], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    index: Any = Excluding()
    strings = [MentionString(text, ids) for text, ids in mentions]
    vectors = encode([m.text for m in strings]) if strings else np.zeros((0, 256), np.float32)
    fitted = fit(index, strings, vectors)
    assert (fitted.nil is not None) == (bool(mentions) and not said)
    assert said in caplog.text
    assert bool(caplog.text) == bool(said)
