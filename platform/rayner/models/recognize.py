"""Text to spans, for any number of types."""

from __future__ import annotations

import torch
from torch import Tensor

from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.select import Selected, select

_CELLS_AT_ONCE = 1 << 24


def recognize(
    model: BiEncoder,
    ids: Tensor,
    mask: Tensor,
    types: TypeVectors,
    word_start: Tensor,
    word_end: Tensor,
    shift: float | Tensor = 0.0,
    *,
    joint: bool = False,
) -> Selected:
    """What `select` picks from the windows `ids` [B, L], without ever holding all scores of many types.

    The other arguments are those of `BiEncoder.forward` and `select`.
    """
    hidden = model.text_encoder(ids, mask)
    count = len(types.span)
    at_once = max(1, _CELLS_AT_ONCE // (ids.numel() * min(model.settings.max_span_width, ids.shape[1])))
    parts = []
    for first in range(0, count, at_once):
        part = slice(first, first + at_once)
        chunk = TypeVectors(*(None if t is None else t[part] for t in types))  # type: ignore[arg-type]
        of_part = shift[part] if isinstance(shift, Tensor) and shift.ndim else shift
        found = select(model.score(hidden, chunk), word_start, word_end, of_part, joint=joint)
        parts.append(found._replace(type=found.type + first))
    if len(parts) == 1:
        return parts[0]
    merged = Selected(*map(torch.cat, zip(*parts, strict=True)))
    order = merged.window.argsort(stable=True)
    return Selected(*(column[order] for column in merged))
