"""`rayner corpus contexts`."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Annotated, Any

import typer

from rayner.cli.options import Json, Redo, given_output, given_path, workers_option
from rayner.cli.printing import logs_on_stderr, print_result, print_summary
from rayner.cli.tables import with_place
from rayner.counted import counted
from rayner.errors import InputError

_OPTIONS_OF = (
    (("method", "candidates", "minimum_gain"), ("checkpoint",), "contexts that a --checkpoint labels"),
    (("key_variable", "concurrency", "timeout"), ("endpoint",), "an --endpoint"),
    (("tries", "temperature", "max_tokens"), ("endpoint", "vllm"), "an --endpoint or --vllm"),
)
"""Options, the sources of contexts that they are about, and what those are."""


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _check_source(given: Set[str], workers: int) -> None:
    """Refuse options of `corpus contexts` that are about another source of contexts than is named.

    Args:
        given: the names of the options that were given.
    """
    if "checkpoint" in given and not {"endpoint", "vllm", "prompts"}.isdisjoint(given):
        what = "is for contexts of the corpus, which nobody is asked for"
        raise InputError("--checkpoint", what, "leave --endpoint, --vllm and --prompts out")
    if "vllm" in given and not {"endpoint", "model", "send"}.isdisjoint(given):
        what = "names the model and sends nothing"
        raise InputError("--vllm", what, "leave --endpoint, --model and --send out")
    for options, sources, what in _OPTIONS_OF:
        if (unused := next(filter(given.__contains__, options), None)) and given.isdisjoint(sources):
            option = f"--{unused.replace('_', '-')}"
            raise InputError(option, f"is for {what}", "name one, or leave the option out")
    if workers and given.isdisjoint(("checkpoint", "vllm")):
        what = "is for a --checkpoint or a model in --vllm"
        raise InputError("--workers", what, "leave it out, or name one")
    if len(given & {"endpoint", "model"}) == 1 or ("send" in given and "endpoint" not in given):
        raise InputError("--endpoint", "goes with --model, and --send with both", "give what is missing")


def contexts(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", parser=given_path, help="Annotated files or folders.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", parser=given_output, help="The folder for rows.jsonl.")],
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An OpenAI-compatible endpoint, such as https://host/v1."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model that the endpoint is asked for.")
    ] = None,
    vllm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A model that vLLM runs on --workers instead, by folder or Hugging Face id; no text leaves "
            "the cluster. Never run with weights.",
        ),
    ] = None,
    send: Annotated[
        bool, typer.Option("--send", help="Send the texts; without it, only count those that would leave.")
    ] = False,
    key_variable: Annotated[
        str, typer.Option(metavar="NAME", help="The environment variable with the endpoint's key.")
    ] = "OPENAI_API_KEY",
    concurrency: Annotated[int, typer.Option(min=1, metavar="N", help="Requests at a time.")] = 4,
    timeout: Annotated[float, typer.Option(min=0.1, max=1e5, metavar="SECONDS", help="Of a request.")] = 60.0,
    tries: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests for a context that mentions its entity.")
    ] = 3,
    temperature: Annotated[float, typer.Option(min=0.0, max=100.0, metavar="X", help="Of the model.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Of an answer, at most.")] = 200,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=given_path, help="YAML: prompts and templates for a label set."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            parser=given_path,
            help="Label contexts with this recognizer or tagger instead.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="before, after, surrounding, bm25 (the default), same_noun, dense, random; may be repeated.",
        ),
    ] = None,
    candidates: Annotated[
        int, typer.Option(min=1, metavar="N", help="Contexts by each method and sentence.")
    ] = 4,
    minimum_gain: Annotated[
        float,
        typer.Option(min=0.0, metavar="X", help="Rise of the mentions' probability that makes one relevant."),
    ] = 0.01,
    leave_out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", parser=given_path, help="Texts to evaluate on; rows with theirs are left out."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of what is drawn.")] = 0,
    workers: Annotated[int | None, workers_option("0, and 1 with --vllm")] = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Make training rows of a context ranker.

    Contexts come from templates, with --endpoint or --vllm from a language model, with --checkpoint from the
    corpus.
    """
    with logs_on_stderr():
        from rayner.config import ContextSettings
        from rayner.config.recipe_files import parse_settings
        from rayner.runtime.corpora.context_pairs import Generated, Labelled
        from rayner.runtime.corpora.context_pairs import contexts as write_rows
        from rayner.runtime.corpora.vllm_answers import vllm_model
        from rayner.supervision.endpoint import Endpoint

        _check_source({name for name in context.params if _is_given(context, name)}, workers or 0)
        if checkpoint:
            values = {"methods": method or ["bm25"], "count": candidates, "seed": seed}
            settings = parse_settings(ContextSettings, values, "--method")
            source = Labelled(checkpoint, settings, minimum_gain)
        else:
            drawn: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
            asked = endpoint and Endpoint(endpoint, model or "", key_variable, concurrency, timeout, **drawn)
            local_model = vllm and vllm_model(vllm, workers, temperature, max_tokens)
            source = Generated(local_model or asked or None, prompts, send, tries)
        result = write_rows(paths, out, source, leave_out or (), seed, fresh, workers or 0)

    def show(result: dict[str, Any]) -> None:
        if result.get("texts"):
            texts = counted(result["texts"], "text")
            print(f"{texts} would leave for {result['host']}; with --send they do")
        following = [] if result.get("texts") else [f"a recipe with pairs.train: [{out}/rows.jsonl]"]
        print_summary(result if result.get("texts") else with_place(result, out), following)

    print_result(result, as_json, show)
