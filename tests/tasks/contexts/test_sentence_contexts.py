"""Documents that are read sentence by sentence, each with other sentences of the document."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import ContextSettings, WindowSettings
from rayner.data.schema import Context, Document
from rayner.data.sections import Section, part_of
from rayner.errors import CheckpointError, InputError, RecipeError
from rayner.retrieval.contexts import Candidate
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.reports.report import report
from rayner.runtime.training.train import train
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.contexts import in_recipes
from rayner.tasks.contexts.stage import ContextStage, in_turn
from rayner.tasks.document_windows import SPECIAL_TOKENS, text_windows
from rayner.tasks.predict import predict
from rayner.tasks.ranker.task import RankerOptions
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.stages import load_pipeline, read_pipeline
from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.small import found, marked, recognizer, spans, tagger, trained
from tests.tasks.small_pairs import ranker_recipe

WINDOWS = {"length": 40, "overlap": 10, "context": 12}
BOOK = Document("b", "Ada came home. It rained. Nobody saw Ada. The rain went on. Ada slept.")


def settings(**values: Any) -> ContextSettings:
    return ContextSettings(**values)


def chosen(document: Document, **values: Any) -> list[list[str]]:
    answer = ContextStage(settings(**values)).finish(document, [], [])
    assert answer.sentence_contexts is not None
    assert len(answer.sentence_contexts) == len(answer.sentences or ())
    return [[context.text for context in contexts] for contexts in answer.sentence_contexts]


SEPARATOR = ord("|")


def tokenize(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """A sub-word a character that is no space."""
    places = [i for i, c in enumerate(text) if not c.isspace()]
    return [ord(text[i]) for i in places], [(i, i + 1) for i in places]


def test_contexts_are_in_the_order_of_the_document_on_their_side() -> None:
    answer = ContextStage(settings(methods=("surrounding",), count=2)).finish(BOOK, [], [])
    assert answer.sentence_contexts is not None
    assert [(c.text, c.before) for c in answer.sentence_contexts[1]] == [
        ("Ada came home.", True),
        ("Nobody saw Ada.", False),
    ]


def test_methods_take_turns() -> None:
    candidates = [Candidate(i, 1.0, name) for i, name in enumerate(("a", "a", "a", "b", "c", "c"))]
    assert [c.sentence for c in in_turn(candidates)] == [0, 3, 4, 1, 5, 2]


def test_a_diverse_choice_has_a_context_for_each_name() -> None:
    smith = "A smith of the old town by the sea was called Kurt."
    text = f"Ada met Kurt. Ada met nobody here. Ada met nobody there. It rained. {smith}"
    values: dict[str, Any] = {"methods": ("bm25",), "count": 2, "candidates": 4}
    top, diverse = (chosen(Document("d", text), choice=choice, **values)[0] for choice in ("top", "diverse"))
    assert top == ["Ada met nobody here.", "Ada met nobody there."]
    assert diverse == ["Ada met nobody here.", smith]


def test_where_not_all_have_room_the_order_of_a_diverse_choice_counts() -> None:
    kurt = "A smith of the old town by the sea was called Kurt."
    text = f"Ada met Kurt. Ada met nobody here. Ada met nobody there. It rained. {kurt}"
    diverse = settings(methods=("bm25",), count=3, candidates=4, choice="diverse", diversity=0.1)
    answer = ContextStage(diverse).finish(Document("d", text), [], [])
    assert answer.sentence_contexts is not None
    assert len(answer.sentence_contexts[0]) == 3
    room = WindowSettings(length=128, overlap=4, context=60)
    read = bytes(text_windows(answer, room, tokenize, 0, SEPARATOR)[0].after.tolist()).decode()
    assert read == "|Adametnobodyhere.AsmithoftheoldtownbytheseawascalledKurt."


def test_of_one_sentence_there_is_no_context_and_of_none_no_window() -> None:
    assert chosen(Document("d", "Ada came home."), count=5, methods=("before", "after", "random")) == [[]]
    assert chosen(Document("d", "  "), count=5) == []
    task = tagger(windows=WINDOWS, context={})
    assert task.windows_of(Document("d", " \n ")) == []


def test_more_contexts_than_sentences_are_all_others() -> None:
    others = chosen(BOOK, count=1000, methods=("surrounding",))
    assert [len(one) for one in others] == [4] * 5


def test_the_same_sentence_ten_thousand_times_has_no_context() -> None:
    document = Document("d", "It rained. " * 10_000)
    assert chosen(document, count=3, methods=("bm25", "same_noun", "before", "after")) == [[]] * 10_000
    task = tagger(windows=WINDOWS, context={"methods": ["bm25", "before"]})
    assert len(task.windows_of(document)) == 10_000


@given(
    st.lists(st.text("ab ", min_size=1, max_size=60), min_size=1, max_size=6),
    st.lists(st.lists(st.text("xyz", min_size=1, max_size=60), max_size=3), min_size=6, max_size=6),
    st.integers(1, 20),
)
def test_windows_of_sentences_cover_the_document_and_decide_once(
    sentences: list[str], texts: list[list[str]], budget: int
) -> None:
    window_settings = WindowSettings(length=32, overlap=5, context=budget)
    text, ends = "".join(sentences), []
    for sentence in sentences:
        ends.append((ends[-1] if ends else 0) + len(sentence))
    own = tuple(zip([0, *ends[:-1]], ends, strict=True))
    contexts = tuple(tuple(Context(x, 1.0, i % 2 == 0) for i, x in enumerate(of)) for of in texts[: len(own)])
    document = Document("d", text, sentences=own, sentence_contexts=contexts)
    windows = text_windows(document, window_settings, tokenize, 0, SEPARATOR)
    if not windows:
        assert not text.strip()
        return
    total = len(windows[0].subwords)
    seen = [place for w in windows for place in range(*w.span)]
    assert set(seen) == set(range(total))
    for index, window in enumerate(windows):
        assert window.index == index
        assert len(window) == len(window.row["ids"]) + SPECIAL_TOKENS <= window_settings.length
        assert len(window.before) + len(window.after) <= budget
        assert window.edges.begin <= window.span.begin < window.span.end <= window.edges.end
    for first in range(total):
        for last in range(first, min(first + 6, total)):
            together = any(w.edges.begin <= first and last < w.edges.end for w in windows)
            holding = [w for w in windows if w.span.begin <= first and last < w.span.end]
            assert sum(w.decides(first, last) for w in holding) == together


@pytest.mark.parametrize("make", [recognizer, tagger])
def test_what_another_sentence_tells_is_learned_and_offsets_are_of_the_document(make: Any) -> None:
    whens = ("early", "late", "today")
    documents = [marked(f"She is a poet. [PER:Jordan] came {when}.", f"p{when}") for when in whens]
    documents += [marked(f"[LOC:Jordan] came {when}. It is a river.", f"l{when}") for when in whens]
    task = make(windows=WINDOWS, context={"methods": ["surrounding"], "count": 1})

    def is_learned(model: Any) -> bool:
        return [spans(d) for d in found(task, model, documents)] == [spans(d) for d in documents]

    model = trained(task, documents, steps=100, until=is_learned)
    answers = found(task, model, documents)
    assert [(spans(d), d.text) for d in answers] == [(spans(d), d.text) for d in documents]
    alone = [replace(d, sentence_contexts=((), ()), sentences=_sentences(d)) for d in documents]
    types = [[m.type for m in d.mentions] for d in found(task, model, alone)]
    assert types[:3] == types[3:], "without contexts the sentences are equal"


def _sentences(document: Document) -> tuple[tuple[int, int], ...]:
    return ContextStage(settings()).candidates(document).document.sentences or ()


def test_a_context_that_alone_exceeds_the_window_is_cut() -> None:
    document = Document("d", "Ada slept. " + "Ada ran and " * 200 + "fell.")
    task = tagger(windows=WINDOWS, context={"methods": ["after"]})
    windows = task.windows_of(document)
    assert len(windows[0].after) == 12
    assert max(map(len, windows)) <= 40


def test_a_mention_across_two_sentences_is_counted() -> None:
    task = recognizer(windows=WINDOWS, context={})
    document = replace(marked("He met [PER:Ada. Lovelace] there."), sentences=((0, 11), (12, 27)))
    rejects = [line for row in task.examples([document]) for line in row["rejects"]]
    assert rejects == ["d: PER at 7-20: crosses the end of a sentence"]


def test_without_a_context_in_the_recipe_nothing_changes() -> None:
    task, document = tagger(windows={"length": 40, "overlap": 10}), replace(BOOK, sentence_contexts=((),) * 5)
    assert "context" not in task.example_settings()
    assert not task.predictor(task.build()).whole
    (window,) = task.windows_of(document)
    assert window.part is None


def test_a_tagger_of_nouns_is_asked_for_only_where_nouns_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    task = tagger(windows=WINDOWS, context={"methods": ["bm25"], "nouns": "spacy"})
    assert task.example_settings()["context"]["nouns"] == "spacy"
    read = tagger(windows=WINDOWS, context={"methods": ["same_noun"], "nouns": "spacy"})
    with pytest.raises(InputError, match=r"^context\.nouns: spaCy with the pipeline"):
        read.example_settings()


def test_a_context_without_room_or_with_an_unknown_method_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"context needs windows\.context"):
        tagger(context={})
    with pytest.raises(RecipeError, match=r"windows\.context 1 has room for no context .* make it 2 or"):
        tagger(windows=WINDOWS | {"context": 1}, context={})
    tagger(windows=WINDOWS | {"context": 2}, context={"count": 2})
    with pytest.raises(RecipeError, match=r"context\.methods"):
        tagger(windows=WINDOWS, context={"methods": ["nearby"]})
    with pytest.raises(RecipeError, match="diverse choice of 3 among 3 candidates; name more"):
        tagger(windows=WINDOWS, context={"choice": "diverse", "count": 3})
    with pytest.raises(RecipeError, match="minimum of scores without a ranker"):
        tagger(windows=WINDOWS, context={"minimum": 0.5})
    with pytest.raises(InputError, match="diverse choice of 3 among 2 candidates; name more"):
        RankerOptions.of({"methods": ["bm25"], "candidates": 2, "choice": "diverse"}, "ranker")


def test_a_section_keeps_the_contexts_of_its_sentences() -> None:
    document = ContextStage(settings()).finish(BOOK, [], [])
    assert document.sentences is not None
    assert document.sentence_contexts is not None
    part = part_of(document, Section(document.sentences[1][0], document.sentences[3][1]))
    assert part.sentence_contexts == document.sentence_contexts[1:4]
    assert [part.text[a:b] for a, b in part.sentences or ()] == [
        document.text[a:b] for a, b in document.sentences[1:4]
    ]


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ranker that was trained for a moment."""
    folder = tmp_path_factory.mktemp("ranker")
    recipe = parse_recipe(ranker_recipe(folder, tokens_per_step=300), "recipe")
    return Path(train(recipe, folder / "run")["checkpoint"])


def test_a_ranker_is_evaluated_on_pairs(ranker: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    rows = [
        '{"sentence": "Ada came home.", "context": "Ada is a poet.", "relevant": true}',
        '{"sentence": "Ada came home.", "context": "Kurt is a poet."}',
    ]
    pairs.write_text("\n".join(rows))
    metrics = evaluate(ranker, pairs)
    assert metrics["rejected"] == 1
    assert metrics["accuracy"] in (0.0, 1.0)
    assert metrics["mse"] >= 0


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_a_ranker_has_its_scores_and_nothing_of_types(ranker: Path, tmp_path: Path) -> None:
    page = report(ranker.parent, tmp_path / "report.html").read_text()
    assert '<th scope="row">accuracy</th>' in page
    assert "<h2>Types</h2>" not in page


@pytest.fixture(scope="module")
def with_ranker(ranker: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A recipe of a tagger with a ranker in it, and its checkpoint."""
    folder = tmp_path_factory.mktemp("tagger")
    values = tiny_recipe(folder, "tagger", epochs=1, tokens_per_step=400) | {
        "windows": {"length": 64, "overlap": 10, "context": 24},
        "context": {"methods": ["bm25", "before", "after"], "candidates": 4, "ranker": str(ranker)},
    }
    return values, Path(train(parse_recipe(values, "recipe"), folder / "run")["checkpoint"])


def test_a_ranker_chooses_and_its_checkpoint_comes_along(
    with_ranker: tuple[dict[str, Any], Path], ranker: Path
) -> None:
    values, checkpoint = with_ranker
    loaded = load_checkpoint(checkpoint, "cpu")
    own = loaded.task.contexts
    assert own.ranker == checkpoint / "ranker"
    assert own.key() == train_task(parse_recipe(values, "recipe")).contexts.key()
    document = own.of(BOOK)
    scorer = load_checkpoint(ranker, "cpu").predictor()
    stage = ContextStage(loaded.recipe.context, scorer)
    (same,) = predict(stage, [BOOK])
    assert document == same
    assert all(len(contexts) == 1 for contexts in document.sentence_contexts)
    again = pickle.loads(pickle.dumps(own)).of(BOOK)
    assert again == document
    assert own.of(document) is document, "contexts are looked for once"


def test_contexts_are_remembered_by_their_characters(
    with_ranker: tuple[dict[str, Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that annotates novels must not keep hundreds of them."""
    own = load_checkpoint(with_ranker[1], "cpu").task.contexts
    monkeypatch.setattr(in_recipes, "_REMEMBERED", 500)
    books = [replace(BOOK, document_id=str(number)) for number in range(10)]
    found = [own.of(book) for book in books]
    assert own.of(books[-1]).sentence_contexts is found[-1].sentence_contexts
    assert own.of(books[0]).sentence_contexts is not found[0].sentence_contexts
    sizes = [size for _, size in own._last.values()]
    assert 0 < len(sizes) < 5
    assert sum(sizes) == own._characters <= 500
    monkeypatch.setattr(in_recipes, "_REMEMBERED", 10)
    assert own.of(books[5]) == found[5]
    assert not own._last


def test_a_pipeline_with_a_ranker_before_answers_as_the_recipe_with_it(
    with_ranker: tuple[dict[str, Any], Path], ranker: Path, tmp_path: Path
) -> None:
    _, checkpoint = with_ranker
    text = "Ada went to Oslo. It rained in Turin. Kurt went to Oslo and came back. Ada slept."
    (tmp_path / "pipeline.yaml").write_text(
        f"stages:\n- checkpoint: {ranker}\n  methods: [bm25, before, after]\n  count: 1\n  candidates: 4\n"
        f"- checkpoint: {checkpoint}\n"
    )
    alone, chained = load_pipeline(checkpoint, "cpu"), load_pipeline(tmp_path / "pipeline.yaml", "cpu")
    assert [d.mentions for d in alone.predict([text])] == [d.mentions for d in chained.predict([text])]
    (tmp_path / "text.txt").write_text(text)
    read = []
    for number, model in enumerate((checkpoint, tmp_path / "pipeline.yaml")):
        out = tmp_path / f"out-{number}"
        annotate(model, [tmp_path / "text.txt"], out, also=["contexts"], workers=0)
        read.append(pq.read_table(out)["sentences"].to_pylist())
    assert read[0] == read[1]
    assert all(sentence["contexts"] for sentence in read[0][0])
    corpus = parse_recipe(with_ranker[0], "recipe").corpus.train[0]
    one, other = (
        evaluate(c, Path(corpus), intervals=False)["f1"] for c in (checkpoint, tmp_path / "pipeline.yaml")
    )
    assert one == other


def test_contexts_that_nobody_reads_are_refused(ranker: Path, tmp_path: Path) -> None:
    recipe = parse_recipe(tiny_recipe(tmp_path, "tagger", epochs=1, tokens_per_step=400), "recipe")
    checkpoint = train(recipe, tmp_path / "run")["checkpoint"]
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"stages:\n- checkpoint: {ranker}\n- checkpoint: {checkpoint}\n")
    with pytest.raises(RecipeError, match="no stage that reads them"):
        read_pipeline(path)


def test_a_ranker_alone_refuses_texts(ranker: Path) -> None:
    assert not read_pipeline(ranker).answers_documents
    with pytest.raises(InputError, match="scores pairs of a sentence and a context, not texts"):
        load_pipeline(ranker, "cpu").predict(["Ada."])


def test_a_ranker_that_answers_no_number_is_a_clear_error(ranker: Path) -> None:
    loaded = load_checkpoint(ranker, "cpu")
    with torch.no_grad():
        next(loaded.model.parameters()).fill_(float("nan"))
    with pytest.raises(CheckpointError, match="gives a score that is no number"):
        list(predict(ContextStage(settings(), loaded.predictor()), [BOOK]))


def test_what_is_no_ranker_is_refused(with_ranker: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    values, checkpoint = with_ranker
    for folder, message in ((checkpoint, "holds a tagger"), (tmp_path, "is no checkpoint of a ranker")):
        context = {**values["context"], "ranker": str(folder)}
        task = train_task(parse_recipe({**values, "context": context}, "recipe"))
        with pytest.raises(CheckpointError, match=message):
            task.windows_of(BOOK)
    missing = {**values, "context": {**values["context"], "ranker": str(tmp_path / "nowhere")}}
    with pytest.raises(RecipeError, match=r"context\.ranker"):
        train_task(parse_recipe(missing, "recipe")).windows_of(BOOK)


def test_long_pairs_are_cut_on_the_longer_side_and_counted() -> None:
    values = {"task": "ranker", "encoder": "random:32x2", "pairs": {"train": ["x"]}, "model": {"length": 21}}
    task: Any = train_task(parse_recipe(values, "recipe"))
    for one, other, kept in ((4, 50, (4, 14)), (50, 4, (14, 4)), (50, 50, (9, 9)), (9, 9, (9, 9))):
        window = task.pair(list(range(one)), list(range(100, 100 + other)))
        assert len(window.ids) == sum(kept) + 1
        assert window.ids[kept[0]] == task.tokenizer.sep_id
        assert window.cut == one + other - sum(kept)
