"""Answers of a language model that vLLM runs on the workers of Ray Data."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pyarrow as pa

from rayner.errors import InputError, RaynerError, first_line
from rayner.runtime.cluster import ensure_ray, quiet_ray_data
from rayner.runtime.elsewhere import Needs, empty_task, wait_for_room
from rayner.runtime.faults import worker_failed
from rayner.supervision.endpoint import MAX_TOKENS
from rayner.supervision.local_model import LocalModel

PROMPTS_AT_ONCE = 128
"""Prompts that an engine is given at a time: of those that are interrupted no answer is kept."""
_SCHEMA = pa.schema([("place", pa.int64()), ("answer", pa.string()), ("error", pa.binary())])


class VllmEngine:
    """A model in vLLM, loaded where it is used.

    vLLM draws each answer by a seed of its own, so that an answer depends on no other prompt. Weights are
    read from safetensors alone, and no code that comes with a model is run.
    """

    def __init__(self, model: str, temperature: float, max_tokens: int) -> None:
        where = f"--vllm {model}"
        try:
            vllm: Any = import_module("vllm")
        except ImportError as error:
            hint = "pip install vllm on each machine that works, or name an --endpoint"
            raise InputError(where, f"vLLM cannot be imported ({first_line(error):.300})", hint) from error
        self._where, self._temperature, self._max_tokens = where, temperature, max_tokens
        self._parameters: Any = vllm.SamplingParams
        try:
            self._model: Any = vllm.LLM(model=model, load_format="safetensors", trust_remote_code=False)
        except Exception as error:
            hint = "name a model that `vllm serve` runs here"
            raise InputError(where, f"vLLM cannot load it ({first_line(error):.300})", hint) from error

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """The answers to prompts, each as the one message of a user.

        Raises:
            RaynerError: vLLM fails over them, as without a chat template.
        """
        messages = [[{"role": "user", "content": prompt}] for prompt in prompts]
        values = {"temperature": self._temperature, "max_tokens": self._max_tokens}
        parameters = [self._parameters(**values, seed=seed) for seed in seeds]
        try:
            answers = self._model.chat(messages, sampling_params=parameters, use_tqdm=False)
        except Exception as error:
            what = f"{self._where}: vLLM failed ({first_line(error):.300}); answers until then are kept"
            raise RaynerError(f"{what}: run the same command again") from error
        return [answer.outputs[0].text for answer in answers]


Engine = Callable[[Sequence[str], Sequence[int]], list[str]]


def vllm_model(
    model: str, workers: int | None = None, temperature: float = 1.0, max_tokens: int = MAX_TOKENS
) -> LocalModel:
    """A model of Hugging Face, by id or folder, that vLLM runs.

    Args:
        workers: actors of Ray Data, each with a GPU where the cluster has some; 0 runs it in this process.
    """
    engine = partial(VllmEngine, model, temperature, max_tokens)
    answers = partial(answers_of, engine, 1 if workers is None else workers)
    return LocalModel(model, "vLLM", answers, temperature, max_tokens)


def answers_of(
    load: Callable[[], Engine], workers: int, prompts: Sequence[str], seeds: Sequence[int]
) -> Iterator[tuple[int, str]]:
    """The place of each prompt and its answer, as they come.

    Args:
        load: makes an engine; called once on each actor. It must pickle.

    Raises:
        InputError: an engine cannot be loaded, or no node has had room for an actor in time.
        RaynerError: an engine fails, or a worker does.
    """
    if not workers:
        engine = load()
        for start in range(0, len(prompts), PROMPTS_AT_ONCE):
            part = slice(start, start + PROMPTS_AT_ONCE)
            yield from enumerate(engine(prompts[part], seeds[part]), start)
        return
    import ray
    from ray.data import ActorPoolStrategy
    from ray.exceptions import RayError

    ensure_ray()
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    room = ray.remote(num_cpus=1, num_gpus=gpus)(empty_task)
    wait_for_room([room.remote()], Needs(1, gpus))
    items = [
        {"place": place, "prompt": prompt, "seed": seed}
        for place, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True))
    ]
    blocks = max(1, -(-len(items) // PROMPTS_AT_ONCE))
    with quiet_ray_data():
        answered = ray.data.from_items(items, override_num_blocks=blocks).map_batches(
            _Actor,
            fn_constructor_args=(load,),
            batch_size=PROMPTS_AT_ONCE,
            batch_format="pyarrow",
            num_cpus=1,
            num_gpus=gpus,
            compute=ActorPoolStrategy(size=min(workers, blocks), max_tasks_in_flight_per_actor=2),
        )
        try:
            for row in answered.iter_rows():
                if row["error"] is not None:
                    raise pickle.loads(row["error"])
                yield row["place"], row["answer"]
        except RayError as error:
            raise worker_failed("vLLM", error, "answers until then are kept") from error


class _Actor:
    """Holds the engine. Errors of ours travel as results: Ray would wrap them in its traceback."""

    def __init__(self, load: Callable[[], Engine]) -> None:
        try:
            self._engine: Engine | RaynerError = load()
        except RaynerError as error:
            self._engine = error

    def __call__(self, batch: pa.Table) -> pa.Table:
        places = batch["place"].to_pylist()
        try:
            if isinstance(self._engine, RaynerError):
                raise self._engine
            answers = self._engine(batch["prompt"].to_pylist(), batch["seed"].to_pylist())
        except RaynerError as error:
            return pa.table([[None], [None], [pickle.dumps(error)]], schema=_SCHEMA)
        return pa.table([places, answers, [None] * len(places)], schema=_SCHEMA)
