"""Corpora that have nothing of the recipe's types, or are said to be annotated for others."""

from __future__ import annotations

import pytest

from rayner.config import CorpusSettings
from rayner.data.schema import UNKNOWN
from rayner.errors import CorpusError, RecipeError
from rayner.tasks.required_types import require_known, require_mentions


def test_documents_without_any_of_the_types_are_refused_with_those_that_they_have() -> None:
    require_mentions({"PLACE": 1}, ["PLACE"])
    with pytest.raises(CorpusError, match=r"no mention of CITY; mentions of: PLACE \(1\); name"):
        require_mentions({"PLACE": 1, UNKNOWN: 2}, ["CITY"])
    with pytest.raises(CorpusError, match=r"mentions of: none at all; .* or another corpus or dictionary$"):
        require_mentions({UNKNOWN: 2}, ["CITY"])


def test_what_a_corpus_was_annotated_for_are_types_of_the_recipe_or_become_such() -> None:
    def corpus(*types: str) -> CorpusSettings:
        return CorpusSettings(train=("a",), annotated={"a": types}, rename={"town": "CITY"})

    require_known(corpus("CITY", "town"), ["CITY"])
    require_known(corpus(), ["CITY"])
    with pytest.raises(RecipeError, match=r"^corpus.annotated: a: 'CTY' is no type .* did you mean 'CITY'\?"):
        require_known(corpus("CITY", "CTY"), ["CITY"])
