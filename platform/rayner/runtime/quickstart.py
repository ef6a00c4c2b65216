"""A first run, from a corpus to mentions in new sentences, on what the package brings along."""

from __future__ import annotations

import json
import logging
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rayner

EXAMPLES = Path(rayner.__file__).parent / "examples" / "software"
WORKERS = 2

log = logging.getLogger(__name__)

# None of them, and few of their names, are in the example corpus.
SENTENCES = (
    "After the upgrade to Debian 13, nginx refused to start because OpenSSL could not read its keys.",
    "Priya from Red Hat moved the billing service from MySQL to PostgreSQL and rewrote its parser in Rust.",
    "Mozilla fixed the crash in Firefox that Kenji Watanabe had reported for Windows 11.",
)


def quickstart(out: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Convert and check the example corpus, train on it with two workers, score the test part, find mentions.

    Args:
        out: the folder for the converted corpus and the run. A run that was cut short goes on; a finished one
            is scored again.
        overrides: `key=value` changes of the example recipe.

    Returns:
        `checkpoint`, `steps`, `seconds` of everything, `metrics` of the test part, and `documents`: rows
        `text, mentions` of sentences that are in no part of the corpus.
    """
    from rayner.recipes import load_recipe
    from rayner.runtime.corpora import check, convert
    from rayner.runtime.evaluate import evaluate
    from rayner.runtime.train import train

    start = time.perf_counter()
    parts = {name: out / "corpus" / name for name in ("train", "dev")}
    for name, folder in parts.items():
        counts = convert([EXAMPLES / f"{name}.jsonl"], folder)
        log.info("%s: %d documents, %d mentions", name, counts["documents"], counts["mentions"])
    converted = [f"corpus.{name}={json.dumps([str(folder)])}" for name, folder in parts.items()]
    recipe = load_recipe(EXAMPLES / "recipe.yaml", [*converted, *overrides])
    found = check([], recipe)
    log.info("check: %d errors, %d warnings", found["errors"], found["warnings"])
    trained = train(recipe, out / "run", fresh=False, workers=WORKERS)
    checkpoint = Path(trained["checkpoint"])
    metrics = evaluate(checkpoint, EXAMPLES / "test.jsonl")
    documents = rayner.load(checkpoint).predict(SENTENCES)
    return {
        "checkpoint": str(checkpoint),
        "steps": trained["steps"],
        "seconds": round(time.perf_counter() - start, 1),
        "metrics": metrics,
        "documents": [{"text": d.text, "mentions": [asdict(m) for m in d.mentions]} for d in documents],
    }


def show(result: Mapping[str, Any]) -> None:
    """Print the scores per type, the sentences with their mentions in colour, and what to run next."""
    from rich.console import Console

    from rayner.data.schema import Document, Mention
    from rayner.runtime.console import colours_of, marked_text, print_summary, scores_table

    console = Console()
    console.print(scores_table(result["metrics"], "The example corpus, test part"))
    colours = colours_of(result["metrics"]["per_type"])
    for row in result["documents"]:
        mentions = tuple(Mention(m["start"], m["end"], m["type"]) for m in row["mentions"])
        document = Document("", row["text"], mentions)
        console.print(marked_text(document, colours), soft_wrap=True)
    console.print()
    checkpoint = Path(os.path.relpath(result["checkpoint"]))
    facts = {"checkpoint": checkpoint, "steps": result["steps"], "seconds": result["seconds"]}
    report = shlex.join(["rayner", "report", str(checkpoint.parent)])
    print_summary(console, facts, [report, "rayner corpus convert YOUR_FILES --out YOUR_CORPUS"])
