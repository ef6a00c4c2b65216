"""Linking of mentions in their documents: abbreviations expanded, composite mentions split.

    python -m benchmarks.linking_in_documents --by both --runs runs/linking_in_documents

Goes on where it was cut off.

Folds of the training documents of NCBI-disease and BC5CDR (diseases), linked to MEDIC with an index of the
names and of the mentions of the other folds. A mention is unseen if its string is none of these, ignoring
case. "top 1": all that is answered is right, so that of two right entities one is enough; "all": the answer
is exactly the entities that there are. Gains are over strings as they are written.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from benchmarks.linking_material import remembering
from benchmarks.results_page import table as tables
from rayner.config.recipe_files import corpus_paths
from rayner.data.abbreviations import strings_of_mentions
from rayner.data.composites import readings
from rayner.data.entity_ids import entity_of_id
from rayner.data.mention_strings import MentionString, ids_of
from rayner.data.mention_strings import fold as folded
from rayner.data.readers import read_corpus
from rayner.data.schema import Entity
from rayner.retrieval.build import Encode, build_index
from rayner.retrieval.combiner import Weight, likeness
from rayner.retrieval.entity_index import EntityIndex
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.fitting import fit
from rayner.tasks.standardizer.strings import hold_out, load_entity_strings, with_mentions
from rayner.tasks.standardizer.task import StandardizerTask

FOLDS = 5
CORPORA = {
    "ncbi": ("$RAYNER_DATA/ncbi-disease-pubtator/NCBItrainset_corpus.txt", ()),
    "bc5cdr": ("$RAYNER_DATA/bc5cdr-pubtator/CDR_TrainingSet.PubTator.txt", ("Disease",)),
}
KNOWLEDGE_BASE = "$RAYNER_DATA/medic-dictionary/medic_06Jul2012.txt"
BASE = "as written"
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Asked:
    """A mention as it is written and as its document explains it, and its right entities."""

    document: int
    written: str
    explained: str
    entity_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """How mentions of training documents are indexed, and how those of others are asked."""

    indexed: Literal["written", "explained"] = "written"
    asked: Literal["written", "explained", "either"] = "written"
    composites: bool = False


WAYS = {
    BASE: Way(),
    "asked by the long form": Way(asked="explained"),
    "asked by both": Way(asked="either"),
    "indexed and asked by the long form": Way("explained", "explained"),
    "indexed by the long form, asked by both": Way("explained", "either"),
    "composites": Way(composites=True),
    "long form and composites": Way("explained", "explained", composites=True),
}


def questions(corpus: str) -> list[Asked]:
    """The mentions of the training documents of a corpus that have an entity."""
    path, types = CORPORA[corpus]
    found = []
    for number, document in enumerate(read_corpus(corpus_paths([path])[0]).documents):
        explained = strings_of_mentions(document, abbreviations=True)
        for mention, written, long in zip(
            document.mentions, strings_of_mentions(document), explained, strict=True
        ):
            if mention.entity_id and (not types or mention.type in types):
                found.append(Asked(number, written, long, ids_of(mention.entity_id)))
    return found


class Linker:
    """What is found for strings, each searched once."""

    def __init__(self, index: EntityIndex, encode: Encode, weight: Weight) -> None:
        self.index, self.encode, self.weight = index, encode, weight
        self._found: dict[str, tuple[str, float]] = {}

    def search(self, texts: Sequence[str]) -> None:
        """Look strings up, all at once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._found]
        for text, of in zip(new, self.index.search(new, self.encode(new), 1, self.weight), strict=True):
            self._found[text] = (of[0].entity_id, likeness(of[:1], self.weight)[0])

    def answer(self, mention: Asked, way: Way) -> tuple[str, ...]:
        """The entities of a mention."""
        strings = (
            [getattr(mention, way.asked)] if way.asked != "either" else [mention.written, mention.explained]
        )
        choices = [(text,) for text in strings]
        if way.composites:
            choices += [reading for text in strings for reading in readings(text)]
        # The first of equals: a mention is split only where that is better.
        best = max(choices, key=lambda parts: min(self._found[part][1] for part in parts))
        return tuple(dict.fromkeys(self._found[part][0] for part in best))


def split(
    fold: int, asked: Sequence[Asked], entities: Sequence[Entity]
) -> tuple[list[Asked], list[Asked], list[bool]]:
    """The mentions of a fold's documents and of all others, and of each of the fold whether it is unseen."""
    documents = max(one.document for one in asked) + 1
    fold_of = np.random.default_rng(0).permutation(documents) % FOLDS
    test = [one for one in asked if fold_of[one.document] == fold]
    learned = [one for one in asked if fold_of[one.document] != fold]
    seen = {folded(name) for entity in entities for name in (entity.name, *entity.aliases)}
    seen |= {folded(one.written) for one in learned}
    return test, learned, [folded(one.written) not in seen for one in test]


def ask(
    fold: int, asked: Sequence[Asked], entities: Sequence[Entity], task: Any, encode: Any
) -> dict[str, list]:
    """Way -> for each mention of a fold: is all that is answered right, and (`WAY: all`) all there is?"""
    test, learned, unseen = split(fold, asked, entities)
    entity_of = entity_of_id(entities)
    strings = [text for one in test for text in (one.written, one.explained)]
    strings += [part for text in strings for reading in readings(text) for part in reading]
    result: dict[str, list] = {"unseen": unseen}
    result["document"] = [one.document for one in test]
    result["composite"] = [len(one.entity_ids) > 1 for one in test]
    result["explained"] = [one.written != one.explained for one in test]
    linkers = {}
    for kind in ("written", "explained"):
        for composites in (False, True):
            mentions = [
                MentionString(getattr(one, kind), ids)
                for one in learned
                if (ids := tuple(dict.fromkeys(filter(None, map(entity_of, one.entity_ids)))))
                and not (composites and len(ids) > 1 and readings(getattr(one, kind)))
            ]
            linkers[kind, composites] = linker_of(mentions, entities, task, encode)
            linkers[kind, composites].search(strings)
    for name, way in WAYS.items():
        linker, right, whole = linkers[way.indexed, way.composites], [], []
        for one in test:
            answer = linker.answer(one, way)
            gold = {entity_of(id_) or id_ for id_ in one.entity_ids}
            right.append(set(answer) <= gold)
            whole.append(set(answer) == gold)
        result[name], result[f"{name}: all"] = right, whole
    return result


def linker_of(
    mentions: Sequence[MentionString], entities: Sequence[Entity], task: Any, encode: Any
) -> Linker:
    """With all strings in the index, both sides combined as a tenth of them says; by n-grams without
    `encode`."""
    if encode is None:
        with_all = with_mentions(entities, mentions)
        return Linker(build_index(with_all, _nothing, task.recipe.index, "cosine"), _nothing, math.inf)
    held_out = hold_out(mentions, entities, 0.1)
    strings = {mention.text.casefold() for mention in held_out}
    kept = [mention for mention in mentions if mention.text.casefold() not in strings]

    def index_of(mentions: Sequence[MentionString]) -> EntityIndex:
        with_them = with_mentions(entities, mentions)
        return build_index(with_them, encode, task.recipe.index, task.recipe.loss.learned_distance)

    fitted = fit(index_of(kept), held_out, encode([mention.text for mention in held_out]))
    return Linker(index_of(mentions), encode, fitted.weight)


def _nothing(texts: Sequence[str]) -> np.ndarray:
    return np.ones((len(texts), 1), np.float32)


def untrained(task: StandardizerTask, entities: Sequence[Entity], file: Path) -> Encode:
    """The untrained encoder; the vectors of all names are kept in a file for the next call."""
    model = task.build().eval()
    if not file.exists():
        names = list({name: None for entity in entities for name in (entity.name, *entity.aliases)})
        np.savez(file, names=np.array(names), vectors=task.encode(model, names))
    with np.load(file) as found:
        known = dict(zip(found["names"].tolist(), found["vectors"], strict=True))
    return remembering(partial(task.encode, model), known)


def rows(of_folds: Sequence[Mapping[str, list]]) -> list[dict[str, Any]]:
    """A row for each group of mentions and way."""
    columns = {name: np.concatenate([of[name] for of in of_folds]) for name in of_folds[0]}
    unseen = columns["unseen"].astype(bool)
    groups = {
        "all": np.ones(len(unseen), bool),
        "unseen": unseen,
        "unseen, explained": unseen & columns["explained"],
        "several entities": columns["composite"].astype(bool),
    }
    table = []
    for group, mask in groups.items():
        for name in WAYS:
            row: dict[str, Any] = {"mentions": group, "count": int(mask.sum()), "strings": name}
            for key, suffix in (("top_1", ""), ("all", ": all")):
                new, base = columns[f"{name}{suffix}"][mask], columns[f"{BASE}{suffix}"][mask]
                row[key] = float(new.mean())
                if name != BASE:
                    gain = new.astype(float) - base
                    row[f"{key}_gain"] = float(gain.mean())
                    row[f"{key}_gain_interval"] = interval(gain, columns["document"][mask])
            table.append(row)
    return table


def interval(gain: np.ndarray, documents: np.ndarray) -> tuple[float, float]:
    """95 % of the mean gain of a mention, documents drawn with replacement."""
    _, place = np.unique(documents, return_inverse=True)
    sums, counts = np.bincount(place, gain), np.bincount(place)
    drawn = np.random.default_rng(0).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), _RESAMPLES)
    low, high = np.quantile(drawn @ sums / np.maximum(drawn @ counts, 1), (0.025, 0.975))
    return float(low), float(high)


def main() -> None:
    """Ask what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(FOLDS)))
    parser.add_argument("--by", choices=("n-grams", "both"), default="both")
    parser.add_argument("--runs", type=Path, default=Path("runs/linking_in_documents"))
    add_out(parser, "linking_in_documents")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.runs.mkdir(parents=True, exist_ok=True)
    recipe = parse_recipe(
        {"task": "standardizer", "knowledge_base": {"paths": [KNOWLEDGE_BASE]}}, "linking_in_documents"
    )
    task, entities = StandardizerTask(recipe), load_entity_strings(recipe).indexed
    encode = untrained(task, entities, options.runs / "vectors.npz") if options.by == "both" else None
    table: list[dict[str, Any]] = []
    for corpus in options.only:
        files = {fold: options.runs / f"{corpus}_{options.by}_{fold}.json" for fold in options.folds}
        asked = questions(corpus)
        for fold in (fold for fold, file in files.items() if not file.exists()):
            found = ask(fold, asked, entities, task, encode)
            values = {name: np.array(column).tolist() for name, column in found.items()}
            files[fold].write_text(json.dumps(values), encoding="utf-8")
        of_corpus = rows([json.loads(file.read_text("utf-8")) for file in files.values()])
        table += [{"corpus": corpus, **row} for row in of_corpus]
    shown = measured(table, dict.fromkeys(("top_1", "top_1_gain", "all", "all_gain"), "%"))
    record(
        "linking_in_documents",
        options.out,
        title="Abbreviations and lists of entities",
        section="Linking",
        task="standardizer",
        conditions=" ".join(str(__doc__).split("\n\n")[3].split())
        + f" {len(options.folds)} of {FOLDS} folds; "
        + ("character n-grams alone." if encode is None else "the untrained encoder and character n-grams."),
        uncertainty="Intervals of gains are of 95 %, over documents, paired mention by mention.",
        rows=shown,
    )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
