"""What `python -m benchmarks.context_results` trains on, asks and counts."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import context_material as material
from benchmarks import context_models as models
from benchmarks import context_results as results
from rayner.config import ContextSettings
from rayner.data.schema import Context, Document, Mention
from rayner.errors import CorpusError
from rayner.supervision.context_rows import ContextRow, read_context_rows
from rayner.tasks.predict import predict
from tests.small_rerankers import cross_encoder

WORDS = ["``", "Anna", "went", ".", "''", "She", "saw", "Kew", "!", "The", "dog", "saw", "her"]


def novel(name: str = "book") -> Document:
    spans, at = [], 0
    for word in WORDS:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    text = " ".join(WORDS)
    mentions = (Mention(3, 7, "PER"), Mention(text.index("Kew"), text.index("Kew") + 3, "LOC"))
    bare = Document(name, text, mentions, words=tuple(spans))
    return Document(name, text, mentions, words=tuple(spans), sentences=material.published_sentences(bare))


@pytest.mark.parametrize("fold", range(material.FOLDS))
def test_labels_of_a_ranker_know_nothing_of_the_novels_that_it_is_tested_on(fold: int) -> None:
    novels = [novel(str(number)) for number in range(12)]
    tested, learned_by = material.tested_in(fold, novels), material.learned_by(fold, novels)
    assert [n for n in novels if n not in tested] == learned_by
    parts = models.crossed(fold, novels)
    for learned, labelled in parts:
        names = [{n.document_id for n in of} for of in (learned, labelled, tested)]
        assert sum(map(len, names)) == len(set.union(*names)) == len(novels)
    assert {n.document_id for _, of in parts for n in of} == {n.document_id for n in learned_by}


def test_a_closing_quote_belongs_to_the_sentence_that_it_closes() -> None:
    one = novel()
    texts = [one.text[start:end] for start, end in one.sentences or ()]
    assert texts == ["`` Anna went . ''", "She saw Kew !", "The dog saw her"]


def test_the_rest_of_the_book_begins_where_the_chapter_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dekker-full-novels"
    folder.mkdir()
    monkeypatch.setenv("RAYNER_DATA", str(tmp_path))
    monkeypatch.setattr(material, "LETTERS", 12)
    before = "Contents. Kew\n\n\u201cAnna went.\u201d She saw Kew!\nThe dog saw her"
    with gzip.open(folder / "book.txt.gz", "wt", encoding="utf-8") as file:
        file.write(f"{before} again. \u201cKew is green,\u201d she said.\n*** END OF THIS BOOK\nLicence")
    one = material.with_rest_of_book(novel())
    texts = [one.text[start:end] for start, end in one.sentences or ()]
    assert texts == [
        "`` Anna went . ''",
        "She saw Kew !",
        "The dog saw her",
        "again.",
        "``Kew is green,'' she said.",
    ]
    assert one.mentions == ()
    stage = material.AskedSentences(ContextSettings(methods=("random",), count=4))
    (answer,) = predict(stage, [one])
    asked = material.may_hold_names(novel())
    assert [bool(of) for of in answer.sentence_contexts or ()] == [*asked, False, False]
    with gzip.open(folder / "book.txt.gz", "wt", encoding="utf-8") as file:
        file.write("Another book.")
    with pytest.raises(CorpusError, match="no part of the chapter is in the novel"):
        material.with_rest_of_book(novel())


def test_only_sentences_that_may_hold_a_name_are_asked() -> None:
    # "The" and "She" are never small here; a chapter of a novel has both.
    text = novel().text + " , the dog she saw"
    words = tuple(
        (start, start + len(word))
        for start, word in zip(
            np.cumsum([0, *(len(w) + 1 for w in text.split()[:-1])]).tolist(), text.split(), strict=True
        )
    )
    bare = Document("book", text, words=words)
    one = Document("book", text, words=words, sentences=material.published_sentences(bare))
    assert material.may_hold_names(one) == [True, True, False]


def test_sentences_keep_their_words_mentions_and_contexts() -> None:
    contexts = [(), (Context("Kew is a garden .", 1.0),), ()]
    made = material.sentence_documents(novel(), contexts, ":0")
    assert [one.document_id for one in made] == ["book:0:0", "book:1:0", "book:2:0"]
    assert [[one.text[m.start : m.end] for m in one.mentions] for one in made] == [["Anna"], ["Kew"], []]
    assert [one.text[start:end] for one in made for start, end in one.words or ()] == WORDS
    assert [len(one.contexts) for one in made] == [0, 1, 0]
    assert {one.group for one in made} == {"book"}


def test_no_row_with_a_text_of_a_test_novel_is_learned_from() -> None:
    rows = [
        ContextRow("She saw Kew!", "Kew is a garden .", True),
        ContextRow("Bob ate .", '" Anna went "', False),
        ContextRow("Bob ate .", "Bob is a cook .", True),
        ContextRow("Anna wentworth", "the doge", False),
    ]
    assert material.is_of_novels(rows, [novel()]) == [True, True, False, False]


def test_the_ranker_is_given_only_rows_without_a_text_of_the_novels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "synthetic-context-retrieval" / "alpaca-7b.jsonl"
    rows.parent.mkdir()
    texts = [
        ("She saw Kew !", "Kew is a garden ."),
        ("Bob ate .", "Bob is a cook ."),
        ("Bob ran .", "She saw Kew"),
    ]
    rows.write_text(
        "".join(
            json.dumps({"sentence": sentence, "context": context, "relevant": 1}) + "\n"
            for sentence, context in texts
        )
    )
    monkeypatch.setenv("RAYNER_DATA", str(tmp_path))
    given: list[Sequence[str]] = []
    monkeypatch.setattr(models, "train", lambda recipe, out, changes: given.append(changes))
    models.train_ranker([novel()], tmp_path / "runs")
    (setting,) = given[0]
    learned = read_context_rows(Path(setting.removeprefix("pairs.train=[").removesuffix("]"))).rows
    assert [row.sentence for row in learned] == ["Bob ate ."]


def test_a_ranker_of_own_labels_is_chosen_by_a_novel_that_it_does_not_learn() -> None:
    rows = [ContextRow(f"{group} {number}", "", True, (), group) for number in range(2) for group in "bca"]
    learned, held_out = models.parts_of(rows)
    assert [row.sentence for row in held_out] == ["c 0", "c 1"]
    assert {row.group for row in learned} == {"a", "b"}
    assert len(learned) == 4


def test_the_best_contexts_keep_their_order() -> None:
    contexts = [Context("a", 0.2), Context("b", 0.9), Context("c", 0.5)]
    assert [one.text for one in material.best(contexts, 2)] == ["b", "c"]
    assert material.best(contexts, 0) == ()


def test_contexts_of_training_are_drawn_anew_in_each_pass_and_the_same_again() -> None:
    first, second = (material.drawn(novel(), 1, number) for number in (0, 1))
    assert len(first) == 3
    assert max(map(len, first)) <= max(material.COUNTS)
    assert first == material.drawn(novel(), 1, 0)
    assert any(material.drawn(novel(), seed, 0) != first for seed in range(2, 9))
    assert second is not first


def test_each_method_is_compared_with_none_novel_by_novel() -> None:
    one = [novel("a"), novel("b")]
    right = {"0": [(3, 7, "PER")], "1": [(8, 11, "LOC")], "2": []}
    wrong = {"0": [(3, 7, "LOC")], "1": [(8, 11, "LOC")], "2": []}
    found = {
        "none": {f"{name}:{place}": spans for name in "ab" for place, spans in wrong.items()},
        "bm25": {f"{name}:{place}": spans for name in "ab" for place, spans in wrong.items()},
        "neural": {f"{name}:{place}": spans for name in "ab" for place, spans in right.items()},
    }
    counts = {
        ("with", method, int(method != "none")): results.counts_of(one, spans)
        for method, spans in found.items()
    }
    assert counts["with", "none", 0].tolist() == [[1, 2, 2], [1, 2, 2]]
    rows = {row["method"]: row for row in results.rows_of(counts, ["a", "b"]) if "method" in row}
    assert rows["none"]["f1"] == pytest.approx(0.5)
    assert "gain" not in rows["none"]
    assert rows["neural"]["gain"] == pytest.approx(0.5)
    assert rows["neural"]["novels_above"] == 2
    assert rows["bm25"]["gain"] == 0
    assert rows["bm25"]["neural_above"] == pytest.approx(0.5)
    assert rows["neural"]["gain_interval"] == pytest.approx([0.5, 0.5])
    novels = [row for row in results.rows_of(counts, ["a", "b"]) if "novel" in row]
    assert novels[0] == {"novel": "a", "mentions": 2, "none": 0.5, "bm25": 0.5, "neural": 1.0}


def test_a_reranker_of_hugging_face_is_a_method_too(tmp_path: Path) -> None:
    method = f"reranker {cross_encoder(tmp_path / 'bert')}"
    novels = [novel(str(number)) for number in range(12)]
    chosen = results.contexts_of(0, novels, method, 1, tmp_path)
    assert set(chosen) == {one.document_id for one in material.tested_in(0, novels)}
    found = [context for of in chosen.values() for contexts in of for context in contexts]
    assert {context.text for context in found} > {"She saw Kew !"}
    assert all(context.score is not None and 0 <= context.score <= 1 for context in found)
    shutil.rmtree(tmp_path / "bert")
    assert results.contexts_of(0, novels, method, 1, tmp_path) == chosen, "kept in a file of its own"
