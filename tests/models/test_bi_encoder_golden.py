"""The bi-encoder and its loss against values, in float64, of the published reference implementation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from rayner.config import BiEncoderSettings, ContrastSettings
from rayner.losses.span_contrast import SpanTargets, loss_weights, span_contrast
from rayner.models.bi_encoder import BiEncoder
from rayner.models.type_inputs import TypeInputs

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "bi_encoder.json").read_text())
LENGTH, HIDDEN, TYPES = GOLDEN["length"], GOLDEN["hidden"], GOLDEN["types"]


class Given(nn.Module):
    """In place of an encoder: its hidden states are given."""

    max_length = LENGTH
    hidden_size = HIDDEN

    def __init__(self, states: list) -> None:
        super().__init__()
        self.states = nn.Parameter(torch.tensor(states, dtype=torch.float64))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.states

    def set_dropout(self, rate: float) -> None:
        assert rate == 0


@pytest.fixture
def model() -> BiEncoder:
    values = {k: torch.tensor(v, dtype=torch.float64) for k, v in GOLDEN["parameters"].items()}
    settings = BiEncoderSettings(projection_size=4, width_embedding_size=4, dropout=0)
    texts = Given(GOLDEN["parameters"]["text_hidden_states"])
    model = BiEncoder(settings, texts, Given(GOLDEN["parameters"]["type_cls_states"]), TYPES).double()  # type: ignore[arg-type]
    span = values["span_linear.weight"]
    state = {
        "log_scale": torch.stack([values[f"{p}_logit_scale"] for p in ("start", "end", "span")]),
        "text_linears.start.weight": values["start_linear.weight"],
        "text_linears.start.bias": values["start_linear.bias"],
        "text_linears.end.weight": values["end_linear.weight"],
        "text_linears.end.bias": values["end_linear.bias"],
        "text_linears.span_start.weight": span[:, :HIDDEN],
        "text_linears.span_start.bias": values["span_linear.bias"],
        "text_linears.span_end.weight": span[:, HIDDEN : 2 * HIDDEN],
        "width_linear.weight": span[:, 2 * HIDDEN :],
        "width_embeddings.weight": values["width_embeddings.weight"],
    }
    for part in ("start", "end", "span"):
        state[f"type_linears.{part}.weight"] = values[f"type_{part}_linear.weight"]
        state[f"type_linears.{part}.bias"] = values[f"type_{part}_linear.bias"]
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) == {"text_encoder.states", "type_encoder.states"}
    return model


@pytest.fixture
def targets() -> SpanTargets:
    none = torch.zeros(0, 3, dtype=torch.long)
    return SpanTargets(
        torch.tensor(GOLDEN["word_start"]).bool(),
        torch.tensor(GOLDEN["word_end"]).bool(),
        torch.tensor(GOLDEN["gold"]),
        torch.ones(GOLDEN["batch"], TYPES, dtype=torch.bool),
        none,
        none,
        torch.zeros(0, 4, dtype=torch.long),
    )


def scores_of(model: BiEncoder):
    ids = torch.zeros(GOLDEN["batch"], LENGTH, dtype=torch.long)
    rows = torch.arange(TYPES)
    types = TypeInputs(rows[:, None], torch.ones(TYPES, 1, dtype=torch.bool), torch.zeros_like(rows), rows)
    return model(ids, ids == 0, types, LENGTH)


def test_all_scores_are_those_of_the_reference(model: BiEncoder) -> None:
    scores = scores_of(model)
    expected = {k: torch.tensor(GOLDEN[f"{k}_scores"], dtype=torch.float64) for k in ("start", "end", "span")}
    torch.testing.assert_close(scores.start, expected["start"], rtol=0, atol=1e-9)
    torch.testing.assert_close(scores.end, expected["end"], rtol=0, atol=1e-9)
    for width in range(LENGTH):
        reference = expected["span"].diagonal(width, 2, 3)
        torch.testing.assert_close(scores.span[:, :, : LENGTH - width, width], reference, rtol=0, atol=1e-9)


def test_loss_and_every_gradient_are_those_of_the_reference(model: BiEncoder, targets: SpanTargets) -> None:
    settings = ContrastSettings()
    sums, weights = span_contrast(scores_of(model), targets, settings), loss_weights(settings)
    mentions, pairs = len(targets.gold), int(targets.known.sum())
    loss = sum(weights[k] * v / (pairs if k.endswith("threshold") else mentions) for k, v in sums.items())
    assert loss.item() == pytest.approx(GOLDEN["loss"], abs=1e-9)

    loss.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    span = [found["text_linears.span_start.weight"], found["text_linears.span_end.weight"]]
    gradients = {
        "span_linear.weight": torch.cat([*span, found["width_linear.weight"]], 1),
        "span_linear.bias": found["text_linears.span_start.bias"],
        "width_embeddings.weight": found["width_embeddings.weight"],
        "text_hidden_states": found["text_encoder.states"],
        "type_cls_states": found["type_encoder.states"],
    }
    for index, part in enumerate(("start", "end", "span")):
        gradients[f"{part}_logit_scale"] = found["log_scale"][index]
        gradients[f"type_{part}_linear.weight"] = found[f"type_linears.{part}.weight"]
        gradients[f"type_{part}_linear.bias"] = found[f"type_linears.{part}.bias"]
    for part in ("start", "end"):
        gradients[f"{part}_linear.weight"] = found[f"text_linears.{part}.weight"]
        gradients[f"{part}_linear.bias"] = found[f"text_linears.{part}.bias"]
    assert gradients.keys() == GOLDEN["gradients"].keys()
    for name, gradient in gradients.items():
        expected = torch.tensor(GOLDEN["gradients"][name], dtype=torch.float64)
        torch.testing.assert_close(
            gradient, expected, rtol=0, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}"
        )
