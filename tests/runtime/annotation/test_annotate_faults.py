"""What a worker cannot do for reasons of its own is never held against a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from rayner.config import ContextSettings
from rayner.config.documents import ContextMethod
from rayner.data.schema import Document
from rayner.errors import CheckpointError, InputError, RaynerError
from rayner.files.places import place_of
from rayner.runtime.annotation import attempts
from rayner.runtime.annotation.answering import Answering
from rayner.runtime.annotation.attempts import FAULTS, UNTROUBLED, Attempts, note_fault
from rayner.runtime.faults import WorkerFault
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.stage_chain import chain
from tests.runtime.annotation.annotate_model import Capitals, FindsCapitals
from tests.runtime.annotation.annotate_texts import TEXTS, here, rejects, rows, write_jsonl
from tests.tasks.small import built
from tests.tasks.small_pairs import ranker_recipe

LONG = [text * 20 for text in TEXTS]
Act = Callable[[Any], object]


@dataclass(frozen=True)
class Acts(Capitals):
    """Something is done before each call of a method of the predictor, with what it is given first."""

    method: str = "forward"
    act: Act = id

    def load(self, device: str | None) -> Any:
        predictor = super().load(device)
        call = getattr(predictor, self.method)

        def act_and_call(*given: Any) -> Any:
            self.act(given[0])
            return call(*given)

        setattr(predictor, self.method, act_and_call)
        return predictor


def no_memory(error: Exception, most: int, seen: list[int]) -> Act:
    def act(windows: Sequence[Any]) -> None:
        seen.append(len(windows))
        if len(windows) > most:
            raise error

    return act


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried"
    ),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=repr)
@pytest.mark.parametrize("most", [1, 3])
def test_batches_are_halved_where_memory_runs_out(tmp_path: Path, error: Exception, most: int) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", LONG)
    here(given, tmp_path / "undisturbed")
    seen: list[int] = []
    model = Acts(act=no_memory(error, most, seen))
    counts = here(given, tmp_path / "out", model=model, tokens_per_batch=3200)
    assert (counts["documents"], counts["rejected"]) == (len(LONG), 0)
    assert rows(tmp_path / "out") == rows(tmp_path / "undisturbed")
    assert max(seen) == 8
    assert max(seen[-20:]) <= 2 * most, "the budget is not learned"


class Shouts(FindsCapitals):
    """A second stage, which has memory for one window at a time."""

    def __init__(self, seen: list[int]) -> None:
        super().__init__()
        self.seen = seen

    def forward(self, windows: Sequence[Any]) -> list[Any]:
        self.seen.append(len(windows))
        if len(windows) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return super().forward(windows)

    def finish(self, item: Document, windows: Sequence[Any], scores: Sequence[Any]) -> Document:
        return replace(item, mentions=tuple(replace(m, type=m.type.upper()) for m in item.mentions))


def test_the_second_stage_of_a_chain_is_halved_too() -> None:
    seen: list[int] = []
    documents = [Document(str(i), text) for i, text in enumerate(LONG)]
    first = Capitals().load(None)
    alone = [answer.out for answer in Answering(first, 2048).answers(documents)]
    both = [answer.out for answer in Answering(chain([first, Shouts(seen)]), 2048).answers(documents)]
    assert max(seen) > 1
    assert seen.count(1) >= len(documents)
    assert [[m.type for m in d.mentions] for d in both] == [
        [m.type.upper() for m in d.mentions] for d in alone
    ]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=repr)
def test_no_memory_for_a_single_window_fails_the_run(tmp_path: Path, error: Exception) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", LONG)
    with pytest.raises(RaynerError, match="out of memory"):
        here(given, tmp_path / "out", model=Acts(act=no_memory(error, 0, [])))
    counts = here(given, tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (len(LONG), 0)


@pytest.mark.parametrize("method", ["prepare", "forward", "finish"])
@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: device-side assert triggered"),
        OSError(5, "EIO"),
        MemoryError(),
        CheckpointError("best", "gives a score that is no number", "train it again"),
    ],
)
def test_a_fault_of_the_worker_fails_the_run_and_rejects_nothing(
    tmp_path: Path, method: str, error: Exception
) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", LONG)
    calls: list[Any] = []

    def fail_later(given: Any) -> None:
        calls.append(given)
        if len(calls) > 5:
            raise error

    with pytest.raises(RaynerError, match=type(error).__name__):
        here(given, tmp_path / "out", model=Acts(method=method, act=fail_later))
    counts = here(given, tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (len(LONG), 0)


@pytest.mark.parametrize("method", get_args(ContextMethod))
def test_a_ranker_that_gives_no_numbers_does_not_answer_the_probe(
    tmp_path: Path, method: ContextMethod
) -> None:
    task: Any = train_task(parse_recipe(ranker_recipe(tmp_path), "test"))
    model = built(task)
    torch.nn.init.constant_(model.linear.weight, float("nan"))
    stage = ContextStage(ContextSettings(methods=(method,)), task.predictor(model))
    answering = Answering(chain([stage, Capitals().load(None)]))
    with pytest.raises(WorkerFault, match="gives a score that is no number"):
        answering.probe()


@pytest.mark.parametrize("working", [0, 1, 30])
def test_an_unknown_error_that_stays_is_no_document_s(tmp_path: Path, working: int) -> None:
    """After the batch and the first documents alone, too: whoever fails last must not be blamed for it."""
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS[:20])
    calls: list[Any] = []

    def fail_later(given: Any) -> None:
        calls.append(given)
        if len(calls) == 1 or len(calls) > 1 + working:
            raise RuntimeError("CUDNN_STATUS_EXECUTION_FAILED")

    def annotate_it() -> None:
        here(given, tmp_path / "out", model=Acts(act=fail_later))

    if working < 20:
        with pytest.raises(RuntimeError, match="CUDNN"):
            annotate_it()
    else:
        annotate_it()
    counts = here(given, tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (20, 0)


def test_an_error_that_does_not_repeat_itself_is_forgiven(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", LONG)
    left = [ValueError("once"), ValueError("twice")]

    def fail(given: Any) -> None:
        if left:
            raise left.pop()

    assert here(given, tmp_path / "out", model=Acts(act=fail))["rejected"] == 0


@pytest.mark.parametrize("method", ["prepare", "finish"])
@pytest.mark.parametrize(
    ("error", "what", "hint"),
    [
        (InputError("text", "is upside down", "turn it"), "is upside down", "turn it"),
        (KeyError("x"), "the model failed on it (KeyError: 'x')", "report this, with the document"),
    ],
)
def test_an_error_of_one_document_rejects_that_one(
    tmp_path: Path, method: str, error: Exception, what: str, hint: str
) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)

    def fail(document: Document) -> None:
        if document.document_id == "d7":
            raise error

    counts = here(given, tmp_path / "out", model=Acts(method=method, act=fail))
    assert (counts["documents"], counts["rejected"]) == (len(TEXTS) - 1, 1)
    (reject,) = rejects(tmp_path / "out")
    assert (reject["document_id"], reject["what"], reject["hint"]) == ("d7", what, hint)


def test_an_input_error_over_anything_is_the_run_s(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)

    def fail(_: Any) -> None:
        raise InputError("types", "no types to look for", "name some")

    with pytest.raises(InputError, match="no types to look for"):
        here(given, tmp_path / "out", model=Acts(act=fail))


def test_a_worker_that_ends_by_itself_is_no_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "this_node", lambda: "here")
    monkeypatch.setattr(attempts, "node_lives", lambda node: True)
    place = place_of(tmp_path / "block.json")
    for fault in range(1, UNTROUBLED + FAULTS):
        attempt = Attempts.begin(place, "run")
        assert not attempt.is_careful
        assert not attempt.is_lethal("a.jsonl:1")
        assert note_fault(place, "run") == fault
    Attempts.begin(place, "another run")
    assert note_fault(place, "another run") == 1
