"""The types that are looked for: the texts that describe them, as input of the type encoder (papers/000,
section 4, table 5), and which of them were never learned."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import torch

from rayner.config import RecognizerRecipe, TypeSettings
from rayner.errors import RecipeError
from rayner.models.encoder import Tokenizer
from rayner.models.type_inputs import TypeInputs
from rayner.tasks.document_windows import with_special_tokens

Threshold = Literal["dynamic", "mean"]
"""`dynamic`: the threshold of the type's own vector in each window, as for learned types. `mean`: of the
thresholds that the other types have, where these are learned or tuned, one a type."""


def type_inputs(
    types: Sequence[TypeSettings], encoding: str, tokenizer: Tokenizer, max_length: int
) -> TypeInputs:
    """One row for each text of each type.

    Args:
        encoding: `guideline`, `keyword` or `prototype`. A prototype's anchor is the bracket that opens its
            mention; elsewhere the anchor is [CLS].
        max_length: sub-words that the encoder takes.

    Raises:
        RecipeError: a type that has no text of this kind, or one that is longer than the encoder takes.
    """
    rows: list[np.ndarray] = []
    anchors: list[int] = []
    owners: list[int] = []
    for index, settings in enumerate(types):
        for ids, anchor in _texts(settings, encoding, tokenizer):
            if len(ids) + 2 > max_length:
                raise RecipeError(
                    f"types: {settings.name}",
                    f"has a description of {len(ids)} sub-words",
                    f"keep it to {max_length - 2}",
                )
            rows.append(np.array(ids))
            anchors.append(anchor)
            owners.append(index)
    ids = with_special_tokens(rows, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    lengths = torch.tensor([len(row) + 2 for row in rows])
    return TypeInputs(
        ids=torch.from_numpy(ids),
        mask=torch.arange(ids.shape[1])[None, :] < lengths[:, None],
        anchor=torch.tensor(anchors),
        type_index=torch.tensor(owners),
    )


def check_texts(types: Sequence[TypeSettings], encoding: str, tokenizer: Tokenizer) -> None:
    """Refuse a type that lacks the text of this kind; `atomic` needs none.

    Raises:
        RecipeError: the type.
    """
    if encoding != "atomic":
        for settings in types:
            deque(_texts(settings, encoding, tokenizer), maxlen=0)


def new_types(recipe: RecognizerRecipe, names: Iterable[str]) -> dict[str, Threshold]:
    """Those of the types that the recipe's model did not learn, each with how its threshold is had."""
    learned = {t.name for t in recipe.types}
    threshold: Threshold = "dynamic" if recipe.model.threshold == "dynamic" else "mean"
    return {name: threshold for name in names if name not in learned}


def _texts(settings: TypeSettings, encoding: str, tokenizer: Tokenizer) -> Iterator[tuple[list[int], int]]:
    if encoding == "prototype":
        if not settings.prototypes:
            raise RecipeError(
                f"types: {settings.name}",
                "has no prototypes",
                "add sentences such as `The [[Black Sea]] froze over.`",
            )
        yield from (_prototype(text, settings.name, tokenizer) for text in settings.prototypes)
        return
    if encoding == "guideline" and not settings.guidelines:
        # A type that is given to a trained model cannot have another encoding.
        hint = "describe it (or, before a training, set model.type_encoding=keyword)"
        raise RecipeError(f"types: {settings.name}", "has no description", hint)
    texts = (settings.keyword or settings.name,) if encoding == "keyword" else settings.guidelines
    yield from ((tokenizer(text)[0], 0) for text in texts)


def _prototype(text: str, name: str, tokenizer: Tokenizer) -> tuple[list[int], int]:
    before, _, rest = text.partition("[[")
    # Of a mention of one character at least. A regular expression would begin anew at each bracket.
    end = rest.find("]]", 1)
    if end == -1:
        what = f"the prototype {text[:60]!r} marks no mention"
        raise RecipeError(f"types: {name}", what, "put it in [[ ]]")
    first, mention, last = (tokenizer(part)[0] for part in (before, rest[:end], rest[end + 2 :]))
    opening, closing = tokenizer("[")[0], tokenizer("]")[0]
    return [*first, *opening, *mention, *closing, *last], len(first) + 1
