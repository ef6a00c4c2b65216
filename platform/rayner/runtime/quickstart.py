"""A first run, from a corpus to mentions in new sentences, on what the package brings along."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

import rayner
from rayner.errors import InputError
from rayner.files.uris import uri_of
from rayner.runtime.run_folder import check_out

EXAMPLES = Path(rayner.__file__).parent / "examples" / "software"
WORKERS = 2
LINKED = ("Software", "Language", "Organization")
"""The types that the example knowledge base has entities of."""

log = logging.getLogger(__name__)

# None of them, and few of their names, are in the example corpus.
SENTENCES = (
    "After the upgrade to Debian 13, nginx refused to start because OpenSSL could not read its keys.",
    "Priya from Red Hat moved the billing service from MySQL to PostgreSQL and rewrote its parser in Rust.",
    "Mozilla fixed the crash in Firefox that Kenji Watanabe had reported for Windows 11.",
)


def quickstart(out: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """From the example corpus and knowledge base to mentions in new sentences, each with its entity.

    Converts and checks the corpus, trains a recognizer on it with two workers and scores the test part; then
    converts the knowledge base, trains a standardizer, builds an index and scores that.

    Args:
        out: the folder for what is converted, the runs and the index. A run that was cut short goes on; a
            finished one is scored again.
        overrides: `key=value` changes of what both example recipes have, such as `training.epochs=1`.

    Returns:
        `checkpoint, standardizer, index, pipeline` (paths), `steps` of both trainings, `seconds` of
        everything, `metrics` and `linking` of the test part, and `documents`: rows `text, mentions` of
        sentences that are in no part of the corpus; a mention's `entity` is the name of its entity.

    Raises:
        InputError: before any work, an override that the recipes do not take, or an `out` that is a file or a
            URI.
    """
    start = time.perf_counter()
    if (uri := uri_of(out)) is not None:
        what = "the quick start makes several runs in one folder, which it does not put in place at a URI"
        raise InputError(uri, what, "name a folder of this machine")
    check_out(out)
    corpus = {name: out / "corpus" / name for name in ("train", "dev")}
    entities = out / "knowledge_base.parquet"
    recipes = _recipes(corpus, entities, overrides)
    _convert_corpus(corpus)
    recognizer, metrics = _recognizer(out, recipes[0])
    standardizer, index, linking = _standardizer(out, entities, recipes[1])
    pipeline = _write_pipeline(out, recognizer, standardizer, index)
    names = {entity["entity_id"]: entity["name"] for entity in index["listed"]}
    return {
        "checkpoint": recognizer["checkpoint"],
        "standardizer": standardizer["checkpoint"],
        "index": index["index"],
        "pipeline": str(pipeline),
        "steps": recognizer["steps"] + standardizer["steps"],
        "seconds": round(time.perf_counter() - start, 1),
        "metrics": metrics,
        "linking": linking,
        "documents": [
            {
                "text": document.text,
                "mentions": [asdict(m) | {"entity": names.get(m.entity_id or "")} for m in document.mentions],
            }
            for document in rayner.load(pipeline).predict(SENTENCES)
        ],
    }


def _recipes(corpus: Mapping[str, Path], entities: Path, overrides: Sequence[str]) -> tuple[Any, Any]:
    """Those of the recognizer and of the standardizer, over what will be converted."""
    from rayner.tasks.registry import load_recipe

    def converted(key: str) -> list[str]:
        return [f"{key}.{name}={json.dumps([str(folder)])}" for name, folder in corpus.items()]

    base = f"knowledge_base.paths={json.dumps([str(entities)])}"
    return (
        load_recipe(EXAMPLES / "recipe.yaml", [*converted("corpus"), *overrides]),
        load_recipe(EXAMPLES / "standardizer.yaml", [*converted("mentions"), base, *overrides]),
    )


def _convert_corpus(parts: Mapping[str, Path]) -> None:
    from rayner.runtime.corpora.convert import convert

    for name, folder in parts.items():
        counts = convert([EXAMPLES / f"{name}.jsonl"], folder)
        log.info("%s: %d documents, %d mentions", name, counts["documents"], counts["mentions"])


def _recognizer(out: Path, recipe: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of the training, and the scores of the test part."""
    from rayner.runtime.corpora.convert import check
    from rayner.runtime.evaluation.evaluate import evaluate
    from rayner.runtime.training.train import train

    found = check([], recipe)
    log.info("check: %d errors, %d warnings", found["errors"], found["warnings"])
    trained = train(recipe, out / "run", fresh=False, workers=WORKERS)
    return trained, evaluate(Path(trained["checkpoint"]), EXAMPLES / "test.jsonl")


def _standardizer(
    out: Path, entities: Path, recipe: Any
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The result of the training, the index, and the scores of the test part."""
    from rayner.runtime.evaluation.evaluate import evaluate
    from rayner.runtime.linking.indexes import build, list_index
    from rayner.runtime.linking.knowledge_bases import convert
    from rayner.runtime.training.train import train

    counts = convert([EXAMPLES / "knowledge_base.jsonl"], entities)
    log.info("knowledge base: %d entities, %d names", counts["entities"], counts["names"])
    # Its steps are too short to be worth two workers.
    trained = train(recipe, out / "standardizer", fresh=False, workers=0)
    checkpoint, index = Path(trained["checkpoint"]), out / "index"
    build(checkpoint, [entities], index)
    scores = evaluate(checkpoint, EXAMPLES / "test.jsonl", types=LINKED, options={"index": index})
    return trained, list_index(index), scores


def _write_pipeline(
    out: Path, recognizer: Mapping[str, Any], standardizer: Mapping[str, Any], index: Mapping[str, Any]
) -> Path:
    """The file of both stages, with paths that count from its folder."""
    stages = [
        {"checkpoint": os.path.relpath(recognizer["checkpoint"], out)},
        {
            "checkpoint": os.path.relpath(standardizer["checkpoint"], out),
            "index": os.path.relpath(index["index"], out),
            "types": list(LINKED),
        },
    ]
    path = out / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"stages": stages}, sort_keys=False), encoding="utf-8")
    return path
