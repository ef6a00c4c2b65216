"""The types of one training step: which of them, by which texts, and what is known about them."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.span_contrast import SpanTargets
from rayner.models.type_inputs import TypeInputs


def of_types(targets: SpanTargets, types: Tensor) -> SpanTargets:
    """The targets with the columns of `types` alone."""
    if len(types) == targets.known.shape[1]:
        return targets
    place = torch.full((targets.known.shape[1],), -1, device=targets.known.device)
    place[types] = torch.arange(len(types), device=place.device)

    def kept(rows: Tensor) -> Tensor:
        rows = rows[place[rows[:, 1]] >= 0].clone()
        rows[:, 1] = place[rows[:, 1]]
        return rows

    return targets._replace(
        gold=kept(targets.gold),
        known=targets.known[:, types],
        excluded_starts=kept(targets.excluded_starts),
        excluded_ends=kept(targets.excluded_ends),
        excluded_spans=kept(targets.excluded_spans),
    )


def of_every_type(spans: Tensor, types: int) -> Tensor:
    """Spans [U, 3] (window, first and last sub-word) as those of each type, [U * types, 4]."""
    window, first, last = spans.repeat_interleave(types, 0).unbind(1)
    return torch.stack([window, torch.arange(types).repeat(len(spans)), first, last], 1)


def with_absent(targets: SpanTargets, count: int) -> SpanTargets:
    """The targets with columns of further types, of which no window has a mention."""
    return targets._replace(known=F.pad(targets.known, (0, count), value=True)) if count else targets


def rows_of(inputs: TypeInputs, types: Tensor) -> TypeInputs:
    """The rows of `types` alone, numbered anew."""
    types = types.to(inputs.type_index.device)
    matches = inputs.type_index[:, None] == types[None, :]
    rows = matches.any(1).nonzero()[:, 0]
    return _taken(inputs, rows)._replace(type_index=matches[rows].long().argmax(1))


def one_text_each(inputs: TypeInputs, rng: np.random.Generator) -> TypeInputs:
    """One row of each type, by chance."""
    owners = inputs.type_index.cpu().numpy()
    order = rng.permutation(len(owners))
    rows = order[np.unique(owners[order], return_index=True)[1]]
    return _taken(inputs, torch.from_numpy(rows).to(inputs.ids.device))


def _taken(inputs: TypeInputs, rows: Tensor) -> TypeInputs:
    width = int(inputs.mask[rows].sum(1).max())
    return TypeInputs(
        ids=inputs.ids[rows, :width],
        mask=inputs.mask[rows, :width],
        anchor=inputs.anchor[rows],
        type_index=inputs.type_index[rows],
        states=None if inputs.states is None else inputs.states[rows],
    )
