"""The command `rayner annotate`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rayner.cli.options import (
    Checkpoint,
    Json,
    Overlap,
    Precision,
    Redo,
    Shift,
    Support,
    Types,
    given_place,
    given_text,
)
from rayner.cli.printing import command, logs_on_stderr, print_result, print_summary

MOST_FINE_TYPES = 10


def annotate(
    checkpoint: Checkpoint,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            parser=given_text,
            help="Parquet, JSONL or text files, .gz or not; folders; URIs of either.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            parser=given_place,
            help="The folder, or its URI, for documents-*.parquet and rejects.",
        ),
    ],
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Write JSON lines too, with the texts, to _jsonl/.")
    ] = False,
    brat: Annotated[bool, typer.Option("--brat", help="Write brat files too, to _brat/.")] = False,
    contexts: Annotated[
        bool,
        typer.Option(
            "--contexts",
            help="Add a column of the contexts chosen for each sentence, which JSON lines have anyway.",
        ),
    ] = False,
    types: Types = None,
    shift: Shift = None,
    overlap: Overlap = None,
    support: Support = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="A fixed number of workers; 0: this process, without Ray. If unset, Ray for large inputs.",
        ),
    ] = None,
    max_workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Workers that the pool may grow to; if unset, all that fit."),
    ] = None,
    pool_per_stage: Annotated[
        bool,
        typer.Option(
            "--pool-per-stage",
            help="Of a pipeline: a pool of workers for each stage, at work at the same time.",
        ),
    ] = False,
    cpus: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="N",
            help="Logical CPUs of a worker; the whole ones are its threads. If unset, 1, or a share.",
        ),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="N",
            help="GPUs of a worker; if unset, 1 where there are any. Not run on a GPU yet.",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="N",
            help="GiB of memory of a worker, by which Ray places it, 0 for none; if unset, by its files.",
        ),
    ] = None,
    tokens_per_batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Padded tokens per batch; more are faster and need more memory. If unset, by the device.",
        ),
    ] = None,
    precision: Precision = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Annotate whole corpora; continue where a killed run stopped. Rejects are listed in _rejects.jsonl."""
    with logs_on_stderr():
        from rayner.config.recipe_files import load_types
        from rayner.data.schema import UNTYPED
        from rayner.runtime.annotation.annotate import Also, annotate

        also: dict[Also, bool] = {"jsonl": jsonl, "brat": brat, "contexts": contexts}
        counts = annotate(
            checkpoint,
            inputs,
            out,
            options={
                "types": load_types(types) if types else None,
                "shift": shift,
                "overlap": overlap,
                "support": support,
            },
            also=[name for name, asked in also.items() if asked],
            workers=workers,
            max_workers=max_workers,
            pool_per_stage=pool_per_stage,
            cpus=cpus,
            gpus=gpus,
            memory=memory,
            tokens_per_batch=tokens_per_batch,
            precision=precision,
            fresh=fresh,
        )

    def show(counts: dict[str, Any]) -> None:
        shown = {k: v for k, v in counts.items() if v or k in ("documents", "rejected", "mentions")}
        if fine := counts.get("fine_types"):  # absent from outputs of before they were counted
            most = [f"{name} {count}" for name, count in list(fine.items())[:MOST_FINE_TYPES]]
            rest = len(fine) - len(most)
            shown["fine_types"] = [*most, f"{rest:,} more in --json"] if rest else most
            if counts["types"].keys() == {UNTYPED}:
                del shown["types"]
        folder = json.dumps(out, ensure_ascii=False)  # double quotes: a shell takes the whole in single ones
        read = f'import pandas; print(*pandas.read_parquet({folder}).mentions.head(), sep="\\n")'
        print_summary(shown, [command("python", "-c", read)])

    print_result(counts, as_json, show)
