"""The commands of `rayner kb`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rayner.cli.options import (
    Json,
    KnowledgeBaseFormat,
    Precision,
    Standardizer,
    given_output,
    given_path,
    with_columns,
)
from rayner.cli.printing import command, logs_on_stderr, print_result, print_summary
from rayner.cli.tables import print_findings
from rayner.metrics.shown import shown_score

Inputs = Annotated[
    list[Path], typer.Argument(metavar="INPUT", parser=given_path, help="Files of one knowledge base.")
]

app = typer.Typer(help="Convert and check knowledge bases; re-rankers for them.", no_args_is_help=True)


@app.command("convert")
@with_columns
def convert(
    inputs: Inputs,
    out: Annotated[
        Path, typer.Option(metavar="FILE", parser=given_output, help="The file to write: .parquet or .jsonl.")
    ],
    format: KnowledgeBaseFormat = "auto",
    columns: Any = None,
    max_aliases: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Refuse a knowledge base in which an entity has more aliases."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Convert any format to Parquet or JSON lines. What cannot be read is written to OUT.rejects.jsonl."""
    with logs_on_stderr():
        from rayner.runtime.linking.knowledge_bases import convert

        counts = convert(inputs, out, format, columns, max_aliases)
    checked = command("rayner", "kb", "check", out)
    print_result(counts, as_json, lambda counts: print_summary(_flat(counts), [checked]))


@app.command("check")
@with_columns
def check(
    inputs: Inputs,
    format: KnowledgeBaseFormat = "auto",
    columns: Any = None,
    as_json: Json = False,
) -> None:
    """List what is wrong with a knowledge base, by file and line. Status 1 if there are errors."""
    with logs_on_stderr():
        from rayner.runtime.linking.knowledge_bases import check

        found = check(inputs, format, columns)
    print_result(found, as_json, lambda found: print_findings(_flat(found)))
    if found["errors"]:
        raise typer.Exit(1)


@app.command("candidates")
def candidates(
    checkpoint: Standardizer,
    out: Annotated[
        Path, typer.Option(metavar="FILE", parser=given_output, help="The file of pairs to write: .jsonl.")
    ],
    candidates: Annotated[int, typer.Option(min=2, metavar="N", help="Pairs per mention.")] = 16,
    mentions_only: Annotated[
        bool,
        typer.Option("--mentions-only", help="No pairs for names and aliases that are no training mentions."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write what a re-ranker learns from: mentions and aliases of a standardizer, with candidates."""
    with logs_on_stderr():
        from rayner.runtime.linking.reranking import write_candidates

        found = write_candidates(checkpoint, out, candidates=candidates, mentions_only=mentions_only)
    hint = command("rayner", "train", "RECIPE", "--set", f"pairs.train=[{out}]", "--out", "RANKER")
    print_result(found, as_json, lambda found: print_summary(found, [hint]))


@app.command("rerank")
def rerank(
    checkpoint: Standardizer,
    ranker: Annotated[
        Path,
        typer.Argument(
            metavar="RANKER", parser=given_path, help="RUN, RUN/best or a pipeline file, of a ranker."
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=given_output, help="The folder for the new checkpoint.")
    ],
    candidates: Annotated[
        int, typer.Option(min=10, metavar="N", help="Candidates per mention that the ranker reads.")
    ] = 16,
    precision: Precision = None,
    as_json: Json = False,
) -> None:
    """Write a checkpoint of a standardizer whose first candidates a ranker reads again."""
    with logs_on_stderr():
        from rayner.runtime.linking.reranking import add_reranker

        found = add_reranker(checkpoint, ranker, out, candidates=candidates, precision=precision)
    print_result(found, as_json, _show_reranker)


def _show_reranker(found: dict[str, Any]) -> None:
    compared = {
        f"{name} (%)": f"{shown_score(name, before)} -> {shown_score(name, found['after'][name])}"
        for name, before in found["before"].items()
        if before is not None
    }
    rest = {name: value for name, value in found.items() if name not in ("before", "after")}
    print_summary(
        compared | rest, [command("rayner", "standardize", found["out"], "FILE", "--index", "INDEX")]
    )


def _flat(counts: dict[str, Any]) -> dict[str, Any]:
    """With the reasons for repairs and for ignored input in place of their sums."""
    rest = {name: value for name, value in counts.items() if name != "reasons"}
    return rest | {name: reasons or 0 for name, reasons in counts["reasons"].items()}
