"""Rows whose contexts a model in vLLM writes, against a stand-in for vLLM: here, and on Ray Data."""

from __future__ import annotations

import json
import pickle
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from rayner.cli.app import app
from rayner.data.writers import write_jsonl
from rayner.errors import InputError, RaynerError
from rayner.runtime.corpora import vllm_answers
from rayner.runtime.corpora.context_pairs import Generated, contexts
from rayner.runtime.corpora.vllm_answers import VllmEngine, answers_of, vllm_model
from rayner.supervision.context_rows import read_context_rows
from rayner.supervision.generation import generate, generate_usable
from tests.tasks.small import marked

BOOKS = {
    "moby": "[PER:Ahab] left. [PER:Ishmael] came to [LOC:Nantucket]. The sea was calm.",
    "oliver": "[PER:Fagin] slept in [LOC:London]. It rained all night. [PER:Nancy] ran.",
}


class StandIn:
    """What is used of `vllm.LLM`; a prompt is answered by itself, and by the seed."""

    def __init__(self, model: str, load_format: str, trust_remote_code: bool) -> None:
        if model == "nowhere":
            raise OSError("nowhere is no model\nand more")
        assert load_format == "safetensors"
        assert trust_remote_code is False
        self.asked: list[str] = []

    def chat(self, messages: Any, sampling_params: Any, use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        if any("fail" in message["content"] for (message,) in messages):
            raise ValueError("no chat template")
        asked = [message["content"] for (message,) in messages]
        self.asked += asked
        seeds = [parameters["seed"] for parameters in sampling_params]
        answers = ["" if p == "silent" else f"{p} {s}" for p, s in zip(asked, seeds, strict=True)]
        return [SimpleNamespace(outputs=[SimpleNamespace(text=answer)]) for answer in answers]


def installed(llm: type[StandIn] = StandIn) -> ModuleType:
    """A module for `sys.modules`."""
    module = ModuleType("vllm")
    module.LLM, module.SamplingParams = llm, dict  # pyright: ignore[reportAttributeAccessIssue]
    return module


def loaded(model: str) -> VllmEngine:
    """An engine over the stand-in, on an actor that has no vLLM."""
    sys.modules["vllm"] = installed()
    return VllmEngine(model, 0.5, 20)


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", installed())


@pytest.fixture
def books(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    for name, text in BOOKS.items():
        write_jsonl([marked(text, name, group=name)], tmp_path / "books" / f"{name}.jsonl")
    return tmp_path / "books"


def test_the_command_makes_rows_and_asks_for_none_twice(books: Path, tmp_path: Path, vllm: None) -> None:
    arguments = ["corpus", "contexts", str(books), "--out", str(tmp_path / "out"), "--vllm", "small"]
    results = []
    for _ in range(2):
        result = CliRunner().invoke(app, [*arguments, "--workers", "0", "--json"])
        assert result.exit_code == 0, result.output
        results.append(json.loads(result.stdout.splitlines()[-1]))
    first, again = results
    assert (first["relevant"], first["texts"]) == (6, 0)
    assert first["host"] == "vLLM, on this cluster"
    assert first["counts"]["answered"] == again["counts"]["from the ledger"] == 6
    rows = read_context_rows(tmp_path / "out" / "rows.jsonl").rows
    assert all(any(name in row.context for name in row.entities) for row in rows if row.relevant)


def test_who_is_interrupted_keeps_what_was_answered(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Breaks(StandIn):
        broken = True

        def chat(self, messages: Any, **values: Any) -> list[Any]:
            if self.broken and len(asked) >= 4:
                raise RuntimeError("CUDA error")
            answers = super().chat(messages, **values)
            asked.extend(message["content"] for (message,) in messages)
            return answers

    monkeypatch.setitem(sys.modules, "vllm", installed(Breaks))
    monkeypatch.setattr(vllm_answers, "PROMPTS_AT_ONCE", 2)
    source = Generated(vllm_model("small", 0))
    with pytest.raises(RaynerError, match=r"--vllm small: vLLM failed \(CUDA error\); answers until then"):
        contexts([books], tmp_path / "out", source)
    assert len(asked) == 4
    Breaks.broken = False
    assert contexts([books], tmp_path / "out", source)["relevant"] == 6
    assert len(asked) == len(set(asked)) == 6


def test_another_try_is_another_draw_and_another_temperature_asks_anew(tmp_path: Path, vllm: None) -> None:
    ledger = tmp_path / "ledger.jsonl"
    given = generate_usable(vllm_model("small", 0), ["a", "silent"], lambda *_: False, ledger, tries=3)
    assert given.counts["asked again"] == 2
    assert given.counts["dropped: empty answer"] == 1
    answers = [json.loads(line)["answer"] for line in ledger.read_text().splitlines()]
    assert len(set(answers)) == 4, "three draws, and none for what has no text"
    same = generate(vllm_model("small", 0), ["a"], ledger)
    assert same.counts["from the ledger"] == 1
    other = generate(vllm_model("small", 0, 0.5), ["a"], ledger)
    assert other.counts["from the ledger"] == 0
    longer = generate(vllm_model("small", 0, max_tokens=300), ["a"], ledger)
    assert longer.counts["from the ledger"] == 0


def test_without_vllm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(InputError, match=r"--vllm small: vLLM cannot be imported .*; pip install vllm"):
        list(vllm_model("small", 0).answers(["a"], [1]))


def test_a_model_that_cannot_be_loaded_is_one_line(vllm: None) -> None:
    with pytest.raises(
        InputError, match=r"vLLM cannot load it \(nowhere is no model\); name a model"
    ) as error:
        list(vllm_model("nowhere", 0).answers(["a"], [1]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("others", [["--send"], ["--checkpoint", "run"], ["--endpoint", "http://x/v1"]])
def test_what_does_not_go_together(books: Path, tmp_path: Path, others: list[str]) -> None:
    arguments = ["corpus", "contexts", str(books), "--out", str(tmp_path / "out"), "--vllm", "small"]
    result = CliRunner().invoke(app, [*arguments, *others])
    assert result.exit_code == 2 or isinstance(result.exception, InputError)
    assert not (tmp_path / "out").exists()


def test_errors_of_an_actor_travel_as_results(vllm: None) -> None:
    """Ray would wrap them in its traceback."""
    batch = pa.table({"place": [3], "prompt": ["fail"], "seed": [0]})
    for model, message in (("nowhere", "cannot load it"), ("small", r"vLLM failed \(no chat template\)")):
        (row,) = vllm_answers._Actor(partial(loaded, model))(batch).to_pylist()
        with pytest.raises(RaynerError, match=message):
            raise pickle.loads(row["error"])


def test_actors_of_ray_data_answer_as_this_process(
    ray_cluster: None, vllm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm_answers, "PROMPTS_AT_ONCE", 3)
    prompts, seeds = [f"p{number}" for number in range(10)], [2**32 - 1, *range(9)]
    here = list(answers_of(partial(loaded, "small"), 0, prompts, seeds))
    assert here == [(i, f"p{i} {seed}") for i, seed in enumerate(seeds)]
    found: list[tuple[int, str]] = []
    # The engine fails over the last prompt, and those that it is given with it.
    with pytest.raises(RaynerError, match=r"vLLM failed \(no chat template\)"):
        found.extend(answers_of(partial(loaded, "small"), 1, [*prompts[:9], "fail"], seeds))
    assert sorted(found) == here[: len(found)]
    assert len(found) >= 6
