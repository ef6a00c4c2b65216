from __future__ import annotations

import pytest

from rayner.data.schema import Document, Mention
from rayner.metrics.typed_mentions import judge_types, typed_items


def mention(start: int, *names: str, type: str = "mention") -> Mention:
    return Mention(start, start + 1, type, types=tuple((name, 0.5) for name in names))


def document(*mentions: Mention, annotated: tuple[str, ...] | None = None) -> Document:
    return Document("d", "a b c d", mentions, annotated_types=annotated)


def test_mentions_are_known_by_their_spans() -> None:
    gold = document(mention(0, "x", "y"), mention(2, "z"), mention(4), mention(6, type="PER"))
    found = document(mention(0, "x", type="LOC"), mention(4, "x"), mention(1, "w"), mention(6, "PER"))
    right, answered = typed_items([gold], [found])
    assert [set(names) for names in right] == [{"x", "y"}, {"z"}, {"PER"}, set()]
    assert [set(names) for names in answered] == [{"x"}, set(), {"PER"}, {"w"}]


def test_types_that_a_document_was_not_annotated_for_do_not_count() -> None:
    gold = document(mention(0, "x"), annotated=("x", "y"))
    _, (answered,) = typed_items([gold], [document(mention(0, "x", "z"))])
    assert answered == {"x"}


def test_a_document_annotated_for_a_type_of_mentions_is_annotated_for_its_fine_types() -> None:
    """But a mention whose gold is its own type says nothing of finer ones."""
    gold = document(mention(0, "/s/base", type="S"), mention(2, type="P"), annotated=("S", "P"))
    found = document(
        mention(0, "/s/base", "/s/tool", type="S"),
        mention(2, "P", "/p/poet", type="P"),
        mention(4, "/s/base", type="S"),
        mention(6, "/o/x", type="O"),
    )
    right, answered = typed_items([gold], [found])
    assert [set(names) for names in right] == [{"/s/base"}, {"P"}, set()]
    assert [set(names) for names in answered] == [{"/s/base", "/s/tool"}, {"P"}, {"/s/base"}]
    judged = judge_types([gold], [found])
    assert list(zip(judged.type, judged.right, strict=True)) == [
        *(("/s/base", True), ("/s/tool", False)),
        ("P", True),
        ("/s/base", False),
    ]


def test_gold_types_that_nobody_looked_for_are_neither_found_nor_missed() -> None:
    gold = document(mention(0, type="ORG"), mention(2, type="PER"), annotated=("PER",))
    assert typed_items([gold], [document(mention(0, "ORG"), mention(2, "PER"))]) == ([{"PER"}], [{"PER"}])
    # What was looked for and is not there is wrong, whatever else the mention is.
    right, answered = typed_items([gold], [document(mention(0, "PER", "ORG"), mention(2, "PER"))])
    assert (right, answered) == ([set(), {"PER"}], [{"PER"}, {"PER"}])
    judged = judge_types([gold], [document(mention(0, "PER", "ORG"), mention(2, "PER"))])
    assert judged.right.tolist() == [False, True]


def test_of_mentions_of_one_span_one_may_bring_its_fine_types() -> None:
    gold = document(mention(0, "/s/base", type="S"), mention(0, type="P"), annotated=("S", "P"))
    (right,), (answered,) = typed_items([gold], [document(mention(0, "/s/base", "/s/tool"))])
    assert (right, answered) == ({"/s/base", "P"}, {"/s/base", "/s/tool"})


def test_each_predicted_type_is_right_or_wrong() -> None:
    of = ("x", "y", "w", "PER")
    gold = document(mention(0, "x", "y"), mention(4), mention(6, type="PER"), annotated=of)
    found = document(mention(0, "x", "w", "z"), mention(4, "x"), mention(1, "w"), mention(6, "PER"))
    judged = judge_types([gold], [found])
    assert list(zip(judged.type, judged.right, strict=True)) == [
        *(("x", True), ("w", False)),
        ("w", False),
        ("PER", True),
    ]
    assert set(judged.score) == {0.5}


def test_several_gold_mentions_of_one_span_are_one() -> None:
    gold = document(mention(0, type="/company"), mention(0, type="/food"), mention(2, "x"))
    found = document(mention(0, "/company", "/food"), mention(2, "x"))
    right, answered = typed_items([gold], [found])
    assert right == answered == [{"/company", "/food"}, {"x"}]
    assert judge_types([gold], [found]).right.tolist() == [True, True, True]


def test_documents_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        typed_items([document()], [])
