"""The commands of `rayner corpus`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rayner.cli.options import (
    CorpusFormat,
    CorpusFormatName,
    FixedPrecision,
    Json,
    Redo,
    Workers,
    given_output,
    given_path,
)
from rayner.cli.printing import command, logs_on_stderr, print_result, print_summary, visible, with_percents
from rayner.cli.tables import print_findings, print_metrics, with_place
from rayner.counted import counted
from rayner.errors import InputError
from rayner.files.uris import with_uris

app = typer.Typer(
    help="Convert, check, label, resolve and rank corpora; rows for a context ranker.", no_args_is_help=True
)


@app.command()
def convert(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="INPUT", parser=given_path, help="Files or folders.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            parser=given_output,
            help="The folder for the documents, the rejects and the losses.",
        ),
    ],
    format: Annotated[
        CorpusFormatName,
        typer.Option("--from", "--format", help="The format of the input; auto detects it."),
    ] = "auto",
    to: Annotated[
        Literal["parquet", "jsonl", "iob2", "brat", "pubtator", "bioc", "bioc_json", "docbin"],
        typer.Option(help="The format of the output; docbin is spaCy's and needs the extra spacy."),
    ] = "parquet",
    workers: Workers = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Convert any format to Parquet or another.

    Rows that cannot be read are listed in rejects.jsonl, and what the new format cannot hold in losses.jsonl.
    """
    with logs_on_stderr():
        from rayner.runtime.corpora.convert import convert

        counts = convert(inputs, out, format, workers, fresh, to)
    following = [] if to == "docbin" else [command("rayner", "corpus", "check", out)]
    print_result(counts, as_json, lambda counts: print_summary(with_place(counts, out), following))


@app.command()
def check(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", parser=given_path, help="Files or folders.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="RECIPE",
            parser=given_path,
            help="Check the corpus of a recipe too, and all against its types and windows.",
        ),
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """List what is wrong with a corpus, by file and line. Status 1 if there are errors."""
    with logs_on_stderr():
        from rayner.runtime.corpora.check import check
        from rayner.tasks.registry import load_recipe

        if not paths and recipe is None:
            raise InputError("rayner corpus check", "nothing to check", "name files, folders or a --recipe")
        found = check(paths or [], load_recipe(recipe) if recipe else None, workers=workers)
    print_result(found, as_json, print_findings)
    if found["errors"]:
        raise typer.Exit(1)


@app.command()
def label(
    path: Annotated[Path, typer.Argument(metavar="PATH", parser=given_path, help="The corpus to label.")],
    dictionary: Annotated[
        Path, typer.Option(metavar="FILE", parser=given_path, help="TYPE<TAB>name lines, CSV or JSONL.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=given_output, help="The folder for the labelled corpus.")
    ],
    default_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The type of names without one.")
    ] = None,
    phrases: Annotated[
        Path | None, typer.Option(metavar="FILE", parser=given_path, help="Names to find but not to label.")
    ] = None,
    case: Annotated[
        Literal["exact", "ignore", "acronyms"], typer.Option(help="Which differences of case do not matter.")
    ] = "acronyms",
    ambiguity: Annotated[
        Literal["drop", "first", "both"], typer.Option(help="What to do with a name that has two types.")
    ] = "drop",
    workers: Workers = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Label a corpus with a dictionary. Mentions that it has are replaced, and the labels scored on them."""
    with logs_on_stderr():
        from rayner.config import LabelSettings
        from rayner.runtime.corpora.convert import label

        settings = LabelSettings(case=case, ambiguity=ambiguity)
        counts = label(path, dictionary, out, settings, default_type, phrases, workers, fresh)

    def show(counts: dict[str, Any]) -> None:
        if "per_type" in counts:
            print_metrics(counts, "Labels against the corpus's own mentions")
        print_summary(with_place(counts, out), [command("rayner", "corpus", "check", out)])

    print_result(counts, as_json, show)


@app.command()
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
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="before, after, surrounding, bm25, same_noun, dense, random; may be repeated.",
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Contexts by each method and sentence; by default 4."),
    ] = None,
    minimum_gain: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="X",
            help="Rise of the mentions' probability that makes one relevant; by default 0.01.",
        ),
    ] = None,
    leave_out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", parser=given_path, help="Texts to evaluate on; rows with theirs are left out."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of what is drawn.")] = 0,
    workers: Workers = None,
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
        from rayner.runtime.corpora.context_pairs import Generated, Labelled, contexts
        from rayner.runtime.corpora.vllm_answers import vllm_model
        from rayner.supervision.endpoint import Endpoint

        if checkpoint and (endpoint or vllm or prompts):
            what = "is for contexts of the corpus, which nobody is asked for"
            raise InputError("--checkpoint", what, "leave --endpoint, --vllm and --prompts out")
        if vllm and (endpoint or model or send):
            what = "names the model and sends nothing"
            raise InputError("--vllm", what, "leave --endpoint, --model and --send out")
        of_labels = {"--method": methods, "--candidates": candidates, "--minimum-gain": minimum_gain}
        given = [option for option, value in of_labels.items() if value is not None]
        if given and not checkpoint:
            what = "is for contexts that a --checkpoint labels"
            raise InputError(given[0], what, "name one, or leave the option out")
        of_endpoint = ("key_variable", "concurrency", "timeout")
        of_models = ("tries", "temperature", "max_tokens")
        unused = () if endpoint else of_endpoint if vllm else of_endpoint + of_models
        for name in unused:
            if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE":
                what = f"is for {'an --endpoint' if name in of_endpoint else 'an --endpoint or --vllm'}"
                raise InputError(f"--{name.replace('_', '-')}", what, "name one, or leave the option out")
        if workers and not (checkpoint or vllm):
            what = "is for a --checkpoint or a model in --vllm"
            raise InputError("--workers", what, "leave it out, or name one")
        if (endpoint is None) != (model is None) or (send and endpoint is None):
            raise InputError("--endpoint", "goes with --model, and --send with both", "give what is missing")
        if checkpoint:
            values = {"methods": methods or ["bm25"], "count": candidates or 4, "seed": seed}
            settings = parse_settings(ContextSettings, values, "--method")
            source = Labelled(checkpoint, settings, 0.01 if minimum_gain is None else minimum_gain)
        else:
            drawn: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
            asked = endpoint and Endpoint(endpoint, model or "", key_variable, concurrency, timeout, **drawn)
            local_model = vllm and vllm_model(vllm, workers, temperature, max_tokens)
            source = Generated(local_model or asked or None, prompts, send, tries)
        result = contexts(paths, out, source, leave_out or (), seed, fresh, workers or 0)

    def show(result: dict[str, Any]) -> None:
        if result.get("texts"):
            texts = counted(result["texts"], "text")
            print(f"{texts} would leave for {result['host']}; with --send they do")
        following = [] if result.get("texts") else [f"a recipe with pairs.train: [{out}/rows.jsonl]"]
        print_summary(result if result.get("texts") else with_place(result, out), following)

    print_result(result, as_json, show)


@app.command()
def resolve(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="TEXTS", parser=given_path, help="Files or folders.")
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", parser=given_output, help="The folder for the stories and the rejects."),
    ],
    resolver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="At least one of rules, ranking:RUN/best, coreferee, fastcoref and maverick (:MODEL; these "
            "three were never run with weights). Of two or more, only links on which two agree are kept.",
        ),
    ] = None,
    heads: Annotated[
        Literal["auto", "spacy", "rule"],
        typer.Option(help="How head words are found; auto takes spaCy's parser where it is installed."),
    ] = "auto",
    format: CorpusFormat = "auto",
    workers: Workers = None,
    precision: FixedPrecision = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Find coreference chains in texts: stories for the task `chains`. Texts without any are rejected."""
    with logs_on_stderr():
        from rayner.runtime.corpora.resolve import resolve_texts

        counts = resolve_texts(inputs, out, resolver or [], heads, format, workers, fresh, precision)
    following = [f"a recipe with task: chains and corpus.train: [{out}]"]
    shown = with_place(with_percents(counts, "agreement", "agreement_with_pronouns"), out)
    print_result(counts, as_json, lambda _: print_summary(shown, following))


@app.command()
def rank(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", parser=given_path, help="Corpora or texts, annotated or not."),
    ],
    checkpoint: Annotated[
        Path,
        typer.Option(
            metavar="CHECKPOINT",
            parser=given_path,
            help="A recognizer, a tagger or a Gaussian pre-training, such as RUN/best.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=given_output, help="The folder for the ranking and the rejects."),
    ] = None,
    format: CorpusFormat = "auto",
    workers: Workers = None,
    precision: FixedPrecision = None,
    as_json: Json = False,
) -> None:
    """Order documents by what annotating them would teach: first those that a checkpoint is least sure of."""
    with logs_on_stderr():
        from rayner.runtime.corpora.rank import rank

        result = rank(paths, checkpoint, out, format, workers or 0, precision)

    def show(result: dict[str, Any]) -> None:
        for row in result.pop("first"):
            name = visible(row["document_id"], True)
            print(f"{row['rank']:>4}  {row['score']:8.4f}  {name} ({counted(row['words'], 'word')})")
        if out is not None:
            result = {**with_place(result, out), "ranking": with_uris(str(out / "ranking.jsonl"))}
        print_summary(result)

    print_result(result, as_json, show)
