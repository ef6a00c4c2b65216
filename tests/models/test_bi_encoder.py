from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.config import BiEncoderSettings
from rayner.errors import InputError
from rayner.losses.span_contrast import SpanScores
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.encoder import load_encoder
from rayner.models.span_scorer import score_positions, score_span_vectors, span_vectors
from rayner.models.type_inputs import TypeInputs, anchor_states

ENCODER = "random:16x1"
IDS = torch.tensor([[101, 2019, 2020, 2021, 2022, 102], [101, 3000, 3001, 102, 0, 0]])
MASK = IDS != 0
TYPES = TypeInputs(
    torch.tensor([[101, 5000, 5001, 5002, 102], [101, 6000, 102, 0, 0], [101, 7000, 7001, 102, 0]]),
    torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]).bool(),
    torch.zeros(3, dtype=torch.long),
    torch.arange(3),
)


def make(types: int = 3, separate: bool = True, **settings: object) -> BiEncoder:
    torch.manual_seed(0)
    chosen = {"projection_size": 8, "width_embedding_size": 4, "max_span_width": 4} | settings
    second = load_encoder(ENCODER) if separate else None
    return BiEncoder(BiEncoderSettings.model_validate(chosen), load_encoder(ENCODER), second, types).eval()


def assert_close(one: SpanScores, other: SpanScores, atol: float = 1e-5) -> None:
    for name, a, b in zip(SpanScores._fields, one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol, msg=name)


def test_shapes_and_the_initial_temperature() -> None:
    model = make()
    scores = model(IDS, MASK, TYPES)
    assert scores.span.shape == (2, 3, 6, 4)
    assert model(IDS, MASK, TYPES, 6).span.shape == (2, 3, 6, 6)
    assert model(IDS, MASK, TYPES, 100).span.shape == (2, 3, 6, 6)
    assert model.log_scale.tolist() == pytest.approx([math.log(1 / 0.07)] * 3)
    assert scores.span.abs().max() <= 1 / 0.07 + 1e-4


def test_the_dynamic_threshold_is_the_score_of_the_first_token() -> None:
    scores = make()(IDS, MASK, TYPES)
    assert torch.equal(scores.start_threshold, scores.start[:, :, 0])
    assert torch.equal(scores.end_threshold, scores.end[:, :, 0])
    assert torch.equal(scores.span_threshold, scores.span[:, :, 0, 0])


@pytest.mark.parametrize("shared_linear", [False, True])
@pytest.mark.parametrize("width_embedding_size", [0, 4])
def test_span_scores_are_cosines_of_projected_spans(shared_linear: bool, width_embedding_size: int) -> None:
    model = make(shared_linear=shared_linear, width_embedding_size=width_embedding_size).double()
    hidden = model.text_encoder(IDS, MASK)
    vectors = model.encode_types(TYPES)
    scores = model.score(hidden, vectors)
    linears = model.text_linears
    first = linears["shared" if shared_linear else "span_start"](hidden)
    last = linears["shared" if shared_linear else "span_end"](hidden)
    for i, j in [(0, 0), (1, 1), (1, 3), (2, 5)]:
        span = first[0, i] + last[0, j]
        if model.width_embeddings is not None and model.width_linear is not None:
            span = span + model.width_linear(model.width_embeddings(torch.tensor(j - i + 1)))
        expected = vectors.span @ F.normalize(span, dim=0) / 0.07
        torch.testing.assert_close(scores.span[0, :, i, j - i], expected, rtol=0, atol=1e-5)


def test_type_vectors_can_be_kept() -> None:
    model = make()
    assert_close(model(IDS, MASK, TYPES), model(IDS, MASK, model.encode_types(TYPES)))
    kept = TYPES._replace(states=model.type_states(TYPES), ids=TYPES.ids[:, :0])
    assert_close(model(IDS, MASK, TYPES), model(IDS, MASK, kept))


def test_one_type() -> None:
    one = TypeInputs(*(t[:1] for t in TYPES[:4]))
    assert make(types=1)(IDS, MASK, one).span.shape == (2, 1, 6, 4)


def test_several_texts_of_a_type_are_averaged_before_they_are_normalised() -> None:
    model = make(types=2)
    vectors = model.encode_types(TYPES._replace(type_index=torch.tensor([0, 1, 0])))
    rows = model.type_linears["span"](model.type_states(TYPES))
    torch.testing.assert_close(vectors.span[0], F.normalize((rows[0] + rows[2]) / 2, dim=0))
    torch.testing.assert_close(vectors.span[1], F.normalize(rows[1], dim=0))


def test_the_anchor_is_the_state_that_represents_the_text() -> None:
    model = make()
    assert model.type_encoder is not None
    anchored = TYPES._replace(anchor=torch.tensor([2, 0, 1]))
    hidden = model.type_encoder(TYPES.ids, TYPES.mask)
    expected = hidden[torch.arange(3), anchored.anchor]
    torch.testing.assert_close(model.type_states(anchored), expected, rtol=0, atol=1e-5)


def test_texts_of_many_lengths_keep_their_order() -> None:
    model = make(types=20)
    lengths = [2 + (7 * k) % 11 for k in range(20)]
    mask = torch.tensor([[i < n for i in range(12)] for n in lengths])
    ids = torch.randint(1000, 2000, (20, 12)) * mask
    types = TypeInputs(ids, mask, torch.zeros(20, dtype=torch.long), torch.arange(20))
    alone = [model.type_states(TypeInputs(*(t[k : k + 1] for t in types[:4]))) for k in range(20)]
    torch.testing.assert_close(model.type_states(types), torch.cat(alone), rtol=0, atol=1e-5)


def test_a_drawn_type_scores_as_it_does_among_all() -> None:
    model = make(threshold="learned")
    with torch.no_grad():
        model.thresholds.copy_(torch.randn(3, 3))
    drawn = torch.tensor([2, 0])
    part = TypeInputs(*(t[drawn] for t in TYPES[:3]), type_index=torch.arange(2))
    whole = model(IDS, MASK, TYPES)
    assert_close(model(IDS, MASK, part, None, drawn), SpanScores(*(s[:, drawn] for s in whole)))


@pytest.mark.parametrize("threshold", ["learned", "tuned"])
def test_global_thresholds_start_at_zero_and_new_types_have_their_mean(threshold: str) -> None:
    model = make(types=2, threshold=threshold)
    kinds = torch.tensor([0, 1, -1])
    assert model(IDS, MASK, TYPES, None, kinds).span_threshold.tolist() == [[0] * 3] * 2
    model.set_thresholds(torch.tensor([[1.0, 2.0, 3.0], [3.0, 4.0, 7.0]]))
    scores = model(IDS, MASK, TYPES, None, kinds)
    assert scores.start_threshold.tolist() == [[1, 3, 2]] * 2
    assert scores.end_threshold.tolist() == [[2, 4, 3]] * 2
    assert scores.span_threshold.tolist() == [[3, 7, 5]] * 2
    learned = [n for n, _ in model.named_parameters() if n == "thresholds"]
    assert bool(learned) == (threshold == "learned")
    assert "thresholds" in model.state_dict()


def test_learned_thresholds_learn() -> None:
    model = make(threshold="learned").train()
    model(IDS, MASK, TYPES).span_threshold.sum().backward()
    assert isinstance(model.thresholds, torch.nn.Parameter)
    assert model.thresholds.grad is not None
    assert model.thresholds.grad.tolist() == [[0, 0, 2]] * 3


def test_atomic_types_are_learned_vectors() -> None:
    model = make(separate=False, type_encoding="atomic")
    whole = model(IDS, MASK, None)
    drawn = torch.tensor([1])
    assert_close(model(IDS, MASK, None, None, drawn), SpanScores(*(s[:, drawn] for s in whole)))
    with pytest.raises(InputError, match="atomic"):
        model.encode_types(None, torch.tensor([0, -1]))


def test_a_type_encoder_that_is_not_trained_is_left_alone() -> None:
    model = make(train_type_encoder=False).train()
    assert model.types_are_fixed
    assert model.type_encoder is not None
    assert not model.type_encoder.training
    assert torch.equal(model.type_states(TYPES), model.type_states(TYPES))
    model(IDS, MASK, TYPES).span.sum().backward()
    assert all(p.grad is None for p in model.type_encoder.parameters())
    assert model.type_linears["span"].weight.grad is not None


def test_one_encoder_can_serve_text_and_types() -> None:
    model = make(separate=False, encoders="shared").train()
    assert model.type_encoder is None
    model.encode_types(TYPES).span.sum().backward()
    assert any(p.grad is not None and p.grad.any() for p in model.text_encoder.parameters())


def test_padding_and_company_do_not_move_a_score() -> None:
    model = make()
    alone = model(IDS[1:, :4], MASK[1:, :4], TYPES)
    together = model(F.pad(IDS, (0, 9)), F.pad(MASK, (0, 9)), TYPES)
    torch.testing.assert_close(alone.start[0], together.start[1, :, :4], rtol=0, atol=1e-4)
    for w in range(4):
        one, other = alone.span[0, :, : 4 - w, w], together.span[1, :, : 4 - w, w]
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_scores_are_float32_under_autocast(precision: torch.dtype) -> None:
    model = make()
    with torch.autocast("cpu", precision):
        scores = model(IDS, MASK, TYPES)
        vectors = model.encode_types(TYPES)
        hidden = model.text_encoder(IDS, MASK)
        projected = {name: linear(hidden) for name, linear in model.text_linears.items()}
    assert all(s.dtype == torch.float32 and s.isfinite().all() for s in scores)
    # From the projections on, which are of the precision, everything is as in float64, but for float32.
    assert {values.dtype for values in projected.values()} == {precision}
    first, last = (projected[f"span_{name}"].double() for name in ("start", "end"))
    for name, found in (("start", scores.start), ("end", scores.end)):
        exact = score_positions(projected[name].double(), vectors._asdict()[name].double() / 0.07)
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)
    span_parts = span_vectors(first, last, model._width_part(4).double())
    spans = score_span_vectors(span_parts, vectors.span.double() / 0.07)
    real = torch.arange(6)[:, None] + torch.arange(4) < 6
    torch.testing.assert_close(scores.span.double()[..., real], spans[..., real], rtol=0, atol=1e-5)
    # A projection has three roundings (what goes in, the weights, what comes out), the encoder about as many.
    roundings = 8 * torch.finfo(precision).eps / 2
    assert_close(scores, model(IDS, MASK, TYPES), atol=roundings / 0.07)
    sum(s.sum() for s in scores).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def span_cosines(model: BiEncoder, first: Tensor, last: Tensor, width: Tensor, types: Tensor) -> Tensor:
    return model._score_spans(first, last, width, types)


def test_window_dropout_is_one_mask_on_every_span_vector_of_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(dropout=0.5).train()
    first, last, width, types = (
        torch.randn(2, 6, 8),
        torch.randn(2, 6, 8),
        torch.randn(1, 3, 8),
        torch.randn(2, 8),
    )
    drawn: list[Tensor] = []
    plain: Callable[..., Tensor] = F.dropout

    def recorded(values: Tensor, *args: object) -> Tensor:
        drawn.append(plain(values, *args))
        return drawn[-1]

    monkeypatch.setattr(F, "dropout", recorded)
    found = span_cosines(model, first, last, width, types)
    (mask,) = drawn
    assert mask.shape == (2, 1, 8)
    assert set(mask.unique().tolist()) <= {0.0, 2.0}
    vectors = span_vectors(first, last, width) * mask.unsqueeze(1)
    expected = score_span_vectors(vectors, types)
    for w in range(3):
        torch.testing.assert_close(found[:, :, : 6 - w, w], expected[:, :, : 6 - w, w], rtol=0, atol=1e-3)


def test_both_forms_of_span_dropout_agree_in_expectation() -> None:
    torch.manual_seed(1)
    first, last, width, types = (
        torch.randn(1, 3, 8),
        torch.randn(1, 3, 8),
        torch.randn(1, 2, 8),
        torch.randn(2, 8),
    )
    means = []
    for form in ("window", "span"):
        model = make(dropout=0.2, span_dropout=form).train()
        draws = [span_cosines(model, first, last, width, types)[:, :, :2] for _ in range(3000)]
        means.append(torch.stack(draws).mean(0))
    torch.testing.assert_close(means[0], means[1], rtol=0, atol=0.06)


def test_the_dropout_rate_holds_for_the_encoders_too() -> None:
    model = make(dropout=0).train()
    assert_close(model(IDS, MASK, TYPES), model(IDS, MASK, TYPES), atol=0)
    model = make(dropout=0.3).train()
    assert not torch.equal(model(IDS, MASK, TYPES).span, model(IDS, MASK, TYPES).span)
    model.eval()
    assert_close(model(IDS, MASK, TYPES), model(IDS, MASK, TYPES), atol=0)


def test_the_state_is_the_model() -> None:
    model, other = make(threshold="tuned"), make(threshold="tuned")
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(0.1)
    other.load_state_dict(model.state_dict())
    assert_close(model(IDS, MASK, TYPES), other(IDS, MASK, TYPES), atol=0)


def test_gradient_checkpointing_changes_no_gradient() -> None:
    gradients = []
    for checkpointed in (False, True):
        model = make(dropout=0).train()
        if checkpointed:
            model.text_encoder.enable_gradient_checkpointing()
        model(IDS, MASK, TYPES).span.square().mean().backward()
        gradients.append([p.grad for p in model.text_encoder.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_vectors_are_of_length_one() -> None:
    vectors: TypeVectors = make().encode_types(TYPES)
    for part in vectors[:3]:
        assert part is not None
        torch.testing.assert_close(part.norm(dim=1), torch.ones(3))


@pytest.mark.parametrize(("learns", "rounds"), [(False, [64, 64, 22]), (True, [150])])
def test_elsewhere_than_on_a_cpu_types_are_read_in_rounds(learns: bool, rounds: list[int]) -> None:
    seen: list[int] = []

    def read(ids: Tensor, mask: Tensor) -> Tensor:
        assert ids.shape == mask.shape
        seen.append(len(ids))
        return ids.new_zeros(*ids.shape, 4, dtype=torch.float32)

    encoder: Any = read
    rows = torch.zeros(150, 9, dtype=torch.long, device="meta")
    types = TypeInputs(rows, rows.bool(), rows[:, 0], rows[:, 0])
    with torch.set_grad_enabled(learns):
        states = anchor_states(encoder, types)
    assert (states.shape, seen) == ((150, 4), rounds)
