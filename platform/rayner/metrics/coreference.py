"""Scores of coreference chains: MUC, B-cubed, CEAF-e and LEA by the library coreference-eval."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from rayner.data.schema import Document, Mention, Span
from rayner.errors import CorpusError, InputError
from rayner.supervision.pronouns import is_pronoun

SCORES = {"muc": "muc", "b_cubed": "b_cubed", "ceafe": "ceaf_e", "lea": "lea"}
"""The library's names of the scores, and ours."""


def chains_of(document: Document) -> list[tuple[Span, ...]]:
    """The spans of the chains of two mentions or more. A span in several chains belongs to the first."""
    found: dict[str, dict[Span, None]] = defaultdict(dict)
    taken: set[Span] = set()
    for mention in document.mentions:
        at = mention.start, mention.end
        if mention.chain is not None and at not in taken:
            taken.add(at)
            found[mention.chain][at] = None
    return [tuple(chain) for chain in found.values() if len(chain) > 1]


def score_chains(gold: Sequence[Document], predicted: Sequence[Document]) -> dict[str, Any]:
    """How well chains agree with gold ones, over all documents.

    Mentions are the same if their spans are. Those that corefer with no other count for nothing, gold or
    predicted (as in CoNLL-2012).

    Returns:
        `muc, b_cubed, ceaf_e, lea`: `precision, recall, f1`; `conll_f1`, the mean F1 of the first three;
        `mentions`: precision, recall, F1 of mentions in chains; `pronouns, others`: B-cubed of these mentions
        alone (see `of_mentions`); and at the top level `muc_f1` to `lea_f1`.

    Raises:
        CorpusError: the ids of the documents do not agree.
        InputError: the library is not installed.
    """
    corefeval = library()
    scorer, classes = corefeval.Scorer(), {"pronouns": Counter(), "others": Counter(), "mentions": Counter()}
    for one, other in zip(gold, predicted, strict=True):
        if one.document_id != other.document_id:
            hint = "score the answers to the gold documents, in their order"
            raise CorpusError(other.document_id, f"answers {one.document_id}", hint)
        right, found = chains_of(one), chains_of(other)
        scorer.update(corefeval.Document(found, right))
        pronouns = {(m.start, m.end) for d in (one, other) for m in d.mentions if is_pronoun(_text(d, m))}
        classes["pronouns"].update(of_mentions(right, found, pronouns.__contains__))
        classes["others"].update(of_mentions(right, found, lambda at, those=pronouns: at not in those))
        gold_places, found_places = ({at for chain in chains for at in chain} for chains in (right, found))
        both = len(gold_places & found_places)
        classes["mentions"].update(
            correct=both, right=both, predicted=len(found_places), gold=len(gold_places)
        )
    conll, detailed = scorer.detailed_score("", "", verbose=False)
    scores = {
        ours: {key: float(value) for key, value in detailed[theirs].items()}
        for theirs, ours in SCORES.items()
    }
    return {
        "conll_f1": float(conll),
        **{f"{name}_f1": score["f1"] for name, score in scores.items()},
        **scores,
        **{name: _rates(counts) for name, counts in classes.items()},
    }


def of_mentions(
    gold: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]], counted: Callable[[Span], bool]
) -> dict[str, float]:
    """B-cubed (Bagga and Baldwin 1998) summed over those mentions that are counted.

    The precision of a mention is the share of its predicted chain that is in its gold chain, its recall the
    share of its gold chain that is in its predicted one; 0 where it is in no such chain.

    Returns:
        `correct`, the sum of precisions over `predicted` mentions; `right`, that of recalls over `gold` ones.
    """
    gold_of, predicted_of = (
        {at: number for number, chain in enumerate(chains) for at in chain} for chains in (gold, predicted)
    )
    both = Counter((predicted_of[at], gold_of[at]) for at in predicted_of.keys() & gold_of.keys())
    of_predicted, of_gold = (Counter(of.values()) for of in (predicted_of, gold_of))
    sums = {"correct": 0.0, "right": 0.0, "predicted": 0.0, "gold": 0.0}
    for at, chain in predicted_of.items():
        if counted(at):
            sums["predicted"] += 1
            sums["correct"] += both[chain, gold_of.get(at, -1)] / of_predicted[chain]
    for at, chain in gold_of.items():
        if counted(at):
            sums["gold"] += 1
            sums["right"] += both[predicted_of.get(at, -1), chain] / of_gold[chain]
    return sums


def _rates(counts: Counter[str]) -> dict[str, float]:
    precision, recall = (
        counts[part] / counts[whole] if counts[whole] else 0.0
        for part, whole in (("correct", "predicted"), ("right", "gold"))
    )
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}


def _text(document: Document, mention: Mention) -> str:
    return document.text[mention.start : mention.end]


def library() -> Any:
    """The library of the scores.

    Raises:
        InputError: it is not installed.
    """
    try:
        import corefeval
    except ImportError:
        what, hint = "the library coreference-eval is not installed", "pip install rayner[coreference]"
        raise InputError("scores of coreference chains", what, hint) from None
    return corefeval
