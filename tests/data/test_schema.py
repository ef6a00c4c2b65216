"""Documents as rows, and which of their mentions corefer."""

from __future__ import annotations

from rayner.data.schema import Context, Document, Mention, chained, document_from_row


def test_mentions_of_no_chain_do_not_corefer() -> None:
    assert chained(Document("d", "ab cd", (Mention(0, 2, "X"), Mention(3, 5, "X")))) == []


def test_a_context_that_says_nothing_else_is_read_before_the_text() -> None:
    row = {"document_id": "d", "text": "ab", "contexts": [{"text": "c"}]}
    assert document_from_row(row).contexts == (Context("c", before=True),)
