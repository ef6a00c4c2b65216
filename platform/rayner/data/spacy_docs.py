"""What reading and writing documents of spaCy share."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rayner.errors import InputError

SPANS = "sc"
"""Where spaCy's span categorizer looks for spans."""


def load_spacy(where: str = "--to docbin") -> Any:
    """The module `spacy.tokens`.

    Args:
        where: what needs it.

    Raises:
        InputError: it is not installed.
    """
    try:
        import_module("spacy.vocab")
        return import_module("spacy.tokens")
    except ImportError as error:
        hint = "pip install 'rayner[spacy]'"
        raise InputError(where, f"needs spaCy, which cannot be imported ({error})", hint) from None
