"""The verb `rayner annotate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from rayner.runtime.console import print_summary

Run = Callable[[Callable[[], Any], bool, Callable[[Any], None]], None]


def add_annotate(app: typer.Typer, run: Run) -> None:
    """Add the verb; `run` calls it and prints its result, as for every other command."""

    @app.command()
    def annotate(
        checkpoint: Annotated[
            Path,
            typer.Argument(exists=True, help="A checkpoint folder, such as RUN/best, or a pipeline file."),
        ],
        inputs: Annotated[
            list[str],
            typer.Argument(
                metavar="INPUT...", help="Parquet, JSONL or text files, .gz or not; folders; URIs of either."
            ),
        ],
        out: Annotated[
            str, typer.Option(help="The folder, or its URI, for documents-*.parquet and rejects.")
        ],
        jsonl: Annotated[
            bool, typer.Option("--jsonl", help="Write JSON lines too, with the texts, to _jsonl/.")
        ] = False,
        brat: Annotated[bool, typer.Option("--brat", help="Write brat files too, to _brat/.")] = False,
        types: Annotated[
            Path | None,
            typer.Option(exists=True, help="A YAML list of types to look for, also ones never learned."),
        ] = None,
        shift: Annotated[
            float | None,
            typer.Option(help="Added to every threshold: below 0 finds more, above 0 less."),
        ] = None,
        overlap: Annotated[
            Literal["flat", "nested"] | None, typer.Option(help="Whether mentions may be nested.")
        ] = None,
        workers: Annotated[
            int | None, typer.Option(min=0, help="A fixed number of workers; 0: this process, without Ray.")
        ] = None,
        max_workers: Annotated[
            int | None, typer.Option(min=1, help="Workers that the pool may grow to; all that fit if unset.")
        ] = None,
        cpus: Annotated[float, typer.Option(min=0.0, help="Logical CPUs, and threads, of a worker.")] = 1.0,
        gpus: Annotated[
            float | None, typer.Option(min=0.0, help="GPUs of a worker; 1 if unset and there are any.")
        ] = None,
        tokens_per_batch: Annotated[
            int | None, typer.Option(min=1, help="Padded tokens a batch: memory against speed.")
        ] = None,
        fresh: Annotated[
            bool, typer.Option("--fresh", help="Do everything again instead of going on.")
        ] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")
        ] = False,
    ) -> None:
        """Annotate whole corpora; go on where a killed run stopped. The rest lands in _rejects.jsonl."""

        def verb() -> dict[str, Any]:
            from rayner.config.reading import load_types
            from rayner.data.batches import TOKENS_PER_BATCH
            from rayner.runtime.annotate import annotate

            return annotate(
                checkpoint,
                inputs,
                out,
                options={"types": load_types(types) if types else None, "shift": shift, "overlap": overlap},
                also=(*(["jsonl"] if jsonl else []), *(["brat"] if brat else [])),
                workers=workers,
                max_workers=max_workers,
                cpus=cpus,
                gpus=gpus,
                tokens_per_batch=tokens_per_batch or TOKENS_PER_BATCH,
                fresh=fresh,
            )

        def show(counts: dict[str, Any]) -> None:
            shown = {k: v for k, v in counts.items() if v or k in ("documents", "rejected", "mentions")}
            read = f"import pandas; print(pandas.read_parquet({out!r}))"
            print_summary(Console(), shown, [f'python -c "{read}"'])

        run(verb, as_json, show)
