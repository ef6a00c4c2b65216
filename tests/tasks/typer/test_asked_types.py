"""Types that a request names: learned ones, and those that were never learned."""

from __future__ import annotations

import pytest
import torch

from rayner.errors import InputError
from rayner.tasks.predict import predict
from rayner.tasks.registry import task_of
from tests.tasks.small import built
from tests.tasks.typer.small_typer import DOCUMENTS, typer, types_of


def test_names_that_were_never_learned_are_scored() -> None:
    one, new = {"name": "/person"}, {"name": "a_new one", "description": "something new"}
    task = typer(model={"head": "labels"}, decoding={"hierarchy": "none"}, types=[{**one, "keyword": "he"}])
    model, of = built(task).eval(), task_of("typer").options.of
    asked, all_learned = of({"types": [one, new], "shift": -50.0}, "typer"), of({"shift": -50.0}, "typer")
    assert task.new_types(asked) == {"a_new one": "mean"}
    answers, usual = (list(predict(task.predictor(model, o), DOCUMENTS)) for o in (asked, all_learned))
    assert types_of(answers) == [{"/person", "a_new one"}] * len(DOCUMENTS)
    scores = [[dict(m.types)["/person"] for d in part for m in d.mentions] for part in (answers, usual)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


@pytest.mark.parametrize(("sign", "name"), [(1, "/person"), (-1, "a new one")])
def test_a_type_never_learned_has_the_mean_threshold(sign: int, name: str) -> None:
    """Not the middle, the least or the largest one: of [-100, -100, -100, -100, 1000], 120."""
    types = [{"name": "/person", "keyword": "he"}, {"name": "a new one"}]
    task = typer(
        model={"head": "labels"}, decoding={"hierarchy": "none", "always_best": False}, types=types[:1]
    )
    model = built(task).eval()
    model.thresholds.copy_(sign * torch.tensor([-100.0, -100, -100, -100, 1000]))
    asked = task_of("typer").options.of({"types": types}, "typer")
    assert types_of(list(predict(task.predictor(model, asked), DOCUMENTS))) == [{name}] * len(DOCUMENTS)


def test_a_linear_head_scores_learned_types_only() -> None:
    task = typer()
    model, of = built(task).eval(), task_of("typer").options.of
    learned = of({"types": [{"name": "/place"}], "shift": -50.0}, "typer")
    assert types_of(list(predict(task.predictor(model, learned), DOCUMENTS))) == [{"/place"}] * 4
    with pytest.raises(InputError, match=r"types: /ghost: was never learned, and model\.head is linear"):
        task.predictor(model, of({"types": [{"name": "/ghost"}]}, "typer"))
