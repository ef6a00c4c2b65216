"""Training rows that nobody annotated: one request an entity, answers checked, negatives of both kinds."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import ContextKindSettings
from rayner.data.schema import UNKNOWN, Document, Mention
from rayner.supervision.context_prompts import (
    ACTION,
    DESCRIPTION,
    KINDS,
    MOVEMENT,
    kinds_of,
    made_of_template,
    prompt_of,
)
from rayner.supervision.context_rows import ContextRow
from rayner.supervision.synthetic_contexts import (
    ContextRequest,
    SourceSentence,
    can_help,
    context_requests,
    negative_rows,
    positive_rows,
    source_sentences,
)

NAMES = ("Ahab", "Ishmael", "Nantucket", "Queequeg", "Pequod", "Starbuck", "Stubb", "Bildad")


def document(text: str, *mentions: tuple[str, str], name: str = "d", group: str | None = None) -> Document:
    spans = tuple(Mention(text.index(m), text.index(m) + len(m), type_) for m, type_ in mentions)
    return Document(name, text, spans, group=group)


def requests_for(*entities: str) -> list[ContextRequest]:
    return [ContextRequest(f"Then {e} slept.", e, "PER", ACTION, (e,), "book") for e in entities]


def test_mentions_belong_to_their_sentences() -> None:
    text = "Captain\nAhab left. He went to Nantucket with Ishmael."
    source = document(text, ("Captain\nAhab", "PER"), ("Nantucket", "LOC"), ("Ishmael", "PER"), group="moby")
    whole = Document("e", "It rained.", (Mention(0, 99, "X"),))
    assert list(source_sentences([source, whole])) == [
        SourceSentence("Captain Ahab left.", (("Captain Ahab", "PER"),), "moby"),
        SourceSentence(
            "He went to Nantucket with Ishmael.", (("Nantucket", "LOC"), ("Ishmael", "PER")), "moby"
        ),
        SourceSentence("It rained.", (), "e"),
    ]


def test_blanks_at_the_edges_of_a_mention_count_for_nothing_and_what_is_cut_is_counted() -> None:
    text = "Ahab  left.\nIshmael came."
    mentions = (Mention(0, 6, "PER"), Mention(11, 20, "PER"), Mention(6, 15, "PER"), Mention(4, 6, "PER"))
    counts = Counter[str]()
    found = list(source_sentences([Document("d", text, mentions)], counts))
    assert [sentence.mentions for sentence in found] == [(("Ahab", "PER"),), (("Ishmael", "PER"),)]
    assert +counts == {"mentions outside a sentence": 2}


def test_thoughts_before_an_answer_are_no_part_of_it() -> None:
    (request,) = requests_for("Ahab")
    for answer, context in (
        ("<think>Ahab? Ahab.</think>\n\nAhab is old.", "Ahab is old."),
        ('Ahab, so.\n</think>"Ahab is old."', "Ahab is old."),
        ("<think>Who is Ahab", None),
        ("<think>Who is Ahab</think> ", None),
    ):
        rows, _ = positive_rows([request], [answer])
        assert [row.context for row in rows] == ([] if context is None else [context])
        assert can_help(request, answer) == (context is not None)


def test_nothing_mentions_an_entity_without_a_word() -> None:
    [request] = requests_for("\u200b")
    assert not can_help(request, "Nobody slept.")


def test_one_request_for_each_distinct_entity_string() -> None:
    documents = [
        document("Ahab left. Ahab came to Nantucket.", ("Ahab", "PER"), ("Nantucket", "LOC")),
        document("Nantucket saw Ahab.", ("Ahab", "PER"), ("Nantucket", "LOC")),
        document("A fever took him.", ("fever", "Disease")),
    ]
    requests = context_requests(source_sentences(documents))
    assert [(r.entity, r.sentence) for r in requests] == [
        ("Ahab", "Ahab left."),
        ("Nantucket", "Ahab came to Nantucket."),
        ("fever", "A fever took him."),
    ]
    assert requests[2].kind is DESCRIPTION
    drawn = {
        (r.entity, r.kind.name)
        for n in range(20)
        for r in context_requests(source_sentences(documents), seed=n)
    }
    assert drawn == {
        ("Ahab", "description"),
        ("Ahab", "action"),
        ("Nantucket", "description"),
        ("Nantucket", "movement"),
        ("fever", "description"),
    }
    assert context_requests(source_sentences(documents)) == requests
    of_places = context_requests(source_sentences(documents), [MOVEMENT])
    assert [r.entity for r in of_places] == ["Nantucket"]


def test_nothing_is_asked_about_what_may_be_no_mention() -> None:
    source = document("Ahab saw Moby.", ("Ahab", "PER"), ("Moby", UNKNOWN))
    (request,) = context_requests(source_sentences([source]))
    assert (request.entity, request.entities) == ("Ahab", ("Ahab", "Moby"))


def test_what_comes_before_changes_no_kind() -> None:
    documents = [document(f"{name} slept.", (name, "PER"), name=name) for name in NAMES]
    more = [document("Then Elijah left.", ("Elijah", "PER")), document("Nan sat.", ("Nan", "LOC"))]
    kinds = [
        {r.entity: r.kind for r in context_requests(source_sentences(given), seed=3)}
        for given in (documents, [*more, *documents], [*reversed(documents), *more])
    ]
    assert len(set(kinds[0].values())) == 2
    assert kinds[0].items() <= kinds[1].items() == kinds[2].items()


def test_the_kinds_of_the_paper_by_type() -> None:
    assert kinds_of("PER") == [DESCRIPTION, ACTION]
    assert kinds_of("LOC") == [DESCRIPTION, MOVEMENT]
    assert kinds_of("ORG") == kinds_of("Disease") == [DESCRIPTION]


def test_prompts_name_the_entity_and_keep_the_sentence() -> None:
    sentence = "He wrote {entity} and {thing} on it."
    asked = prompt_of(DESCRIPTION, sentence, "Ahab", "PER")
    assert f"'{sentence}'" in asked
    assert "Ahab is a person" in asked
    assert "gout is an acute_thing" not in prompt_of(DESCRIPTION, "x", "gout", "Acute_Thing")
    assert "gout is an acute thing" in prompt_of(DESCRIPTION, "x", "gout", "Acute_Thing")
    assert "gout is an illness" in prompt_of(DESCRIPTION, "x", "gout", "D", {"D": "an illness"})
    for kind in KINDS:
        assert "Ahab" in prompt_of(kind, "x", "Ahab", "PER")


@given(st.sampled_from(KINDS), st.text(min_size=1), st.integers(0, 2**31))
def test_a_template_mentions_the_entity_and_leaves_nothing_open(
    kind: ContextKindSettings, entity: str, seed: int
) -> None:
    made = made_of_template(kind, "x", entity, "PER", seed)
    assert entity[1:] in made
    assert made == made_of_template(kind, "x", entity, "PER", seed)
    assert "{" not in made.replace(entity, "").replace(entity[0].upper() + entity[1:], "")


def test_templates_differ_by_entity_and_seed() -> None:
    made = {made_of_template(ACTION, "x", "Ahab", "PER", seed) for seed in range(30)}
    assert len(made) > 10


def test_labels_of_ones_own_have_kinds_of_their_own() -> None:
    templates = ("{entity} is taken daily.",)
    kind = ContextKindSettings(name="dose", prompt="Write of {entity}.", templates=templates, types=("Drug",))
    assert kinds_of("Drug", [kind]) == [kind]
    assert kinds_of("PER", [kind]) == []
    assert made_of_template(kind, "x", "aspirin", "Drug", 0) == "Aspirin is taken daily."


@pytest.mark.parametrize(
    ("answer", "count", "context"),
    [
        ("  Old AHAB\nsmiled. ", "kept", "Old AHAB smiled."),
        ('"Ahab smiled."', "kept", "Ahab smiled."),
        ('"Go," said Ahab, "now."', "kept", '"Go," said Ahab, "now."'),
        ("The captain smiled.", "without the entity", None),
        ("The Ahabites smiled.", "without the entity", None),
        ("", "without an answer", None),
        ('""', "without an answer", None),
        (None, "without an answer", None),
        ("ahab", "nothing new", None),
        ("then Ahab slept.", "nothing new", None),
    ],
)
def test_answers_that_cannot_help_are_dropped(answer: str | None, count: str, context: str | None) -> None:
    rows, counts = positive_rows(requests_for("Ahab"), [answer])
    assert counts == {count: 1}
    expected = [] if context is None else [ContextRow("Then Ahab slept.", context, True, ("Ahab",), "book")]
    assert rows == expected


def positives(count: int) -> list[ContextRow]:
    requests = requests_for(*NAMES[:count])
    return positive_rows(requests, [f"{r.entity} smiled." for r in requests])[0]


elsewhere = [SourceSentence(f"It rained {n} days.", (), "other") for n in range(20)]


@given(st.integers(2, 8), st.integers(0, 100))
def test_negatives_are_as_many_half_of_each_kind(count: int, seed: int) -> None:
    rows = positives(count)
    negatives, counts = negative_rows(rows, elsewhere, seed)
    assert counts == {"sampled": (count + 1) // 2, "swapped": count // 2}
    assert sorted(row.sentence for row in negatives) == sorted(row.sentence for row in rows)
    contexts = {row.context for row in rows}
    assert sum(row.context in contexts for row in negatives) == count // 2
    for row in negatives:
        assert not row.relevant
        assert not any(entity in row.context for entity in row.entities)
    assert negative_rows(rows, elsewhere, seed) == (negatives, counts)


def test_the_draws_of_a_seed_stay_the_same() -> None:
    negatives, _ = negative_rows(positives(6), elsewhere, 3)
    assert [row.context for row in negatives] == [
        "It rained 16 days.",
        "Queequeg smiled.",
        "It rained 0 days.",
        "Ahab smiled.",
        "It rained 6 days.",
        "Nantucket smiled.",
    ]


def test_no_negative_is_of_the_same_book_or_has_the_entity() -> None:
    rows = positives(1)
    own = [SourceSentence("It rained.", (), "book"), SourceSentence("AHAB ran.", (), "other")]
    assert negative_rows(rows, own) == ([], {"missing": 1})
    (row,), counts = negative_rows(rows, [*own, SourceSentence("It poured.", (), "other")])
    assert (row.context, counts) == ("It poured.", {"sampled": 1})


def test_the_letters_of_an_entity_in_other_words_are_no_mention_of_it() -> None:
    """Else a sentence of somebody who says "I" has nothing but contexts of a word or two."""
    rows = [ContextRow("I ran.", "I am Ahab.", True, ("I",), "book")]
    texts = [SourceSentence("It poured in the streets.", (), "other"), SourceSentence("i slept", (), "other")]
    (row,), _ = negative_rows(rows, texts)
    assert row.context == "It poured in the streets."


def test_a_sentence_of_several_entities_has_no_negative_twice() -> None:
    rows = [
        ContextRow("Ahab met Stubb.", f"{name} ran.", True, ("Ahab", "Stubb")) for name in ("Ahab", "Stubb")
    ]
    few = [SourceSentence("It poured.", (), "other")]
    negatives, counts = negative_rows(rows, few)
    assert [row.context for row in negatives] == ["It poured."]
    assert counts == {"sampled": 1, "missing": 1}


def test_where_one_way_finds_nothing_the_other_is_taken() -> None:
    negatives, counts = negative_rows(positives(4), [])
    assert counts == {"swapped": 4}
    assert len(negatives) == 4


def test_rows_without_known_entities_never_get_their_own_context() -> None:
    rows = [ContextRow(f"s{n}", f"c{n}", True) for n in range(2)]
    for seed in range(20):
        negatives, _ = negative_rows(rows, [], seed)
        assert {(row.sentence, row.context) for row in negatives} == {("s0", "c1"), ("s1", "c0")}


def test_from_documents_to_rows() -> None:
    documents = [
        document(f"{name} slept. The sea was calm {n}.", (name, "PER"), name=name)
        for n, name in enumerate(NAMES)
    ]
    sentences = list(source_sentences(documents))
    requests = context_requests(sentences)
    answers = [made_of_template(r.kind, r.sentence, r.entity, r.type, 0) for r in requests]
    rows, counts = positive_rows(requests, answers)
    assert counts == {"kept": len(NAMES)}
    _, negative_counts = negative_rows(rows, sentences)
    assert negative_counts == {"sampled": 4, "swapped": 4}
