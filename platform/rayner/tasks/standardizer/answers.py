"""What a standardizer says of a mention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayner.retrieval.names import Found


@dataclass(frozen=True, slots=True)
class Answer:
    """The entity of a mention, or NIL.

    Args:
        text: the mention.
        entity_id: None is NIL.
        score: of the first candidate, whether or not it is the answer; minus infinity without one.
        margin: how far the next entity's score lies below; infinity where there is no next one.
        probability: calibrated, that the first candidate is right; None without a calibration.
        candidates: the entities found, best first, also where the answer is NIL.
        reason: why the answer is NIL; None where it is an entity.
    """

    text: str
    entity_id: str | None
    score: float
    margin: float
    probability: float | None
    candidates: tuple[Found, ...]
    reason: str | None = None

    def to_row(self) -> dict[str, Any]:
        """The answer as a JSON object; scores that are not finite are null."""
        name = self.candidates[0].name if self.entity_id is not None else None
        row: dict[str, Any] = {"mention": self.text, "entity_id": self.entity_id, "name": name}
        row |= {"score": finite(self.score), "margin": finite(self.margin)}
        row |= {"probability": self.probability, "reason": self.reason}
        row["candidates"] = [
            {"entity_id": found.entity_id, "name": found.name, "score": found.score}
            for found in self.candidates
        ]
        return row


def finite(value: float) -> float | None:
    """The value, or None where a file or JSON could not hold it."""
    return value if math.isfinite(value) else None
