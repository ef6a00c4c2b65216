"""What `rayner quickstart` finds on the example corpus, as README shows it.

python -m benchmarks.quickstart_results --runs runs/quickstart
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.command import call_main
from benchmarks.figures import Row, add_out, measured, record
from rayner.serving.quickstart import quickstart

SPANS = ("precision", "recall", "f1")
LINKED = ("top1", "top3", "top5", "mrr", "accuracy", "nil_precision", "nil_recall")


def figures(result: Mapping[str, Any]) -> tuple[Row, ...]:
    """F1 of each type and of all, fine types, linking, and the seconds of everything."""
    spans, typing, linking = result["metrics"], result["typing"], result["linking"]
    of_types = [{"type": name, **scores} for name, scores in (*spans["per_type"].items(), ("all", spans))]
    of_types = [{key: row[key] for key in ("type", *SPANS, "support")} for row in of_types]
    of_types[-1]["f1_interval"] = spans["intervals"]["f1"]
    linked = {key: linking[key] for key in LINKED} | {"top1_interval": linking["intervals"]["top1"]}
    typed = {"fine_accuracy": typing["accuracy"], "fine_macro_f1": typing["macro_f1"]}
    return (
        *measured(of_types, dict.fromkeys(SPANS, "%"), headline="f1", where=lambda row: row["type"] == "all"),
        *measured([{**typed, "mentions": typing["support"]}], dict.fromkeys(typed, "%")),
        *measured([{**linked, "mentions": linking["mentions"]}], dict.fromkeys(LINKED, "%"), headline="top1"),
        *measured([{"seconds": result["seconds"]}], {"seconds": "s"}),
    )


def main() -> None:
    """Run the quick start and write its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/quickstart_results"), help="a new folder")
    add_out(parser, "quickstart")
    options = parser.parse_args()
    with quickstart(options.runs) as result:
        pass
    record(
        "quickstart_results",
        options.out,
        title="The quick start",
        section="Quick start",
        task="recognizer, typer and standardizer",
        conditions="The test part of the example corpus; two workers.",
        uncertainty="Intervals are 95 %, by bootstrap over documents.",
        rows=figures(result),
    )
    print(json.dumps({"rows": [{key: result[key] for key in ("seconds", "metrics", "typing", "linking")}]}))


if __name__ == "__main__":
    call_main(main)
