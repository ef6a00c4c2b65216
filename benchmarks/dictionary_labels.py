"""How good the labels of a dictionary are: those of BC5CDR's training part beside its annotators'.

python -m benchmarks.dictionary_labels --json
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from rayner.config import LabelSettings
from rayner.config.recipe_files import corpus_paths
from rayner.runtime.corpora.convert import label

CORPUS = "$RAYNER_DATA/bc5cdr-pubtator/CDR_TrainingSet.PubTator.txt"
DICTIONARIES = "$RAYNER_DATA/autoner-bc5cdr"
WAYS = (("exact", ""), ("acronyms", ""), ("acronyms", "dict_full.txt"))
"""Which differences of case do not matter, and the phrases that are found but not labelled."""
NUMBERS = ("precision", "recall", "f1")


def rows() -> list[dict[str, Any]]:
    """A row for each way to label and each type."""
    (corpus,), (folder,) = corpus_paths([CORPUS]), corpus_paths([DICTIONARIES])
    made = []
    for case, phrases in WAYS:
        with tempfile.TemporaryDirectory() as out:
            settings = LabelSettings.model_validate({"case": case})
            named = Path(folder, phrases) if phrases else None
            dictionary = Path(folder, "dict_core.txt")
            found = label(Path(corpus), dictionary, Path(out, "labels"), settings, phrases=named, workers=0)
        for type_, scores in found["per_type"].items():
            of_type = {key: scores[key] for key in NUMBERS}
            made.append({"case": case, "phrases": phrases or "-", "type": type_, **of_type})
    return made


def main() -> None:
    """Label, score, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "dictionary_labels")
    options = parser.parse_args()
    found = rows()
    record(
        "dictionary_labels",
        options.out,
        title="Labels from a dictionary",
        section="Labels from a dictionary",
        task="corpus label",
        conditions="The core dictionary of AutoNER on the training part of BC5CDR, beside the annotators' "
        "mentions, by exact span. papers/000 reports precision and recall 98.0 and 63.1 for chemicals, 98.3 "
        "and 46.7 for diseases, and does not say how it counts.",
        rows=measured(found, dict.fromkeys(NUMBERS, "%")),
    )
    if options.json:
        print(json.dumps({"rows": found}))


if __name__ == "__main__":
    call_main(main)
