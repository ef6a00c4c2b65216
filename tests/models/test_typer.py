from __future__ import annotations

import pytest
import torch

from rayner.config import TyperSettings
from rayner.models.encoder import load_encoder
from rayner.models.typer import LabelHead, Typer

IDS = torch.tensor([[101, 2019, 2020, 102], [101, 2019, 102, 0]])
PLACES = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 1])


def model(**settings: object) -> Typer:
    torch.manual_seed(0)
    settings = {"projection_size": 8, "dropout": 0.2} | settings
    separate = settings.get("head") == "labels" and settings.get("train_encoder", True)
    return Typer(
        load_encoder("random:16x1"),
        5,
        TyperSettings.model_validate(settings),
        load_encoder("random:16x1") if separate else None,
    )


@pytest.mark.parametrize("head", ["linear", "labels"])
def test_every_mention_has_a_score_for_every_type(head: str) -> None:
    typer = model(head=head).eval()
    logits = typer(IDS, IDS != 0, *PLACES)
    assert logits.shape == (3, 5)
    alone = typer(IDS[1:, :3], IDS[1:, :3] != 0, torch.tensor([0]), torch.tensor([1]))
    torch.testing.assert_close(logits[2:], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("head", ["linear", "labels"])
@pytest.mark.parametrize("tuned", [True, False])
def test_only_what_is_tuned_has_gradients(head: str, tuned: bool) -> None:
    typer = model(head=head, train_encoder=tuned).train()
    names = [(IDS, IDS != 0), (IDS[:, 1:3], IDS[:, 1:3] != 0), (IDS[:1], IDS[:1] != 0)]
    if isinstance(typer.head, LabelHead):
        typer.head.type_vectors.copy_(typer.encode_names(names))
    typer(IDS, IDS != 0, *PLACES).sum().backward()
    learning = {name for name, p in typer.named_parameters() if p.grad is not None}
    assert any(name.startswith("head.") for name in learning)
    assert any(name.startswith("text_encoder.") for name in learning) == tuned
    assert not any(name.startswith("type_encoder.") for name in learning)


def test_a_frozen_encoder_is_without_dropout_in_training() -> None:
    typer = model(train_encoder=False).train()
    one, other = (typer.text_encoder(IDS, IDS != 0) for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(typer(IDS, IDS != 0, *PLACES), typer(IDS, IDS != 0, *PLACES))


def test_names_have_one_length_whatever_their_batch() -> None:
    typer = model(head="labels").train()
    together = typer.encode_names([(IDS, IDS != 0)])
    apart = typer.encode_names([(IDS[i : i + 1], IDS[i : i + 1] != 0) for i in range(2)])
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-5)
    torch.testing.assert_close(together.norm(dim=1), torch.full((2,), 4.0))
    assert isinstance(typer.head, LabelHead)
    table = typer.head.table(together)
    assert (table.weight.shape, table.bias.shape) == ((2, 8), (2,))
