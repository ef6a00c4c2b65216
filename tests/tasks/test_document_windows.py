"""Windows over a document's sub-words."""

from __future__ import annotations

import numpy as np

from rayner.data.windows import Window
from rayner.tasks.document_windows import TextWindow


def test_a_span_of_which_a_window_shows_one_sub_word_is_within_it() -> None:
    window = TextWindow(None, [Window(0, 4), Window(3, 8)], 1)  # type: ignore[arg-type]
    assert window.within(np.array([[1, 3], [0, 2]])).tolist() == [[0, 0]]
