"""Documents that kill their worker: found, and left out, so that a run does not die over them for ever.

Only the death of an actor under a driver and on a node that live on is held against a document: a driver that
is stopped or killed and a node that is lost are no document's fault.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rayner.files.places import Place
from rayner.runtime.cluster import node_lives, this_node

UNTROUBLED = 3
"""Over how many deaths the work on a block goes on as usual; a system short of memory kills at random."""
DEATHS = 2
"""Over how many deaths a document is given up."""
FAULTS = 3
"""After how many workers that failed over a block the run fails."""


@dataclass(slots=True)
class Attempts:
    """How often an actor died over a block, and over which of its documents.

    Attributes:
        run: the driver's; empty where it does the work itself, and dies with it.
        deaths: by the place of the document; those before documents were worked on one by one are at "".
        faults: how often a worker of this run gave the block up for a fault of its own.
    """

    place: Place
    run: str
    node: str
    deaths: Counter[str] = field(default_factory=Counter)
    faults: int = 0

    @classmethod
    def begin(cls, place: Place, run: str) -> Attempts:
        """Note that the work begins; `place` is gone when it is done."""
        known = _known(place)
        attempts = cls(place, run, this_node() if run else "", Counter(known.get("deaths", {})))
        if run and known.get("run") == run:
            attempts.faults = known["faults"]
            if known["at"] is not None and node_lives(known["node"]):
                attempts.deaths[known["at"]] += 1
        attempts._note("")
        return attempts

    @property
    def is_careful(self) -> bool:
        """Whether documents are to be worked on one by one."""
        return self.deaths.total() >= UNTROUBLED

    def is_lethal(self, source: str) -> bool:
        """Whether the document of that place is given up; if not, note that the work has come to it."""
        if self.deaths[source] >= DEATHS:
            return True
        self._note(source)
        return False

    def end(self) -> None:
        """The block is done."""
        self.place.delete()

    def _note(self, at: str) -> None:
        """Note the document that the work has come to."""
        noted = {"run": self.run, "node": self.node, "deaths": self.deaths, "faults": self.faults, "at": at}
        self.place.write(json.dumps(noted).encode())


def _known(place: Place) -> dict[str, Any]:
    try:
        known = json.loads(place.read() or b"{}")
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def note_fault(place: Place, run: str) -> int:
    """Note that a worker gives a block up for a fault of its own; how often workers did in this run.

    The end of its process is no death then.
    """
    known = _known(place)
    faults = 1 + (known.get("faults", 0) if known.get("run") == run else 0)
    noted = {"node": "", "deaths": {}, **known, "run": run, "faults": faults, "at": None}
    place.write(json.dumps(noted).encode())
    return faults
