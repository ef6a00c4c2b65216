"""What `rayner corpus resolve` does: coreference chains over raw text, as stories for the task `chains`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from rayner.config.base import Precision
from rayner.data.example_shards import canonical
from rayner.data.readers import find_units
from rayner.data.schema import Document
from rayner.errors import CorpusError
from rayner.runtime.corpora.convert import process
from rayner.runtime.corpora.kept_parts import Notes
from rayner.runtime.parallel import code_digest
from rayner.runtime.run_folder import check_apart
from rayner.supervision.agreement import Heads, Links, resolve
from rayner.supervision.parsed_heads import HeadFinder, head_finder
from rayner.supervision.pronouns import is_pronoun
from rayner.supervision.resolvers.base import Resolver
from rayner.tasks.resolvers import resolvers

SOURCES = (
    *("supervision/agreement", "supervision/*heads", "supervision/partitions", "supervision/pronouns"),
    *("supervision/resolvers/*", "supervision/spacy_pipelines"),
    *("data/sentences", "data/string_hashes", "data/windows"),
    *("models/encoder", "models/mention_ranking", "models/precision*", "models/tokenizer"),
    *("tasks/chains/story_rows", "tasks/checkpoint", "tasks/coreference", "tasks/corpus_task"),
    *("tasks/document_windows", "tasks/encoder_task", "tasks/resolvers", "runtime/corpora/resolve"),
)
"""The modules by which chains come out as they do, beside those of every conversion."""
SMALL_BYTES = 2**20
"""Inputs below this are resolved in this process."""
PART_BYTES = 2**18

_CHAINS = "chains"
_GROUPS = ("links", "links_without_pronouns")


@dataclass(frozen=True, slots=True)
class Resolving:
    """The change that puts chains in place of a document's own mentions, and counts links.

    A document without a chain that is left is rejected: nothing can be learned from it.
    """

    resolvers: tuple[Resolver, ...]
    heads: Heads

    def __call__(self, document: Document) -> tuple[Document, Notes]:
        agreed = resolve(document, self.resolvers, self.heads)
        mentions = agreed.document.mentions
        if not mentions:
            one, *others = (resolver.name for resolver in self.resolvers)
            what = "no coreference link " + ("on which two resolvers agree" if others else f"of {one}")
            raise CorpusError(document.document_id, what, "leave it out, or name other resolvers")
        pronouns = sum(is_pronoun(document.text[m.start : m.end]) for m in mentions)
        notes: dict[str, list[int]] = {_CHAINS: [len({m.chain for m in mentions}), pronouns]}
        for group, links in zip(_GROUPS, (agreed.links, agreed.without_pronouns), strict=True):
            notes |= _noted(group, links)
        return agreed.document, notes


def resolve_texts(
    inputs: Sequence[Path],
    out: Path,
    names: Sequence[str],
    heads: HeadFinder = "auto",
    format: str = "auto",
    workers: int | None = None,
    fresh: bool = False,
    precision: Precision | None = None,
) -> dict[str, Any]:
    """Stories with coreference chains from texts in any format that `corpus convert` reads.

    Only links on which two of the resolvers agree are kept (papers/003, section 3.2); of one resolver, all.
    A killed run goes on where it stopped, and a finished one is not done again.

    Args:
        names: of resolvers, as `tasks.resolvers`.
        heads: how the head words of mentions are found.
        workers: Ray tasks at once; 0 works in this process, None decides by the size of the input.
        precision: of a model among the resolvers, as `tasks.resolvers`.

    Returns:
        What `convert` returns, with `resolvers`, `heads`, `chains`, `pronouns` (mentions that are kept),
        `links` (resolver -> links), `agreement`: of each two resolvers the links that both have over those
        that one has, in all documents that are kept, and `agreement_with_pronouns`, that of links with a
        pronoun.

    Raises:
        InputError: a resolver that nobody has, or that lacks what it needs.
        CorpusError: no document can be read, or none has a chain.
    """
    check_apart(inputs, out)
    found = tuple(resolvers(names, precision))
    how, finder = head_finder(heads)
    units = find_units([Path(path).absolute() for path in inputs], format)
    purpose = f"resolve {canonical([[one.version for one in found], how, code_digest(*SOURCES)])}"
    counts, notes = process(
        units,
        Resolving(found, finder),
        purpose,
        out.absolute(),
        workers,
        fresh,
        small=SMALL_BYTES,
        part_bytes=PART_BYTES,
    )
    chains, pronouns = notes[_CHAINS]
    called = [resolver.name for resolver in found]
    told = {"resolvers": called, "heads": how, "chains": chains, "pronouns": pronouns}
    return {**counts, **told, **_agreement(called, notes)}


def _noted(group: str, links: Links) -> dict[str, list[int]]:
    notes = {f"{group} {name}": [count] for name, count in links.found.items()}
    pairs = ((pair, [both, links.either[pair]]) for pair, both in links.both.items())
    return notes | {f"{group} {' & '.join(pair)}": counts for pair, counts in pairs}


def _agreement(called: Sequence[str], notes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """The rates, from links added up over all documents."""
    rates: dict[str, float | None] = {}
    with_pronouns: dict[str, float | None] = {}
    for pair in map(" & ".join, combinations(called, 2)):
        (both, either), (other_both, other_either) = (notes[f"{group} {pair}"] for group in _GROUPS)
        rates[pair] = _rate(both, either)
        with_pronouns[pair] = _rate(both - other_both, either - other_either)
    links = {name: notes[f"{_GROUPS[0]} {name}"][0] for name in called}
    return {"links": links, "agreement": rates, "agreement_with_pronouns": with_pronouns}


def _rate(both: int, either: int) -> float | None:
    return both / either if either else None
