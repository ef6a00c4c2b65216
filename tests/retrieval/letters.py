"""Entities, and an encoder that counts letters, so that nothing needs a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rayner.data.schema import Entity

ENTITIES = (
    Entity("D1", "adenomatous polyposis coli", ("APC", "familial polyposis")),
    Entity("D2", "breast cancer", ("carcinoma of the breast", "mammary cancer"), "disease"),
    Entity("D3", "Huntington disease (HD)", (), "disease", "a disease of the nerves"),
    Entity("D4", "hypertension", ("high blood pressure",)),
    Entity("D5", "сахарный диабет", ("diabetes mellitus",)),
)


class Letters:
    """The shares of each letter in a text; `encoded` keeps what it was asked for."""

    def __init__(self, size: int = 32) -> None:
        self.size = size
        self.encoded: list[str] = []

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded += texts
        vectors = np.zeros((len(texts), self.size), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for place, letter in enumerate(text.lower()):
                row[ord(letter) % self.size] += 1 + place / 50
            row[-1] += 0.1
        return vectors
