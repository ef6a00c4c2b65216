"""NIL and confidence in linking: folds of ESAppMod, each mention asked with its own entity and without it.

    python -m benchmarks.nil_results --runs runs/linking            # all; goes on where it was cut off
    python -m benchmarks.nil_results --runs runs/linking --table    # trains and writes nothing

The folds, trainings and indexes are those of `benchmarks.linking_results`, whose runs are taken where they
are there. The calibration is fitted on training mentions that the recipe held out, with an index that does
not have them. Then each mention of the fold is asked of the index and, as a mention that is NIL, of the
index without its entity; the two are weighted to a share of NIL. "accuracy" is the operating point;
"balanced" is what it replaced: a logistic model of score and margin, with a threshold that weighs both
kinds of mistakes alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch import nn

from benchmarks.command import call_main
from benchmarks.figures import add_out, commits_of, keep_origin, measured, origin_of, precision_of, record
from benchmarks.linking_material import Material, load_material, remembering
from benchmarks.linking_results import Run, changes_of, recipe_of, train_fold
from benchmarks.results_page import table as tables
from rayner.data.mention_strings import MentionString
from rayner.metrics.nil import CANDIDATES, evidence
from rayner.metrics.reliability import reliability, risk_coverage
from rayner.retrieval.build import build_index
from rayner.retrieval.combiner import Weight, likeness
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.names import Found
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.standardizer.fitting import fit
from rayner.tasks.standardizer.strings import hold_out, with_mentions
from rayner.tasks.standardizer.task import StandardizerTask

CORPUS, FOLDS = "esappmod", 5
SHARES = (0.0, 0.1, 0.3)
ENCODERS = ("untrained", "trained")
SCORES = ("accuracy", "best", "regret", "ece", "ece_pooled", "aurc", "auc_own", "auc_strangers")
CONDITIONS = """Five folds as in linking_esappmod: a fifth of the mentions that equal no name and no other
mention, less the 15 % most like another name. Each is asked with its entity in the index and, as NIL, with
it taken out; both are weighted to the share of NIL. best: the accuracy of the best threshold in hindsight
on what the operating point cuts, fold by fold; regret: what the operating point lacks of it. ece: expected
calibration error of the probability that the first candidate is right, ten bins of equal weight, mean of
folds (ece_pooled: of all folds together). aurc: area under the risk-coverage curve. auc: under the ROC,
mentions in the index against the same without their entity (own) and against mentions of diseases
(strangers)."""


class Confidence(NamedTuple):
    """How sure an operating point is of N first candidates.

    `probability` that it is right; `cut`, what is compared with `threshold`: at or above it, the answer is an
    entity.
    """

    probability: np.ndarray
    cut: np.ndarray
    threshold: float


Way = Callable[[np.ndarray, float], Confidence]
"""From evidence [N, 3] and a share of NIL."""


def ask(task: Any, model: nn.Module, material: Material, fold: int) -> list[dict[str, Any]]:
    """The scores of a fold, one row for each index, operating point and share of NIL."""
    learned, test = material.folds[fold]
    held_out = hold_out(learned, material.entities, task.recipe.mentions.dev_fraction)
    strings = {mention.text for mention in held_out}
    kept = [mention for mention in learned if mention.text not in strings]
    strangers = material.nil["strangers"]
    rows = []
    encode = remembering(partial(task.encode, model), {})

    def index_of(mentions: Sequence[MentionString]) -> EntityIndex:
        entities = with_mentions(material.entities, mentions)
        return build_index(entities, encode, task.recipe.index, task.recipe.loss.learned_distance)

    for name, fitting, indexed in (("names", [], []), ("names and mentions", kept, learned)):
        index = index_of(fitting)
        fitted = fit(index, held_out, _encoded(held_out, encode))
        assert fitted.nil is not None
        ways: dict[str, Way] = {
            "balanced": _balanced(*_with_and_without(index, held_out, fitted.weight, encode)),
            "accuracy": lambda given, share, nil=fitted.nil: Confidence(
                nil.probability(given, share), nil.log_odds(given)[:, 1], nil.threshold("accuracy", share)
            ),
        }
        index = index_of(indexed)
        given, right, is_nil = _with_and_without(index, test, fitted.weight, encode)
        texts = [mention.text for mention in strangers]
        strange = index.search(texts, encode(texts), CANDIDATES, fitted.weight)
        for way, confidence in ways.items():
            for share in SHARES:
                others = confidence(_evidence(strange, fitted.weight), share).probability
                row = {"index": name, "by": way, "nil_share": share}
                row |= _scores(confidence(given, share), right, is_nil, share, others)
                rows.append(row)
    return rows


def _scores(
    given: Confidence, right: np.ndarray, is_nil: np.ndarray, share: float, strangers: np.ndarray
) -> dict[str, Any]:
    probability, cut, threshold = given
    weight = np.where(is_nil, share / is_nil.sum(), (1 - share) / (~is_nil).sum())
    accuracy = float(weight @ np.where(cut >= threshold, right, is_nil))
    # What linking each adds to the accuracy of linking none, the surest first.
    distinct, place = np.unique(-cut, return_inverse=True)
    gained = np.bincount(place, weight * (right.astype(float) - is_nil), len(distinct))
    best = float(weight @ is_nil + max(0.0, np.cumsum(gained).max()))
    known = probability[~is_nil]
    beside = np.append(known, strangers)
    return {
        "accuracy": accuracy,
        "best": best,
        # The sums differ in their last bit: no minus zero.
        "regret": round(best - accuracy, 9) + 0.0,
        "ece": reliability(probability, right, weight).error,
        "aurc": risk_coverage(probability, right, weight).area,
        "auc_own": float(roc_auc_score(~is_nil, probability)),
        "auc_strangers": float(roc_auc_score(np.arange(len(beside)) < len(known), beside)),
        "points": [probability.round(5).tolist(), right.tolist(), weight.tolist()],
    }


def _with_and_without(
    index: EntityIndex,
    mentions: Sequence[MentionString],
    weight: Weight,
    encode: Callable[[Sequence[str]], np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evidence [2N, 3], whether the first candidate is right, and whether the entity was taken out."""
    texts, gold, vectors = (
        [m.text for m in mentions],
        [m.entity_ids for m in mentions],
        _encoded(mentions, encode),
    )
    found = index.search(texts, vectors, CANDIDATES, weight)
    without = index.search(texts, vectors, CANDIDATES, weight, exclude=gold)
    right = [bool(of) and of[0].entity_id in ids for of, ids in zip(found, gold, strict=True)]
    is_nil = np.arange(2 * len(texts)) >= len(texts)
    return _evidence([*found, *without], weight), np.append(right, np.zeros(len(texts), bool)), is_nil


def _balanced(given: np.ndarray, right: np.ndarray, _: np.ndarray) -> Way:
    """As it was: one logistic model, and the threshold with most right kept plus most wrong refused."""
    model = LogisticRegression().fit(given[:, :2], right)

    def probability(given: np.ndarray) -> np.ndarray:
        return model.predict_proba(given[:, :2])[:, 1]

    found = probability(given)
    cuts = np.append(0.0, np.unique(found))
    kept, refused = ((found[which] >= cuts[:, None]).mean(1) for which in (right, ~right))
    threshold = float(cuts[np.argmax(kept - refused)])
    return lambda given, _: Confidence(probability(given), probability(given), threshold)


def _evidence(found: Sequence[Sequence[Found]], weight: Weight) -> np.ndarray:
    return evidence([likeness(of, weight) for of in found])


def _encoded(mentions: Sequence[MentionString], encode: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
    return encode([mention.text for mention in mentions])


def file_of(run: Run, encoder: str, runs: Path) -> Path:
    """A fold's scores by an encoder."""
    return run.out(runs) / f"nil_{encoder}.json"


def measure(run: Run, encoder: str, runs: Path, material: Material, changes: Sequence[str]) -> int:
    """Ask a fold, after its training where that is missing; the exit status of the training."""
    file = file_of(run, encoder, runs)
    if file.exists():
        return 0
    if encoder == "trained":
        if status := train_fold(run, runs, material, changes_of(run, runs, changes)):
            return status
        loaded = load_checkpoint(run.training(runs) / "best")
        task, model = loaded.task, loaded.model
    else:
        task = StandardizerTask(recipe_of(run, changes))
        model = task.build().eval()
    found = ask(task, model, material, run.fold)
    file.parent.mkdir(parents=True, exist_ok=True)
    keep_origin(file)
    file.write_text(json.dumps(found), encoding="utf-8")
    return 0


def rows(planned: Sequence[Run], encoders: Sequence[str], runs: Path) -> list[dict[str, Any]]:
    """One row for each index, encoder, operating point and share: the mean over folds and seeds."""
    table = []
    for encoder in encoders:
        finished = [run for run in planned if file_of(run, encoder, runs).exists()]
        of_folds = [json.loads(file_of(run, encoder, runs).read_text("utf-8")) for run in finished]
        made = [file_of(run, encoder, runs) for run in finished]
        made += [run.training(runs) for run in finished] if encoder == "trained" else []
        for same in zip(*of_folds, strict=True):
            table.append(_row(encoder, same) | {"commits": commits_of(made)})
    return table


def _row(encoder: str, same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    labels = {"index": same[0]["index"], "encoder": encoder, "by": same[0]["by"]}
    labels |= {"nil_share": same[0]["nil_share"], "folds": len(same)}
    found = {name: statistics.mean(of[name] for of in same) for name in SCORES if name in same[0]}
    points = zip(*(of["points"] for of in same), strict=True)
    probability, right, weight = (np.concatenate(part) for part in points)
    return {**labels, **found, "ece_pooled": reliability(probability, right, weight).error}


def main() -> None:
    """Ask what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/linking"))
    parser.add_argument("--encoders", nargs="+", choices=ENCODERS, default=list(ENCODERS))
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(FOLDS)), help="some, from 0")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], help="key=value changes of the recipe")
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--finished", action="store_true", help="write what is finished, train nothing")
    parser.add_argument("--json", action="store_true")
    add_out(parser, "nil_esappmod")
    options = parser.parse_args()
    runs = options.runs.resolve()
    planned = [Run(CORPUS, fold, seed) for seed in options.seeds for fold in options.folds]
    failed: list[Run] = []
    if not (options.table or options.finished):
        torch.set_num_threads(1)
        material = load_material(CORPUS, recipe_of(planned[0]))
        for encoder in options.encoders:
            with ThreadPoolExecutor(options.parallel if encoder == "trained" else 1) as pool:
                codes = pool.map(lambda run, e=encoder: measure(run, e, runs, material, options.set), planned)
                failed += [run for run, code in zip(planned, codes, strict=True) if code]
    table = rows(planned, options.encoders, runs)
    shown = measured(
        table,
        dict.fromkeys(SCORES, "%"),
        n=lambda row: row["folds"],
        headline="regret",
        where=lambda row: (row["by"], row["index"]) == ("accuracy", "names and mentions"),
    )
    if table and not options.table:
        finished = [
            file for e in options.encoders for run in planned if (file := file_of(run, e, runs)).exists()
        ]
        folds = {row["encoder"]: row["folds"] for row in table}
        record(
            "nil_results",
            options.out,
            origin_of(finished),
            title="Linking: NIL on ESAppMod",
            section="Linking",
            task="standardizer",
            conditions=CONDITIONS.replace("\n", " "),
            precision=precision_of(run.training(runs) for run in planned),
            seeds=tuple(options.seeds),
            uncertainty="Means of folds; n is folds x seeds.",
            rows=shown,
            notes=tuple(
                f"The {encoder} encoder was asked {count} of {len(planned)} folds, for time."
                for encoder, count in folds.items()
                if count < len(planned)
            ),
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))
    for run in failed:
        print(f"failed: see {run.out(runs) / 'train.log'}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    call_main(main)
