"""What people read of the scores of a whole pipeline, on terminals and in reports alike."""

from __future__ import annotations

OUTCOME_NAMES = {
    "right": "right",
    "missed": "span not found",
    "boundary": "boundary wrong",
    "type": "type wrong",
    "unlinked": "type that no stage links",
    "unknown": "entity not in the knowledge base",
    "retrieval": "entity not among the candidates",
    "ranking": "another entity ranked first",
    "refused": "refused as NIL",
    "nil_linked": "NIL, but linked",
}
LEVEL_NAMES = {
    "span": "span",
    "span_type": "span, type",
    "fine_types": "span, fine types",
    "fine_types_of_gold": "fine types, given gold mentions",
    "entity": "span, type, entity",
    "known_entity": "known entities only",
}
GIVEN_NAMES = {"gold_mentions": "gold mentions", "predicted_mentions": "found mentions"}
BOUND_NAMES = {
    "as_is": "nothing: as it is",
    "choice": "choice among candidates",
    "entities": "entities",
    "mentions": "mentions",
}
