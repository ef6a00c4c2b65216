"""The search against its definition: every span scored, then compared."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from rayner.config import BiEncoderSettings
from rayner.errors import InputError
from rayner.models import span_search
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.span_search import Rule
from rayner.tasks.recognizer.selection import Selected, find_spans, select

RULES = [
    Rule(),
    Rule(joint=True),
    Rule(start_weight=0.2),
    Rule(end_weight=0.3),
    Rule(start_weight=0.3, end_weight=0.3, joint=True),
]
TYPES = 7


class Embeddings(nn.Embedding):
    """An encoder that reads each sub-word by itself: what is searched needs no other."""

    hidden_size, max_length = 16, 64

    def __init__(self) -> None:
        super().__init__(1000, self.hidden_size)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return super().forward(ids)

    def set_dropout(self, rate: float) -> None:
        pass


def model_of(seed: int, **settings: Any) -> BiEncoder:
    torch.manual_seed(seed)
    values = {"max_span_width": 4, "threshold": "learned", **settings}
    model = BiEncoder(BiEncoderSettings(**values), Embeddings(), None, TYPES).eval()
    with torch.no_grad():
        # So that spans differ from one another.
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and not name.startswith("text_encoder"):
                parameter.normal_()
    return model


def case(seed: int, **settings: Any) -> tuple[BiEncoder, tuple[Any, ...]]:
    model = model_of(seed, **settings)
    ids = torch.randint(1, 1000, (3, 11))
    word_start, word_end = torch.rand(3, 11) < 0.7, torch.rand(3, 11) < 0.7
    word_start[:, 0] = word_end[:, 0] = False
    word_start[2, 5:] = word_end[2, 5:] = False
    directions = normalize(torch.randn(3, TYPES, 128), dim=2)
    thresholds = None if settings.get("threshold") == "dynamic" else torch.randn(TYPES, 3)
    types = TypeVectors(*directions, thresholds, torch.randn(TYPES, 3) / 20)
    return model, (ids, ids > 0, types, word_start, word_end)


def plain(model: BiEncoder, given: tuple[Any, ...], shift: Any, rule: Rule) -> Selected:
    ids, mask, types, word_start, word_end = given
    return select(model(ids, mask, types), word_start, word_end, shift, rule=rule)


@pytest.mark.parametrize("cells", [1, 200, 1 << 24])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shift", [0.0, torch.linspace(-3, 3, TYPES)])
def test_blocks_of_types_find_what_all_types_find(
    monkeypatch: pytest.MonkeyPatch, cells: int, rule: Rule, shift: float | Tensor
) -> None:
    model, given = case(0)
    monkeypatch.setattr(span_search, "_CELLS_AT_ONCE", cells)
    with torch.inference_mode():
        found = find_spans(model, *given, shift, rule=rule)
        expected = plain(model, given, shift, rule)
    assert len(expected.window) > 10
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_more_than_the_most_are_refused_and_as_many_are_not() -> None:
    model, given = case(0)
    with torch.inference_mode():
        count = len(find_spans(model, *given, -10.0).margin)
        assert len(find_spans(model, *given, -10.0, most=count).margin) == count
        with pytest.raises(InputError, match=rf"shift: lets more than {count - 1} spans .* through; raise"):
            find_spans(model, *given, -10.0, most=count - 1)


@pytest.mark.parametrize(
    "settings", [{"threshold": "dynamic"}, {"shared_linear": True}, {"max_span_width": 30}]
)
def test_the_bound_loses_nothing_and_scores_are_bit_for_bit_those_of_every_span(settings: Any) -> None:
    """Also where nothing, or everything, is above the thresholds."""
    counts = []
    for seed, rule, shift in product(range(4), RULES, (-torch.inf, -10.0, -1.0, 2.0, 8.0, torch.inf)):
        model, given = case(seed, **settings)
        with torch.inference_mode():
            found, expected = find_spans(model, *given, shift, rule=rule), plain(model, given, shift, rule)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)
        counts.append(len(found.window))
    assert min(counts) == 0
    assert len(set(counts)) > 20


def test_most_starts_are_ruled_out_where_few_spans_are_mentions(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = case(0)
    scored: list[int] = []
    exactly = span_search._scored

    def counted(parts: Any, rows: Any, *rest: Any) -> Any:
        scored.append(len(rows[0]))
        return exactly(parts, rows, *rest)

    monkeypatch.setattr(span_search, "_scored", counted)
    with torch.inference_mode():
        best = plain(model, given, -torch.inf, Rule()).margin.topk(6).values
        found = find_spans(model, *given, best[4:].mean())
    starts = int(given[3].sum()) * TYPES
    assert len(found.window) == 5
    assert sum(scored) < starts / 5
