"""The bi-encoder: spans of text and types in one vector space (papers/000, sections 2 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rayner.config import BiEncoderSettings
from rayner.errors import InputError
from rayner.losses.full_precision import exact
from rayner.losses.span_contrast import SpanScores
from rayner.models.encoder import Encoder
from rayner.models.frozen_features import FrozenFeatures
from rayner.models.own_vectors import OwnVectors
from rayner.models.span_scorer import (
    SpanParts,
    enough_rows,
    inverse_norms,
    products,
    score_positions,
    score_span_vectors,
    score_spans,
    span_vectors,
)
from rayner.models.span_search import ScoreParts, WindowVectors
from rayner.models.type_inputs import TypeInputs, anchor_states

_INITIAL_DEVIATION = 0.02


class TypeVectors(NamedTuple):
    """K types in the three spaces, of length 1."""

    start: Tensor
    """[K, D]"""
    end: Tensor
    """[K, D]"""
    span: Tensor
    """[K, D]"""
    thresholds: Tensor | None
    """[K, 3]: the global thresholds of start, end and span; None where those of each window hold"""
    offsets: Tensor | None = None
    """[K, 3]: cosines that are added to the thresholds; None for none"""

    def part(self, of: slice) -> TypeVectors:
        """Some of the types."""
        thresholds = None if self.thresholds is None else self.thresholds[of]
        offsets = None if self.offsets is None else self.offsets[of]
        return TypeVectors(self.start[of], self.end[of], self.span[of], thresholds, offsets)


class BiEncoder(nn.Module):
    """Scores every span up to a width against every type.

    Args:
        settings: the variant. `shared_linear` projects every sub-word once: a span is the sum of its start,
            its end and its width, and a type has one vector.
        text_encoder: encodes windows.
        type_encoder: encodes descriptions; None where `text_encoder` does both, and for atomic types.
        types: how many types it learns; atomic types, and learned and tuned thresholds, belong to these.
        own: the vectors of the last of these, which were added: nothing else learns then.
    """

    without_decay = ("thresholds",)

    def __init__(
        self,
        settings: BiEncoderSettings,
        text_encoder: Encoder,
        type_encoder: Encoder | None,
        types: int,
        own: OwnVectors | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.types = types
        self.encoded_types = types - (0 if own is None else len(own))
        self.text_encoder = text_encoder
        self.type_encoder = type_encoder
        hidden, size = text_encoder.hidden_size, settings.projection_size
        shared = settings.shared_linear
        of_text = ("shared",) if shared else ("start", "end", "span_start", "span_end")
        # The span's one linear layer is split over its inputs; its bias is that of the start.
        self.text_linears = nn.ModuleDict({n: nn.Linear(hidden, size, bias=n != "span_end") for n in of_text})
        of_types = hidden if type_encoder is None else type_encoder.hidden_size
        names = ("vector",) if shared else ("start", "end", "span")
        self.type_linears = nn.ModuleDict({n: nn.Linear(of_types, size) for n in names})
        self.width_embeddings = self.width_linear = None
        if settings.width_embedding_size:
            rows = text_encoder.max_length + 1
            self.width_embeddings = nn.Embedding(rows, settings.width_embedding_size, padding_idx=0)
            self.width_linear = nn.Linear(settings.width_embedding_size, size, bias=False)
        is_atomic = settings.type_encoding == "atomic"
        self.atomic = nn.Embedding(self.encoded_types, of_types) if is_atomic else None
        self.log_scale = nn.Parameter(torch.full((3,), 1 / settings.temperature).log())
        self._initialize()
        self._set_thresholds_up()
        text_encoder.set_dropout(settings.dropout)
        if type_encoder is not None:
            type_encoder.set_dropout(settings.dropout)
            if not settings.train_type_encoder:
                type_encoder.requires_grad_(False).eval()
        self._features: FrozenFeatures | None = None
        if own is not None:
            self.requires_grad_(False)
        self.own = own

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        types: TypeInputs | TypeVectors | None,
        widths: int | None = None,
        type_ids: Tensor | None = None,
    ) -> SpanScores:
        """Score the windows `ids` [B, L] (real where `mask`) against K types.

        Args:
            types: what `encode_types` takes, or gave.
            widths: score spans of up to so many sub-words; by default `max_span_width`; L gives all.
            type_ids: see `encode_types`.
        """
        vectors = types if isinstance(types, TypeVectors) else self.encode_types(types, type_ids)
        return self.score(self.encode_text(ids, mask), vectors, widths)

    def encode_text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The hidden states [B, L, H] of windows; computed once each where only added types learn."""
        return (self._features or self.text_encoder)(ids, mask)

    def score(self, hidden: Tensor, types: TypeVectors, widths: int | None = None) -> SpanScores:
        """Score windows from their hidden states [B, L, H], in float32 or better whatever the autocast."""
        widths = min(widths or self.settings.max_span_width, hidden.shape[1])
        start, end, first, last = self._projected(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            start_scale, end_scale, span_scale = self.log_scale.exp().unbind()
            start, end = self._drop(start), self._drop(end)
            start_scores = score_positions(start, types.start * start_scale)
            end_scores = score_positions(end, types.end * end_scale)
            span_scores = self._score_spans(first, last, self._width_part(widths), types.span * span_scale)
            in_window = start_scores[:, :, 0], end_scores[:, :, 0], span_scores[:, :, 0, 0]
            thresholds = self._thresholds_in(types, in_window)
        return SpanScores(start_scores, end_scores, span_scores, *thresholds)

    def windows(self, hidden: Tensor) -> WindowVectors:
        """What is compared with types, in evaluation, from the hidden states [B, L, H] of windows."""
        start, end, first, last = self._projected(hidden)
        width = self._width_part(min(self.settings.max_span_width, hidden.shape[1]))
        with torch.autocast(hidden.device.type, enabled=False):
            return WindowVectors(start, end, first, last, width, inverse_norms(first, last, width))

    def parts(self, windows: WindowVectors, types: TypeVectors, *, spans_alone: bool) -> ScoreParts:
        """What the scores of `score` are sums of: as many numbers a type and window as it has sub-words.

        Args:
            spans_alone: leave out the scores of starts and ends.
        """
        with torch.autocast(windows.first.device.type, enabled=False):
            start_scale, end_scale, span_scale = self.log_scale.exp().unbind()
            start = end = None
            if not spans_alone:
                start = score_positions(windows.start, types.start * start_scale)
                end = score_positions(windows.end, types.end * end_scale)
            of_spans = types.span * span_scale
            first, last, width = (products(of_spans, v) for v in (windows.first, windows.last, windows.width))
            spans = SpanParts(first, last, width, windows.inverse_norms)
            in_window = (
                None if start is None else start[:, :, 0],
                None if end is None else end[:, :, 0],
                spans.first_cells(),
            )
            return ScoreParts(start, end, spans, *self._thresholds_in(types, in_window))

    def encode_types(self, types: TypeInputs | None, type_ids: Tensor | None = None) -> TypeVectors:
        """The vectors of K types.

        Args:
            types: their texts; None for atomic types. A type with a vector of its own needs none.
            type_ids: int64 [K], which of the learned types they are, -1 for a new one; by default all.
                A new type has the mean of the learned or tuned thresholds.

        Raises:
            InputError: a new type where types are atomic.
        """
        ids = torch.arange(self.types, device=self.log_scale.device) if type_ids is None else type_ids
        has_own = ids >= self.encoded_types
        if self.atomic is not None:
            if bool((ids < 0).any()):
                raise InputError(
                    "types", "a model of atomic types knows none but its own", "train with descriptions"
                )
            index = (~has_own).nonzero()[:, 0]
            states = self.atomic(ids[index])
        elif types is None:
            if not has_own.all():
                raise ValueError("only atomic types, and those with a vector of their own, go without texts")
            states, index = self.log_scale.new_zeros(0, self._state_size), ids[:0]
        else:
            states = self.type_states(types) if types.states is None else types.states
            index = types.type_index
        with torch.autocast(states.device.type, enabled=False):
            states = states.to(self.log_scale.dtype)
            filled = enough_rows(states)
            rows = torch.cat(
                [self._drop(linear(filled)[: len(states)]) for linear in self.type_linears.values()], 1
            )
            # The mean's direction is that of the sum.
            summed = rows.new_zeros(len(ids), rows.shape[1]).index_add(0, index, rows)
            if self.own is not None:
                place = (ids - self.encoded_types).clamp(min=0)
                summed = torch.where(has_own[:, None], self.own.all_vectors()[place], summed)
            unit = [F.normalize(part, dim=1) for part in summed.split(self.settings.projection_size, 1)]
        start, end, span = unit if len(unit) == 3 else unit * 3
        return TypeVectors(start, end, span, self._thresholds_of(ids), self._offsets_of(ids))

    @torch.no_grad()
    def described(self, types: TypeInputs | None, count: int) -> Tensor:
        """What the vectors of `count` new types start from, [count, size] as in `OwnVectors`: the encoding
        of their texts, or the mean of atomic types."""
        if self.atomic is not None:
            start, end, span, *_ = self.encode_types(None)
            parts = [part[: self.encoded_types].mean(0).expand(count, -1) for part in (start, end, span)]
        else:
            ids = torch.full((count,), -1, device=self.log_scale.device)
            parts = list(self.encode_types(types, ids)[:3])
        return torch.cat(parts[: len(self.type_linears)], 1)

    def type_states(self, types: TypeInputs) -> Tensor:
        """The hidden states [N, H] that stand for the rows; constant where `types_are_fixed`."""
        encoder = self.type_encoder or self.text_encoder
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.settings.train_type_encoder):
            return anchor_states(encoder, types)

    @property
    def types_are_fixed(self) -> bool:
        """Whether `type_states` never change in training, so that they can be kept."""
        return self.type_encoder is not None and not self.settings.train_type_encoder

    def set_thresholds(self, thresholds: Tensor) -> None:
        """Set the tuned thresholds, [types, 3]: of start, end and span; with added types, theirs alone."""
        first = 0 if self.own is None else self.types - len(self.own.vectors)
        with torch.no_grad():
            self.thresholds[first:] = thresholds[first:]

    def train(self, mode: bool = True) -> BiEncoder:
        """As in `nn.Module`, but what does not learn has no dropout, as all beside added types."""
        if self.own is not None:
            if mode and self._features is None:
                self._features = FrozenFeatures(self.text_encoder)
            return super().train(False)
        super().train(mode)
        if self.type_encoder is not None and self.types_are_fixed:
            self.type_encoder.eval()
        return self

    def _drop(self, vectors: Tensor) -> Tensor:
        return F.dropout(vectors, self.settings.dropout, self.training)

    def _width_part(self, widths: int) -> Tensor:
        """What its width adds to a span vector, [1, W, D]; a span of one sub-word has row 1, as published."""
        if self.width_embeddings is None or self.width_linear is None:
            return self.log_scale.new_zeros(1, widths, self.settings.projection_size)
        return self.width_linear(self.width_embeddings.weight[1 : widths + 1]).unsqueeze(0)

    def _score_spans(self, first: Tensor, last: Tensor, width: Tensor, types: Tensor) -> Tensor:
        rate = self.settings.dropout
        if not self.training or not rate:
            return score_spans(first, last, width, types)
        if self.settings.span_dropout == "span":
            return score_span_vectors(F.dropout(span_vectors(first, last, width), rate), types)
        # One mask per window: each span vector has the dropout that was published, and the sum still splits.
        mask = F.dropout(first.new_ones(len(first), 1, first.shape[2]), rate)
        return score_spans(first * mask, last * mask, width * mask, types)

    def _projected(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Vectors of starts, of ends, and of the first and the last sub-word of spans."""
        found = {name: exact(linear(hidden)) for name, linear in self.text_linears.items()}
        names = ("start", "end", "span_start", "span_end")
        start, end, first, last = (found.get("shared", found.get(name)) for name in names)
        return start, end, first, last  # type: ignore[return-value]

    def _thresholds_in(self, types: TypeVectors, in_window: Sequence[Any]) -> Iterator[Any]:
        """The thresholds of start, end and span in each window, [B, K], from the scores of its [CLS]."""
        found = in_window
        if types.thresholds is not None:
            of_types = types.thresholds.unbind(1)
            found = [None if s is None else t.expand_as(s) for s, t in zip(in_window, of_types, strict=True)]
        offsets = [None] * 3 if types.offsets is None else (types.offsets * self.log_scale.exp()).unbind(1)
        for bar, offset in zip(found, offsets, strict=True):
            yield bar if bar is None or offset is None else bar + offset

    def _thresholds_of(self, type_ids: Tensor) -> Tensor | None:
        if self.settings.threshold == "dynamic":
            return None
        known = self.thresholds[type_ids.clamp(min=0)]
        mean = self.thresholds[: self.encoded_types].mean(0)
        return torch.where((type_ids < 0).unsqueeze(1), mean, known)

    def _offsets_of(self, type_ids: Tensor) -> Tensor | None:
        if self.own is None:
            return None
        place = (type_ids - self.encoded_types).clamp(min=0)
        return torch.where((type_ids >= self.encoded_types).unsqueeze(1), self.own.all_offsets()[place], 0.0)

    @property
    def _state_size(self) -> int:
        return (self.type_encoder or self.text_encoder).hidden_size

    def _set_thresholds_up(self) -> None:
        zeros = torch.zeros(self.types, 3)
        self.thresholds: Tensor
        if self.settings.threshold == "learned":
            self.thresholds = nn.Parameter(zeros)
        elif self.settings.threshold == "tuned":
            self.register_buffer("thresholds", zeros)

    def _initialize(self) -> None:
        for name, parameter in self.named_parameters():
            if name.startswith(("text_linears", "type_linears", "width_", "atomic")):
                if name.endswith("bias"):
                    nn.init.zeros_(parameter)
                else:
                    nn.init.normal_(parameter, std=_INITIAL_DEVIATION)
        if self.width_embeddings is not None:
            nn.init.zeros_(self.width_embeddings.weight[0])
