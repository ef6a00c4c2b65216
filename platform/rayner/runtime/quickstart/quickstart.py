"""A first run, from a corpus and a knowledge base to annotated texts, on what the package brings along."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import rayner
from rayner.counted import counted
from rayner.errors import InputError, RecipeError
from rayner.files.uris import uri_of
from rayner.runtime.quickstart.quickstart_files import (
    read_fine_types,
    write_mentions,
    write_texts,
    write_typed,
    write_typed_names,
)
from rayner.runtime.run_folder import check_out

EXAMPLES = Path(rayner.__file__).parent / "examples" / "software"
RECIPES = {"recognizer": "recipe.yaml", "typer": "typer.yaml", "standardizer": "standardizer.yaml"}
PARTS = ("train", "dev", "test")
LINKED = ("Software", "Language", "Organization")
"""The types that the example knowledge base has entities of."""
UNLINKED = ("Version", "Component")

log = logging.getLogger(__name__)

# None of them, and few of their names, are in the example corpus. Names are misspelled, or have no entity.
SENTENCES = (
    "After the upgrade to Debian 13, nginx refused to start because OpenSSL could not read its keys.",
    "Priya from Red Hat moved the billing service from MySQL to PostgreSQL and rewrote its parser in Rust.",
    "Mozilla fixed the crash in Firefox that Kenji Watanabe had reported for Windows 11.",
    "The Kubernetis cluster lost its RabitMQ last night, and Mattermost has been silent since then.",
)


def quickstart(out: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """From the example corpus and knowledge base to annotated texts, with types, fine types and entities.

    Converts and checks the corpus and trains a recognizer on it with two workers; trains a typer on the fine
    types of its linked mentions and of the names of the knowledge base; converts the knowledge base, trains a
    standardizer and builds an index. Scores each on the test part. Then annotates the texts of the test part
    with the pipeline of all three.

    Args:
        out: the folder for what is converted, the runs and the index. A run that was cut short goes on; a
            finished one is scored again.
        overrides: `key=value` changes of what the example recipes have, such as `training.epochs=1`.

    Returns:
        `checkpoint, typer, standardizer, index, pipeline` (paths), `steps` of all trainings, `seconds` of
        everything, `metrics`, `typing` and `linking` of the test part, `annotated` (what `annotate` returns,
        and `out`), and `documents`: rows `text, mentions` of sentences that are in no part of the corpus.

    Raises:
        InputError: before any work, an override that the recipes do not take, or an `out` that is a file or a
            URI.
    """
    start = time.perf_counter()
    if (uri := uri_of(out)) is not None:
        what = "the quick start makes several runs in one folder, which it does not put in place at a URI"
        raise InputError(uri, what, "name a folder of this machine")
    check_out(out)
    recipes = _recipes(out, overrides)
    _write_parts(out)
    recognizer, metrics = _recognizer(out, recipes["recognizer"])
    typer, typing = _typer(out, recipes["typer"])
    standardizer, index, linking = _standardizer(out, recipes["standardizer"])
    pipeline = _write_pipeline(out, recognizer, typer, standardizer, index)
    annotated = _annotated(out, pipeline)
    return {
        "checkpoint": recognizer["checkpoint"],
        "typer": typer["checkpoint"],
        "standardizer": standardizer["checkpoint"],
        "index": index["index"],
        "pipeline": str(pipeline),
        "steps": recognizer["steps"] + typer["steps"] + standardizer["steps"],
        "seconds": round(time.perf_counter() - start, 1),
        "metrics": metrics,
        "typing": typing,
        "linking": linking,
        "annotated": annotated,
        "documents": [
            {
                "text": document.text,
                "mentions": [asdict(mention) for mention in document.mentions],
            }
            for document in rayner.load(pipeline).predict(SENTENCES)
        ],
    }


def _recipes(out: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Those of all systems, over what will be made in `out`."""
    from rayner.tasks.registry import load_recipe

    def made(key: str, places: Callable[[str], Path], *further: Path) -> list[str]:
        train = [str(path) for path in (places("train"), *further)]
        return [f"{key}.train={json.dumps(train)}", f"{key}.dev={json.dumps([str(places('dev'))])}"]

    base = f"knowledge_base.paths={json.dumps([str(_entities(out))])}"
    changes = {
        "recognizer": made("corpus", partial(_corpus, out)),
        "typer": made("corpus", partial(_typed, out), _typed(out, "names")),
        "standardizer": [*made("mentions", partial(_mentions, out)), base],
    }
    loaded: dict[str, Any] = {}
    for name, own in changes.items():
        try:
            loaded[name] = load_recipe(EXAMPLES / RECIPES[name], [*own, *overrides])
        except RecipeError as error:
            # The recipes before it took the key: it is not misspelt.
            hint = "set keys that all three recipes have, such as training.epochs" if loaded else error.hint
            raise RecipeError(error.where, f"{error.what}, in the recipe of the {name}", hint) from None
    return loaded


def _corpus(out: Path, part: str) -> Path:
    return out / "corpus" / part


def _typed(out: Path, part: str) -> Path:
    return out / "typed" / f"{part}.jsonl"


def _mentions(out: Path, part: str) -> Path:
    return out / "mentions" / f"{part}.jsonl"


def _entities(out: Path) -> Path:
    return out / "knowledge_base.parquet"


def _write_parts(out: Path) -> None:
    """Each part of the corpus as each system reads it, and the texts of the test part."""
    from rayner.runtime.corpora.convert import convert

    fine_types = read_fine_types(EXAMPLES / "fine_types.yaml")
    for part in PARTS:
        given = EXAMPLES / f"{part}.jsonl"
        if part != "test":
            counts = convert([given], _corpus(out, part))
            documents, mentions = (counted(counts[f"{noun}s"], noun) for noun in ("document", "mention"))
            log.info("%s: %s, %s", part, documents, mentions)
        write_mentions(given, LINKED, _mentions(out, part))
        # Scores are of the linked mentions; to learn the others keeps a version from being some software.
        write_typed(given, fine_types, _typed(out, part), UNLINKED if part == "train" else ())
    write_typed_names(EXAMPLES / "knowledge_base.jsonl", fine_types, _typed(out, "names"))
    write_texts(EXAMPLES / "test.jsonl", out / "texts")


def _recognizer(out: Path, recipe: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of the training, and the scores of the test part."""
    from rayner.runtime.corpora.check import check
    from rayner.runtime.evaluation.evaluate import evaluate
    from rayner.runtime.training.train import train

    found = check([], recipe)
    log.info("check: %s, %s", counted(found["errors"], "error"), counted(found["warnings"], "warning"))
    trained = train(recipe, out / "run", fresh=False)
    return trained, evaluate(Path(trained["checkpoint"]), EXAMPLES / "test.jsonl")


def _typer(out: Path, recipe: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result of the training, and the scores of the linked mentions of the test part."""
    from rayner.runtime.evaluation.evaluate import evaluate
    from rayner.runtime.training.train import train

    # Its steps, and those of the standardizer, are too short to be worth two workers.
    trained = train(recipe, out / "typer", fresh=False, workers=0)
    return trained, evaluate(Path(trained["checkpoint"]), _typed(out, "test"))


def _standardizer(out: Path, recipe: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The result of the training, the index, and the scores of the test part."""
    from rayner.runtime.evaluation.evaluate import evaluate
    from rayner.runtime.linking.indexes import build, list_index
    from rayner.runtime.linking.knowledge_bases import convert
    from rayner.runtime.training.train import train

    entities = _entities(out)
    counts = convert([EXAMPLES / "knowledge_base.jsonl"], entities)
    log.info("knowledge base: %d entities, %d names", counts["entities"], counts["names"])
    trained = train(recipe, out / "standardizer", fresh=False, workers=0)
    checkpoint, index = Path(trained["checkpoint"]), out / "index"
    # How people write a name in the training part is an alias of its entity from then on.
    build(checkpoint, [entities], index, mentions=[_mentions(out, "train")])
    scores = evaluate(checkpoint, _mentions(out, "test"), options={"index": index})
    return trained, list_index(index), scores


def _write_pipeline(
    out: Path,
    recognizer: Mapping[str, Any],
    typer: Mapping[str, Any],
    standardizer: Mapping[str, Any],
    index: Mapping[str, Any],
) -> Path:
    """The file of all stages, with paths that count from its folder."""
    stages = [
        {"checkpoint": os.path.relpath(recognizer["checkpoint"], out)},
        {"checkpoint": os.path.relpath(typer["checkpoint"], out)},
        {
            "checkpoint": os.path.relpath(standardizer["checkpoint"], out),
            "index": os.path.relpath(index["index"], out),
            "types": list(LINKED),
        },
    ]
    path = out / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"stages": stages}, sort_keys=False), encoding="utf-8")
    return path


def _annotated(out: Path, pipeline: Path) -> dict[str, Any]:
    """The texts of the test part, annotated in this process: they are few, and the index is a new one."""
    from rayner.runtime.annotation.annotate import annotate

    annotated = out / "annotated"
    return {"out": str(annotated), **annotate(pipeline, [out / "texts"], annotated, workers=0, fresh=True)}
