"""Documents that were annotated for some of the types only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rayner.data.schema import Mention
from tests.tasks.small import built, collated, corpus, recognizer, tagger, weighted_loss

DOCUMENTS = corpus()


def _of_types(*names: str, keep: bool = False) -> list[Any]:
    return [
        replace(d, annotated_types=names, mentions=tuple(m for m in d.mentions if keep or m.type in names))
        for d in DOCUMENTS
    ]


@pytest.mark.parametrize("loss", [{}, {"threshold_in_denominator": False}, {"negatives": "all"}])
@pytest.mark.parametrize("keep", [False, True])
def test_types_that_were_not_annotated_teach_nothing(loss: dict[str, Any], keep: bool) -> None:
    task = recognizer(loss=loss)
    model = built(task)
    batch = collated(task, _of_types("PER", "ORG", keep=keep))
    vectors = model.encode_types(task.inputs(model, task.recipe.types))
    leaves = [part.detach().requires_grad_() for part in (vectors.start, vectors.end, vectors.span)]
    model.encode_types = lambda *_: vectors._replace(
        **dict(zip(("start", "end", "span"), leaves, strict=True))
    )
    weighted_loss(task, model, batch).backward()
    for leaf in leaves:
        assert leaf.grad is not None
        assert leaf.grad[:2].abs().sum() > 0
        assert torch.equal(leaf.grad[2], torch.zeros_like(leaf.grad[2]))


def test_the_loss_of_the_annotated_types_is_that_of_a_recipe_with_no_others() -> None:
    task = recognizer()
    alone = recognizer(types=[t.model_dump() for t in task.recipe.types[:2]])
    model, other = built(task).eval(), built(alone).eval()
    other.load_state_dict(model.state_dict())
    wanted = weighted_loss(alone, other, collated(alone, _of_types("PER", "ORG")))
    for keep in (False, True):
        found = weighted_loss(task, model, collated(task, _of_types("PER", "ORG", keep=keep)))
        torch.testing.assert_close(found, wanted)


def test_a_document_annotated_for_nothing_adds_nothing() -> None:
    task = recognizer()
    model = built(task).eval()
    nothing = replace(DOCUMENTS[0], document_id="n", annotated_types=(), mentions=())
    with_it = weighted_loss(task, model, collated(task, [*DOCUMENTS, nothing]))
    torch.testing.assert_close(with_it, weighted_loss(task, model, collated(task, DOCUMENTS)))


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_a_tagger_leaves_open_what_was_not_annotated(scheme: str) -> None:
    task = tagger(model={"scheme": scheme})
    model = built(task).eval()
    documents = [_of_types("PER")[0], DOCUMENTS[1], _of_types("LOC", "ORG")[4]]
    batch = collated(task, documents)
    (loss,) = task.forward(model, batch, None).sums.values()  # type: ignore[arg-type]
    logits = model(batch.ids, batch.mask)[batch.words]
    chances = logits.double().softmax(-1).detach().numpy()
    expected, word = 0.0, 0
    for document in documents:
        names = document.annotated_types or ("PER", "ORG", "LOC")
        (window,) = task.windows_of(document)
        for start, end in window.subwords.words:
            inside: list[Mention] = [m for m in document.mentions if m.start <= start and end <= m.end]
            if inside:
                first, last = inside[0].start == start, inside[0].end == end
                prefix = {(True, True): "S", (True, False): "B", (False, True): "E", (False, False): "I"}
                letter = prefix[first, last] if scheme == "BIOES" else ("B" if first else "I")
                allowed = [f"{letter}-{inside[0].type}"]
            else:
                allowed = ["O", *(n for n in task.labels if n != "O" and n[2:] not in names)]
            expected -= np.log(sum(chances[word, task.labels.index(n)] for n in allowed))
            word += 1
    assert word == len(chances)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_a_tagger_learns_nothing_of_what_was_not_annotated() -> None:
    task = tagger()
    model = built(task)
    document = replace(DOCUMENTS[3], annotated_types=())
    (loss,) = task.forward(model, collated(task, [document]), None).sums.values()  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(0, abs=1e-5)
    loss.backward()
    assert model.linear.weight.grad.abs().max() < 1e-5
