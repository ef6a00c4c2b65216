"""How well coreference resolvers find the gold chains of held-out documents of LitBank and GUM.

python -m benchmarks.resolvers --resolver rules --resolver ranking:runs/coreference/best

Each resolver alone, and the links on which each two agree.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from benchmarks.command import call_main
from benchmarks.figures import ROOT, add_out, measured, record
from rayner.config.recipe_files import corpus_paths
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.metrics.coreference import score_chains
from rayner.supervision.agreement import Agreed, heads_by_rule, resolve
from rayner.supervision.resolvers.base import Chains, Resolver
from rayner.tasks.registry import load_recipe
from rayner.tasks.resolvers import resolvers

RECIPE = ROOT / "jobs" / "recipes" / "coreference_litbank_gum.yaml"
CORPORA = {"LitBank": "litbank", "GUM": "gum-coref"}
CONDITIONS = (
    "{LitBank} documents of LitBank and {GUM} of GUM (its development part) that the model did not learn "
    "from, with the words and sentences of the corpora. MUC, B-cubed, CEAF-e and LEA by coreference-eval "
    "0.0.2, without mentions that corefer with no other; pronouns and others: B-cubed of these mentions "
    "alone. Mentions are the same if their spans are, or if their heads by rule are. Of two resolvers the "
    "links stay that both have; the agreement is their share of the links that one has. Resolvers of "
    "other packages were not run: their weights are not at hand."
)
PARTS = ("pronouns", "others")
SCORES = ("conll_f1", "muc_f1", "b_cubed_f1", "ceaf_e_f1", "lea_f1", "lea_precision", "lea_recall")
UNITS = {
    **dict.fromkeys(SCORES, "%"),
    **{f"{part}_{rate}": "%" for part in PARTS for rate in ("precision", "recall")},
    **dict.fromkeys(("agreement", "agreement_with_pronouns"), "%"),
    "words_per_second": "words/s",
}


class Remembered:
    """A resolver that answers once for each document."""

    def __init__(self, resolver: Resolver) -> None:
        self.name, self.version = resolver.name, resolver.version
        self.seconds = 0.0
        self._resolver = resolver
        self._found: dict[str, Chains] = {}

    def __call__(self, document: Document) -> Chains:
        """The chains of the document."""
        if document.document_id not in self._found:
            started = time.perf_counter()
            self._found[document.document_id] = self._resolver(replace(document, mentions=()))
            self.seconds += time.perf_counter() - started
        return self._found[document.document_id]


def gold_documents() -> dict[str, list[Document]]:
    """The held-out documents of the recipe, by corpus."""
    recipe = load_recipe(RECIPE)
    paths = corpus_paths(recipe.corpus.dev)
    return {
        name: [d for path in paths if folder in path.parts for d in read_corpus(path).documents]
        for name, folder in CORPORA.items()
    }


def rows(gold: Mapping[str, Sequence[Document]], given: Sequence[Resolver]) -> list[dict[str, Any]]:
    """A row for each corpus, each resolver and each two of them, and each way to tell mentions apart."""
    made = []
    for corpus, documents in gold.items():
        asked = [Remembered(resolver) for resolver in given]
        words = sum(len(document.words or ()) for document in documents)
        for used in [*([one] for one in asked), *map(list, combinations(asked, 2))]:
            agreed = [resolve(document, used, heads_by_rule) for document in documents]
            found = [one.document for one in agreed]
            label = {"corpus": corpus, "resolver": " & ".join(resolver.name for resolver in used)}
            speed = {"words_per_second": words / used[0].seconds} if len(used) == 1 else agreement(agreed)
            heads = ([at_heads(document) for document in these] for these in (documents, found))
            for mentions, (right, answers) in (("spans", (documents, found)), ("heads", tuple(heads))):
                made.append({**label, "mentions": mentions, **scores(right, answers), **speed})
    return made


def scores(gold: Sequence[Document], found: Sequence[Document]) -> dict[str, float]:
    """The scores of a row."""
    every = score_chains(gold, found)
    flat = {f"lea_{rate}": every["lea"][rate] for rate in ("precision", "recall")}
    parts = {f"{part}_{rate}": every[part][rate] for part in PARTS for rate in ("precision", "recall")}
    return {name: value for name, value in every.items() if name in SCORES} | flat | parts


def agreement(agreed: Sequence[Agreed]) -> dict[str, float]:
    """The links that both resolvers have over those that one has: of all, and of those with a pronoun."""
    sums = {
        which: [sum(sum(getattr(one, which)[n].values()) for one in agreed) for n in (1, 2)]
        for which in ("links", "without_pronouns")
    }
    both, either = sums["links"]
    other_both, other_either = sums["without_pronouns"]
    return {
        "agreement": both / max(1, either),
        "agreement_with_pronouns": (both - other_both) / max(1, either - other_either),
    }


def at_heads(document: Document) -> Document:
    """The document with the head word of each mention in its place."""
    heads = heads_by_rule(document, [(m.start, m.end) for m in document.mentions])
    mentions = (replace(m, start=a, end=b) for m, (a, b) in zip(document.mentions, heads, strict=True))
    return replace(document, mentions=tuple(mentions))


def main() -> None:
    """Resolve, score, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--resolver", action="append", metavar="NAME", help="as `rayner corpus resolve`")
    parser.add_argument("--note", action="append", default=[], help="what a reader must know of a checkpoint")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "resolvers")
    options = parser.parse_args()
    given = resolvers(options.resolver or ["rules"])
    gold = gold_documents()
    found = rows(gold, given)
    record(
        "resolvers",
        options.out,
        title="Coreference resolvers beside gold chains",
        section="Pre-training",
        task="corpus resolve",
        conditions=CONDITIONS.format(**{name: len(documents) for name, documents in gold.items()}),
        rows=measured(found, UNITS, headline="conll_f1", where=lambda row: row["mentions"] == "spans"),
        notes=tuple(options.note),
    )
    if options.json:
        print(json.dumps({"rows": found}))


if __name__ == "__main__":
    call_main(main)
