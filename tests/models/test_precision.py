"""Half precision in encoders: what it changes, what it does not, and who decides."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from rayner.errors import InputError
from rayner.models import precision_choice
from rayner.models.encoder import Encoder, load_encoder
from rayner.models.precision import autocast, check_precision, default_precision
from rayner.models.precision_choice import FASTER, Choice, choose, precision_of, set_precision

ROUNDED = 2 * 12 + 4
"""Operations one after another whose results are rounded: twelve in each of two layers, and around them."""
UNIT = 2**-8
"""The unit roundoff of bfloat16."""


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.ModuleDict({"text": load_encoder("random:64x2"), "types": load_encoder("random:64x2")}).eval()


def states(model: nn.Module) -> torch.Tensor:
    encoder = model["text"]  # type: ignore[index]
    assert isinstance(encoder, Encoder)
    ids = torch.arange(5, 45).view(2, 20)
    mask = torch.arange(20)[None] < torch.tensor([[20], [13]])
    with torch.inference_mode():
        return encoder(ids, mask)[mask]


def kernels_refuse_bfloat16(model: nn.Module) -> bool:
    """As those that `ATEN_CPU_CAPABILITY=avx2` asks for on a processor that has more."""
    ids = torch.arange(5, 261).view(4, 64)
    try:
        with torch.inference_mode(), autocast(ids.device, "bfloat16"):
            model["text"](ids, torch.ones_like(ids, dtype=torch.bool))  # type: ignore[index]
    except RuntimeError:
        return True
    return False


def test_bfloat16_is_near_float32_and_its_states_are_float32(model: nn.Module) -> None:
    exact = states(model)
    set_precision(model, "bfloat16")
    rounded = states(model)
    assert rounded.dtype == torch.float32
    # Roundings are as often up as down: errors grow with the root of their number (Higham and Mary 2019,
    # A New Approach to Probabilistic Rounding Error Analysis, theorem 2.4).
    difference = float((exact - rounded).norm() / exact.norm())
    assert UNIT / 100 < difference < UNIT * ROUNDED**0.5


def test_weights_rounded_once_answer_as_those_rounded_for_each_batch(model: nn.Module) -> None:
    set_precision(model, "bfloat16")
    each = states(model)
    set_precision(model, "bfloat16", rounded=True)
    assert torch.equal(states(model), each)
    assert precision_of(model) == "bfloat16"
    linears = [m.weight.dtype for m in model.modules() if isinstance(m, nn.Linear)]
    assert set(linears) == {torch.bfloat16}
    assert {m.weight.dtype for m in model.modules() if isinstance(m, nn.LayerNorm)} == {torch.float32}


@pytest.mark.parametrize("training", [True, False])
def test_auto_takes_the_faster_and_leaves_the_model_as_it_was(model: nn.Module, training: bool) -> None:
    refused = kernels_refuse_bfloat16(model)
    before, drawn = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    model.train(training)
    found = choose("auto", model, training)
    if refused:
        assert found == Choice("float32", None)
    else:
        assert found.ratio is not None
        assert found.ratio > 0
        assert found.precision == ("bfloat16" if found.ratio < FASTER else "float32")
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert model["text"].training is training  # type: ignore[index]
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_cpu_that_refuses_bfloat16_computes_in_float32(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(encoder: Encoder, ids: torch.Tensor, learned: list[nn.Parameter], precision: str) -> float:
        if precision in refused:
            raise RuntimeError("no kernel")
        return 1.0

    monkeypatch.setattr(precision_choice, "_seconds", seconds)
    refused = {"bfloat16"}
    assert choose("auto", model) == choose(None, model, advise=True) == Choice("float32", None)
    assert model["text"].training is False  # type: ignore[index]
    refused = {"float32"}
    with pytest.raises(RuntimeError, match="no kernel"):
        choose("auto", model)


def test_nobody_is_timed_who_did_not_ask(model: nn.Module) -> None:
    assert choose(None, model) == choose("float32", model) == Choice("float32")
    assert choose("bfloat16", model) == Choice("bfloat16")
    assert choose("auto", nn.Linear(2, 2)) == Choice("float32")
    assert choose("auto", model.double()) == Choice("float32")


def test_a_clock_without_time_chooses_nothing(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_choice, "_seconds", lambda *_: 0.0)
    assert choose("auto", model) == Choice("float32", None)


def test_advice_is_for_float32_that_is_the_slower_one() -> None:
    assert Choice("float32", 0.4).slower_by == 0.4
    assert Choice("float32", 0.95).slower_by is None
    assert Choice("bfloat16", 0.4).slower_by is None
    assert Choice("float32").slower_by is None


def test_a_gpu_without_bfloat16_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_precision("cpu") == "float32"
    check_precision("bfloat16", "cpu")
    monkeypatch.setattr("rayner.models.precision._has_bfloat16", lambda device: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    assert default_precision("cuda") == "float32"
    with pytest.raises(InputError, match="precision: bfloat16: Tesla T4 lacks bfloat16; take float16"):
        check_precision("bfloat16", "cuda")


def test_a_gpu_without_bfloat16_is_not_timed_in_it(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeTensorMode():
        there = nn.Parameter(torch.empty(1, device="cuda"))
    on_gpu = nn.ModuleDict({"head": nn.ParameterList([there]), "text": model["text"]})  # type: ignore[index]
    monkeypatch.setattr(precision_choice, "_ratio", lambda *_: 0.5)
    monkeypatch.setattr("rayner.models.precision._has_bfloat16", lambda device: True)
    assert choose("float32", on_gpu, advise=True) == Choice("float32", 0.5)
    monkeypatch.setattr("rayner.models.precision._has_bfloat16", lambda device: False)
    assert choose("float32", on_gpu, advise=True) == choose("auto", on_gpu) == Choice("float32")
