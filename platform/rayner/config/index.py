"""How the names of a knowledge base are made findable."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import Fraction, Settings


class IndexSettings(Settings):
    """What an index of entities holds, and how it is searched."""

    aliases: bool = True
    """Whether aliases are in the index beside names."""
    abbreviations: bool = True
    """Whether abbreviations of the knowledge base are expanded."""
    ngrams: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = (1, 4)
    """The shortest and the longest run of characters that the lexical side counts."""
    distance: Literal["cosine", "euclidean", "squared_euclidean"] | None = None
    """The distance of vectors. Null: that of the training."""
    search: Literal["auto", "exact", "ivf", "hnsw"] = "auto"
    """`auto` is exact up to 250,000 names and `ivf` above, and from 100,000 on looks only the rare n-grams
    up; `exact` compares with every name."""
    recall: Fraction = 0.99
    """The share of the nearest names that an approximate search is to find."""
    max_aliases: PositiveInt | None = None
    """Refuses a knowledge base in which an entity has more aliases. Null: no limit."""

    @model_validator(mode="after")
    def _ordered(self) -> IndexSettings:
        if self.ngrams[0] > self.ngrams[1]:
            raise ValueError(f"ngrams {list(self.ngrams)}: the shortest comes first")
        return self
