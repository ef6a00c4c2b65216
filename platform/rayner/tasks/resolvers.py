"""Coreference resolvers by name: two built-in ones, those of other packages, and those of entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rayner.config.base import Precision
from rayner.data.schema import Document, Span
from rayner.errors import CheckpointError, InputError
from rayner.supervision.resolvers import adapters
from rayner.supervision.resolvers.base import Resolver
from rayner.supervision.resolvers.rules import RuleResolver
from rayner.tasks.checkpoint import load_checkpoint, version_of
from rayner.tasks.coreference import CoreferencePredictor
from rayner.tasks.predict import predict
from rayner.tasks.stages import suffix

RANKING = "ranking"
GROUP = "rayner.resolvers"
"""The group of entry points: each is called with what follows the colon of its name, and gives a resolver."""


def resolvers(names: Sequence[str], precision: Precision | None = None) -> list[Resolver]:
    """The resolvers of some names, such as `rules` or `ranking:runs/coreference/best`.

    Args:
        precision: what the encoders of `ranking` compute in; None for float32.

    Raises:
        InputError: no name, one given twice, one that nobody has, or what it needs is not installed; a
            precision without a `ranking` that would compute in it.
        CheckpointError: the checkpoint of `ranking` cannot be used.
    """
    known = _known()
    if not names:
        hint = f"give one or more, such as rules and ranking:RUN/best; there are {', '.join(sorted(known))}"
        raise InputError("--resolver", "names none", hint)
    found = []
    for given in names:
        name, _, argument = given.partition(":")
        if name not in known:
            hint = f"there are {', '.join(sorted(known))}"
            raise InputError(f"--resolver {name}", "is not known", hint)
        found.append(_ranking(argument, precision) if name == RANKING else known[name](argument))
    if precision and not any(isinstance(resolver, RankingResolver) for resolver in found):
        what = "is of rayner's own models, and none of them resolves"
        raise InputError(f"--precision {precision}", what, "leave it out, or name ranking:RUN/best")
    called = [resolver.name for resolver in found]
    versions = [resolver.version for resolver in found if isinstance(resolver, RankingResolver)]
    for place, (given, resolver) in enumerate(zip(names, found, strict=True)):
        if called.count(resolver.name) > 1:
            # One checkpoint at two paths would agree with itself in everything.
            if not isinstance(resolver, RankingResolver) or versions.count(resolver.version) > 1:
                raise InputError(f"--resolver {given}", "is given twice", "name two that differ")
            found[place] = replace(resolver, name=given)
    return found


@dataclass(frozen=True, slots=True)
class RankingResolver:
    """A trained model of the task `coreference`, whose `name` tells it from another one beside it."""

    checkpoint: Path
    version: str
    name: str = RANKING
    precision: Precision = "float32"

    def __call__(self, document: Document) -> list[list[Span]]:
        """The chains that it finds."""
        (answer,) = predict(_predictor(self.checkpoint, self.precision), [document])
        chains: dict[str, list[Span]] = {}
        for mention in answer.mentions:
            chains.setdefault(mention.chain, []).append((mention.start, mention.end))
        return list(chains.values())


def _ranking(argument: str, precision: Precision | None = None) -> RankingResolver:
    if not argument:
        hint = "train jobs/recipes/coreference_litbank_gum.yaml, then write ranking:RUN/best"
        raise InputError("--resolver ranking", "needs a checkpoint", hint)
    folder = Path(argument).absolute()
    asked = precision or "float32"
    found = RankingResolver(folder, version_of(folder) + suffix(asked), precision=asked)
    if not isinstance(_predictor(folder, asked), CoreferencePredictor):
        raise CheckpointError(str(folder), "finds no coreference chains", "name one of the task coreference")
    return found


def _rules(argument: str) -> RuleResolver:
    if argument:
        raise InputError(f"--resolver rules:{argument}", "takes nothing", "write rules")
    return RuleResolver()


def _adapter(make: Callable[[str], adapters.Adapter]) -> Callable[[str], Resolver]:
    def made(argument: str) -> Resolver:
        found = make(argument)
        found.check()
        return found

    return made


def _known() -> Mapping[str, Callable[[str], Resolver]]:
    others = {point.name: point.load for point in entry_points(group=GROUP)}
    own: dict[str, Callable[[str], Resolver]] = {
        "rules": _rules,
        RANKING: _ranking,
        "coreferee": _adapter(adapters.coreferee),
        "fastcoref": _adapter(adapters.fastcoref),
        "maverick": _adapter(adapters.maverick),
    }
    return {**{name: _loaded(load) for name, load in others.items()}, **own}


def _loaded(load: Callable[[], Callable[[str], Resolver]]) -> Callable[[str], Resolver]:
    return lambda argument: load()(argument)


@cache
def _predictor(folder: Path, precision: Precision) -> Any:
    # As other resolvers: each CPU of a cluster resolves texts, and all would take the first GPU.
    return load_checkpoint(folder, "cpu", precision).predictor()
