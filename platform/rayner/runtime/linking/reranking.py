"""What `rayner kb candidates` and `rayner kb rerank` do: what a re-ranker learns from, and giving one to a
standardizer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rayner.config import StandardizerRecipe
from rayner.config.base import AskedPrecision
from rayner.config.recipe_files import corpus_paths
from rayner.errors import InputError
from rayner.files.fetching import is_there, local, names_in
from rayner.files.folders import is_left_over, replace_folder
from rayner.files.locks import LOCK, locked
from rayner.files.run_checkpoints import checkpoint_of
from rayner.files.uris import expanded, uri_of
from rayner.files.working import check_no_file, check_no_folder, worked_on, write_lines
from rayner.models.precision_choice import choose
from rayner.runtime.linking.loading import load_standardizer
from rayner.runtime.run_folder import check_writable, comparable
from rayner.supervision.context_rows import row_to_json
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.checkpoint_files import MANIFEST
from rayner.tasks.contexts.rankers import check_ranker
from rayner.tasks.predict import predict
from rayner.tasks.stages import checkpoint_in
from rayner.tasks.standardizer.candidate_rows import candidate_rows
from rayner.tasks.standardizer.reranker import CANDIDATES, FEWEST_CANDIDATES, RERANKER
from rayner.tasks.standardizer.strings import load_entity_strings

BEST = "best"
DOING = "adds a re-ranker in this folder"
COMPARED = ("top1", "top3", "top5", "mrr", "nil_precision", "nil_recall", "nil_auc")


def write_candidates(
    checkpoint: Path, out: Path, *, candidates: int = CANDIDATES, mentions_only: bool = False
) -> dict[str, Any]:
    """Write the pairs that a re-ranker learns from: what the standardizer learned beside its candidates.

    Args:
        checkpoint: of a standardizer; the files of its recipe are read.
        out: a JSONL file of pairs, as a ranker's recipe names them.
        candidates: pairs of a mention, at most.
        mentions_only: whether the knowledge base's own names and aliases are looked up only where a mention
            of the recipe's files is written so.

    Returns:
        `rows, relevant, mentions, with_sentence, not_found` (mentions of which no entity was among the
        candidates), `out`, `seconds`.

    Raises:
        CheckpointError: no checkpoint of a standardizer.
        InputError: files of the recipe that cannot be read, or nothing to learn from; an `out` that is one
            of these files.
    """
    begin = time.perf_counter()
    check_no_folder(out)
    task, model = load_standardizer(checkpoint)
    recipe = task.recipe
    _check_out(out, recipe)
    strings = load_entity_strings(recipe, sentences=True)
    counts = dict.fromkeys(("rows", "relevant", "mentions", "with_sentence", "not_found"), 0)
    asked = candidate_rows(
        recipe, strings, lambda t: task.encode(model, t), task.fitted.weight, candidates, mentions_only
    )

    def lines() -> Iterator[str]:
        for query in asked:
            counts["mentions"] += 1
            counts["with_sentence"] += query.with_sentence
            counts["not_found"] += not query.found
            counts["rows"] += len(query.rows)
            counts["relevant"] += sum(row.relevant for row in query.rows)
            yield from map(row_to_json, query.rows)
        if not counts["rows"]:
            what, hint = "no entity has an alias or a mention to learn from", "name mentions.train"
            if mentions_only:
                what, hint = (
                    "has no mention to learn from",
                    "train it with mentions.train, or take aliases, too",
                )
            raise InputError(str(checkpoint), what, hint)

    write_lines(out, lines())
    return {**counts, "out": uri_of(out) or str(out), "seconds": round(time.perf_counter() - begin, 1)}


def add_reranker(
    checkpoint: Path,
    ranker: Path,
    out: Path,
    *,
    candidates: int = CANDIDATES,
    precision: AskedPrecision = None,
) -> dict[str, Any]:
    """Write a checkpoint of a standardizer whose first candidates a ranker reads again.

    How its scores count, and NIL, are fitted on the held-out mentions of the standardizer's recipe. The new
    checkpoint answers from the same indexes.

    Args:
        out: a folder; the checkpoint is its `best`.
        candidates: how many of each mention are read.
        precision: what the ranker computes in while its scores are fitted; by default as the device says.

    Returns:
        `retrieval` and `ranker`, the weights of both; `before` and `after`, metrics of the held-out mentions,
        each ranked by what was fitted without its string (NIL is judged by all of them); `out`, `seconds`.

    Raises:
        CheckpointError: no checkpoint of a standardizer or of a ranker, or a ranker that gives no numbers.
        InputError: files of the recipe that cannot be read, too few held-out mentions, too few candidates, or
            an `out` that holds something else, or a device that lacks the precision.
    """
    begin = time.perf_counter()
    if candidates < FEWEST_CANDIDATES:
        what = f"is {candidates}, and {FEWEST_CANDIDATES} are scored in evaluations"
        raise InputError("--candidates", what, f"name {FEWEST_CANDIDATES} or more")
    _check_place(out)
    folder = local(checkpoint_of(checkpoint_in(ranker, "contexts")))
    check_ranker(folder)
    if not (folder / MANIFEST).exists():
        what = "is a model of transformers, which ranks contexts alone"
        raise InputError(str(folder), what, "train a ranker on what rayner kb candidates writes")
    with (
        worked_on(out, DOING, fresh=True) as (place, _),
        locked(place / LOCK, DOING) if uri_of(out) is None else nullcontext(),
    ):
        # It may have become something else while the ranker was fetched.
        _check_place(place)
        # What is saved must not be rounded.
        task, model = load_standardizer(checkpoint, precision="float32")
        task.precision = choose(precision, model).precision
        task.strings = load_entity_strings(task.recipe, sentences=True)
        dev = task.strings.dev
        if not any(mention.entity_ids for mention in dev):
            what = "has no held-out mention with an entity to fit it on"
            hint = "train the standardizer with mentions.dev, or a mentions.dev_fraction"
            raise InputError(str(checkpoint), what, hint)
        task.fit(model, dev)
        scorer = task.scorer(model)
        before = _metrics(scorer, dev)
        task.fit_reranker(model, scorer.index, folder, candidates)
        after = _metrics(task.scorer(model), dev)
        replace_folder(place / BEST, lambda partial: save_checkpoint(partial, task, model, after))
    weights = task.fitted.reranker
    assert weights is not None
    return {
        "held_out": len(dev),
        "retrieval": round(weights.retrieval, 4),
        "ranker": round(weights.ranker, 4),
        "before": {name: before.get(name) for name in COMPARED},
        "after": {name: after.get(name) for name in COMPARED},
        "out": uri_of(out) or str(out),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def _check_place(out: Path) -> None:
    """Refuse a folder, or a URI, that holds anything but what this command wrote before."""
    if (uri := uri_of(out)) is None:
        check_writable(out)
    else:
        check_no_file(uri)
    names = {name for name in names_in(out) if name != LOCK and not is_left_over(name)}
    if MANIFEST in names:
        what = "is a checkpoint"
    elif BEST in names and RERANKER not in names_in(out / BEST):
        what = "holds a checkpoint without a re-ranker"
    elif names and BEST not in names:
        what = f"holds {min(names)!r} and no checkpoint with a re-ranker"
    else:
        return
    raise InputError(uri or str(out), what, "name another folder")


def _check_out(out: Path, recipe: StandardizerRecipe) -> None:
    read = {"knowledge_base.paths": recipe.knowledge_base.paths}
    read |= {f"mentions.{key}": getattr(recipe.mentions, key) for key in ("train", "dev", "negatives")}
    written = comparable(out)
    for key, paths in read.items():
        # What lacks a variable, or is not there, is told of.
        corpus_paths(paths, key)
        for path in (comparable(expanded(named)) for named in paths):
            if written == path or (written.is_relative_to(path) and is_there(out)):
                what = f"would overwrite what the checkpoint's recipe reads as {key}"
                raise InputError(f"--out {out}", what, "name another file")


def _metrics(scorer: Any, dev: Any) -> dict[str, Any]:
    return scorer.evaluate(list(predict(scorer, dev)), dev)
