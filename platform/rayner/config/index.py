"""How the names of a knowledge base are made findable."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import Fraction, Settings


class IndexSettings(Settings):
    """What an index of entities holds, and how it is searched.

    `abbreviations` of the knowledge base are expanded. `ngrams` is the shortest and the longest run of
    characters that the lexical side counts. `distance` null is that of the training. `search: auto` is exact
    up to a million names and `ivf` above; `recall` is the share of the nearest names that an approximate
    search is to find.
    """

    aliases: bool = True
    abbreviations: bool = True
    ngrams: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (1, 4)
    distance: Literal["cosine", "euclidean", "squared_euclidean"] | None = None
    search: Literal["auto", "exact", "ivf", "hnsw"] = "auto"
    recall: Fraction = 0.99
    max_aliases: PositiveInt | None = None

    @model_validator(mode="after")
    def _ordered(self) -> IndexSettings:
        if self.ngrams[0] > self.ngrams[1]:
            raise ValueError(f"ngrams {list(self.ngrams)}: the shortest comes first")
        return self
