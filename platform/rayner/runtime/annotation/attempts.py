"""Documents that kill their worker: found, and left out, so that a run does not die over them for ever."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from rayner.runtime.storage import Place

UNTROUBLED = 3
"""How often the work on a block begins as usual; a lost node or a killed driver is no document's fault."""
DEATHS = 2
"""Over how many deaths a document is given up."""


@dataclass(slots=True)
class Attempts:
    """How often the work on a block was begun, and how often a worker died over which document."""

    place: Place
    begun: int = 0
    deaths: Counter[str] = field(default_factory=Counter)

    @classmethod
    def begin(cls, place: Place) -> Attempts:
        """Note that the work begins; `place` is gone when it is done."""
        known = json.loads(place.read() or "{}")
        attempts = cls(place, known.get("begun", 0) + 1, Counter(known.get("deaths", {})))
        if at := known.get("at"):
            attempts.deaths[at] += 1
        attempts._note(None)
        return attempts

    @property
    def is_careful(self) -> bool:
        """Whether documents are to be worked on one by one."""
        return self.begun > UNTROUBLED

    def is_lethal(self, source: str) -> bool:
        """Whether the document of that place is given up; if not, note that the work has come to it."""
        if self.deaths[source] >= DEATHS:
            return True
        self._note(source)
        return False

    def end(self) -> None:
        """The block is done."""
        self.place.delete()

    def _note(self, at: str | None) -> None:
        self.place.write(json.dumps({"begun": self.begun, "deaths": self.deaths, "at": at}).encode())
