from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.data.words import find_words
from rayner.errors import InputError
from rayner.tasks.base import Options
from rayner.tasks.tagger import Tags
from tests.tasks.small import built, collated, corpus, found, marked, recognizer, spans, tagger, trained

TASKS = {
    scheme: tagger(model={"scheme": scheme}, windows={"length": 16, "overlap": 5})
    for scheme in ("BIO", "BIOES")
}


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_it_learns_its_training_documents_by_heart(scheme: str) -> None:
    task, documents = TASKS[scheme], corpus()
    model = trained(task, documents)
    metrics = task.predictor(model).evaluate(found(task, model, documents), documents)
    assert metrics["f1"] == 1.0


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Words, some of them in mentions that do not overlap and may touch."""
    words = draw(
        st.lists(st.sampled_from(["so", "Zorn", "日", "🙂", "unaffable", ","]), min_size=1, max_size=40)
    )
    text = " ".join(words)
    places = find_words(text)
    mentions, position = [], 0
    while position < len(places):
        position += draw(st.integers(0, 3))
        last = position + draw(st.integers(0, 4))
        if last < len(places):
            kind = draw(st.sampled_from(["PER", "ORG", "LOC"]))
            mentions.append(Mention(places[position][0], places[last][1], kind))
        position = last + 1
    return Document("d", text, tuple(mentions))


@given(documents(), st.sampled_from(["BIO", "BIOES"]))
def test_labels_lead_back_to_the_mentions(document: Document, scheme: str) -> None:
    task = TASKS[scheme]
    rows, windows = list(task.examples([document])), task.windows_of(document)
    assert not rows[0]["rejects"]
    tags = [Tags(np.asarray(r["labels"]), np.ones(len(r["labels"]))) for r in rows]
    predictor = task.predictor(UNTRAINED[scheme])
    assert spans(predictor.finish(document, windows, tags)) == spans(document)


UNTRAINED = {scheme: built(task) for scheme, task in TASKS.items()}


def test_of_nested_mentions_the_outermost_is_learned_and_the_others_are_named() -> None:
    document = marked("[ORG:University of [LOC:Paris]] hired [PER:[PER:Ada] Lovelace].")
    (row,) = TASKS["BIO"].examples([document])
    names = [TASKS["BIO"].labels[label] for label in row["labels"]]
    assert names == ["B-ORG", "I-ORG", "I-ORG", "O", "B-PER", "I-PER", "O"]
    assert sorted(row["rejects"]) == [
        "d: LOC at 14-19: overlaps a longer mention",
        "d: PER at 26-29: overlaps a longer mention",
    ]


def test_each_word_has_one_label_wherever_windows_end() -> None:
    task = TASKS["BIO"]
    text = " ".join(["unaffable Zorn, unaffordably"] * 12)
    document = Document("d", text)
    batch = collated(task, [document])
    assert len(batch.ids) > 2
    assert batch.word_start.sum() == len(batch.labels) == len(batch.unknown)


def test_it_has_no_options() -> None:
    with pytest.raises(InputError, match="types: is no option of a tagger; it has none"):
        Options.of({"types": recognizer().recipe.types, "shift": None}, "tagger")


def test_examples_of_another_scheme_are_others() -> None:
    one, other = (tagger(model={"scheme": scheme}).example_settings() for scheme in ("BIO", "BIOES"))
    assert one != other
