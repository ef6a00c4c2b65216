"""Replies from answers."""

from __future__ import annotations

from rayner.data.schema import Candidate, Document, Mention
from rayner.serving.replies import annotate_reply
from rayner.serving.schemas import Versions
from rayner.tasks.predict import Predicted


def test_a_mention_of_several_entities_has_the_names_of_all() -> None:
    ids = ("ada", "curie", "bell")
    names = ("Ada Lovelace", "Marie Curie", "A. Bell")
    found = tuple(map(Candidate, ids, (1.0, 0.9, 0.1), names, ids))
    mentions = (Mention(0, 5, "PER", "ada|curie", candidates=found), Mention(6, 7, "PER", candidates=found))
    reply = annotate_reply([Predicted(Document("1", "A & B C", mentions), 1)], {}, Versions())
    both, nil = reply.documents[0].mentions
    assert (both.entity_id, both.name) == ("ada|curie", "Ada Lovelace | Marie Curie")
    assert (nil.entity_id, nil.name) == (None, None)
