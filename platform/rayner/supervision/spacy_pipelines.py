"""spaCy's English pipeline, of which this package needs the tagger or the parser."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from rayner.errors import InputError

SPACY_MODEL = "en_core_web_sm"


def spacy_pipeline(where: str, without: Sequence[str]) -> Any:
    """The pipeline, without these of its parts.

    Args:
        where: what asks for it, of which an error tells.

    Raises:
        InputError: spaCy or the pipeline is not installed.
    """
    try:
        spacy: Any = importlib.import_module("spacy")
        return spacy.load(SPACY_MODEL, exclude=list(without))
    except (ImportError, OSError):
        hint = f"pip install spacy, then python -m spacy download {SPACY_MODEL}"
        raise InputError(where, f"spaCy with the pipeline {SPACY_MODEL} is not installed", hint) from None
