"""What the types of a recipe and the documents to learn from must have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from rayner.config import CorpusSettings
from rayner.counted import counted
from rayner.data.schema import UNKNOWN
from rayner.errors import CorpusError, RecipeError


def require_mentions(counts: Mapping[str, int], types: Sequence[str]) -> None:
    """Refuse documents to learn from that have no mention of any of the types.

    Args:
        counts: how many mentions of each type they have.

    Raises:
        CorpusError: it says which types the documents do have.
    """
    if counts.keys().isdisjoint(types):
        known = Counter({name: count for name, count in counts.items() if name != UNKNOWN})
        there = ", ".join(f"{name} ({count})" for name, count in known.most_common(10))
        what = f"no mention of {', '.join(types[:10])}; mentions of: {there or 'none at all'}"
        hint = "name the corpus's own types in `types`, or another corpus or dictionary"
        raise CorpusError("corpus.train", what, hint)


def require_known(corpus: CorpusSettings, types: Sequence[str]) -> None:
    """Refuse a corpus that is said to be annotated for what is no type: of the type that was meant, its
    mentions would be left out.

    Raises:
        RecipeError: it names the wrong type, and the nearest of the recipe's.
    """
    for path, annotated in corpus.annotated.items():
        for name in annotated:
            if corpus.rename.get(name, name) not in types:
                near = get_close_matches(name, types, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else "leave it out, or name it in `types`"
                raise RecipeError("corpus.annotated", f"{path}: {name!r} is no type of the recipe", hint)


def require_absent(counts: Mapping[str, int], types: Sequence[str]) -> None:
    """Refuse documents with mentions of types that are said to be absent: each would be learned as none.

    Raises:
        CorpusError: it names the type.
    """
    for name in types:
        if count := counts.get(name, 0):
            what = f"has {name!r}, of which the training documents have {counted(count, 'mention')}"
            raise CorpusError("absent", what, "take it out, or name it in `types`")
