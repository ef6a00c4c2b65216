"""`corpus contexts`: rows from templates, from an endpoint that misbehaves, and from an extractor."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rayner.config import ContextSettings
from rayner.data.schema import Document
from rayner.data.writers import write_jsonl
from rayner.errors import CheckpointError, CorpusError, InputError, RecipeError
from rayner.runtime.corpora import labelled_contexts as module
from rayner.runtime.corpora.context_pairs import Generated, Labelled, contexts
from rayner.runtime.corpora.convert import convert
from rayner.runtime.corpora.part_folders import HIDDEN as CONVERTED
from rayner.supervision.context_rows import ContextRow, read_context_rows
from rayner.supervision.endpoint import Endpoint
from rayner.supervision.generation import generate_usable
from rayner.supervision.leakage import without_leaks
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.context_gains import Gain
from tests.pickled_actors import each_pickled
from tests.supervision.misbehaving_endpoint import Question, endpoint_that
from tests.tasks.small import built, marked, tagger

BOOKS = {
    "moby": "[PER:Ahab] left. [PER:Ishmael] came to [LOC:Nantucket]. The sea was calm.",
    "oliver": "[PER:Fagin] slept in [LOC:London]. It rained all night. [PER:Nancy] ran.",
    "alice": "[PER:Alice] fell. [PER:Dinah] waited by the river. Nothing else moved.",
}
EMMA = "[PER:Emma] came to [LOC:Highbury] with [PER:Harriet] and [PER:Jane]."


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    for name, text in BOOKS.items():
        write_jsonl([marked(text, name, group=name)], folder / f"{name}.jsonl")
    return folder


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sk-secret")


def rows_of(out: Path) -> list[ContextRow]:
    found = read_context_rows(out / "rows.jsonl")
    assert not found.rejects
    return found.rows


def at(url: str, **changes: Any) -> Endpoint:
    values: dict[str, Any] = {"timeout_s": 10.0, "attempts": 3, "backoff_s": 0.0, "concurrency": 1}
    return Endpoint(url, "small", key_variable="A_KEY", **{**values, **changes})


def entity_in(prompt: str) -> str:
    return next(
        name
        for name in re.findall(r":(\w+)\]", " ".join([*BOOKS.values(), EMMA]))
        if f"{name} is" in prompt or f"name {name}" in prompt or f"of {name}" in prompt
    )


def test_templates_make_balanced_rows(books: Path, tmp_path: Path) -> None:
    result = contexts([books], tmp_path / "out", Generated())
    rows = rows_of(tmp_path / "out")
    assert result["rows"] == len(rows) == 16
    assert result["relevant"] == sum(row.relevant for row in rows) == 8
    assert (result["documents"], result["sentences"], result["rejected"]) == (3, 9, 0)
    assert {row.group for row in rows} == set(BOOKS)
    again = contexts([books], tmp_path / "out", Generated())
    assert rows_of(tmp_path / "out") == rows
    assert {**again, "seconds": 0} == {**result, "seconds": 0}
    contexts([books], tmp_path / "out", Generated(), seed=1)
    assert rows_of(tmp_path / "out") != rows


def test_a_document_in_two_files_makes_rows_once(books: Path, tmp_path: Path) -> None:
    once = contexts([books], tmp_path / "once", Generated())
    again = tmp_path / "again"
    write_jsonl([marked(BOOKS["moby"], "moby", group="moby")], again / "a.jsonl")
    write_jsonl([marked("[PER:Ahab] slept.", "moby")], again / "b.jsonl")
    result = contexts([books, again], tmp_path / "twice", Generated())
    assert rows_of(tmp_path / "twice") == rows_of(tmp_path / "once")
    assert (result["documents"], result["sentences"]) == (once["documents"], once["sentences"])
    assert (result["duplicates"], result["rejected"]) == (1, 1)
    (reject,) = map(json.loads, (tmp_path / "twice/rejects.jsonl").read_text().splitlines())
    assert "document 'moby' differs from the one at" in reject["what"]


def test_no_row_has_a_sentence_of_what_is_left_out(books: Path, tmp_path: Path) -> None:
    result = contexts([books], tmp_path / "out", Generated(), leave_out=[books / "moby.jsonl"])
    rows = rows_of(tmp_path / "out")
    text = marked(BOOKS["moby"]).text
    assert without_leaks(rows, [("moby", text)])[0] == rows
    assert {row.group for row in rows} == {"oliver", "alice"}
    assert result["left_out"] == 3
    assert sum(row.relevant for row in rows) * 2 == len(rows)
    with pytest.raises(CorpusError, match="--leave-out has what would make rows"):
        contexts([books], tmp_path / "none", Generated(), leave_out=[books])


def test_nothing_leaves_unless_it_is_said(books: Path, tmp_path: Path) -> None:
    with endpoint_that(lambda q: q.say("x")) as (url, asked):
        result = contexts([books], tmp_path / "out", Generated(at(url)))
        assert not asked.prompts
    assert (result["texts"], result["rows"]) == (8, 0)
    assert result["host"] == url.removeprefix("http://").removesuffix("/v1")
    assert not (tmp_path / "out").exists()


def test_an_endpoint_that_misbehaves(books: Path, tmp_path: Path) -> None:
    """What mentions no entity is asked again; what fails is retried; nothing is paid for twice."""

    def answer(question: Question) -> None:
        name = entity_in(question.prompt)
        if name == "Ahab":
            question.say("He has one leg.")
        elif name == "Ishmael" and question.turn == 1:
            question.say("A sailor it was.")
        elif name == "Fagin":
            question.send(429, b"slow down") if question.turn == 1 else question.say("Fagin grinned.")
        elif name == "Nancy":
            question.cut() if question.turn < 3 else question.say("Nancy sang.")
        elif name == "Alice":
            question.say("\ud800")
        elif name == "Dinah":
            question.say("  ")
        else:
            question.say(f'"{name} was far away."')

    out = tmp_path / "out"
    with endpoint_that(answer) as (url, asked):
        asking = Generated(at(url), send=True)
        result = contexts([books], out, asking)
        turns = Counter({entity_in(p): n for p, n in asked.prompts.items()})
        assert turns == {
            "Ahab": 3,
            "Ishmael": 2,
            "Fagin": 2,
            "Nancy": 3,
            "Alice": 3,
            "Dinah": 3,
            "Nantucket": 1,
            "London": 1,
        }
        assert asked.keys == {"Bearer sk-secret"}
        positives = {row.context for row in rows_of(out) if row.relevant}
        assert positives == {
            *("Ishmael was far away.", "Nantucket was far away.", "London was far away."),
            *("Fagin grinned.", "Nancy sang."),
        }
        assert result["counts"]["without the entity"] == 1
        assert result["counts"]["without an answer"] == 2
        assert result["counts"]["kept"] == 5
        assert result["counts"]["asked again"] == 3
        assert (result["texts"], result["rows"], result["relevant"]) == (0, 10, 5)
        rows = rows_of(out)
        before = asked.prompts.total()
        contexts([books], out, asking)
        assert asked.prompts.total() == before, "all that was answered is in the ledger"
        assert rows_of(out) == rows
        (out / "rows.jsonl").unlink()
        contexts([books], out, Generated(at(url)))
        assert asked.prompts.total() == before, "rows from the ledger need no sending"
        assert rows_of(out) == rows
    assert "sk-secret" not in "".join(path.read_text() for path in out.iterdir())


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda q: q.send(500, b"broken"), "see whether the endpoint runs"),
        (lambda q: q.say("Nobody was there."), "no answer mentions its entity"),
        (lambda q: q.say(""), "the answers have no text: name another .* --max-tokens, or remove answers"),
    ],
)
def test_without_a_row_the_hint_is_about_the_endpoint(
    books: Path, tmp_path: Path, answer: Callable[[Question], None], hint: str
) -> None:
    with endpoint_that(answer) as (url, _):
        for _ in range(2):
            with pytest.raises(CorpusError, match=hint):
                contexts([books], tmp_path / "out", Generated(at(url, attempts=1), send=True))


def test_who_is_interrupted_pays_for_no_answer_twice(books: Path, tmp_path: Path) -> None:
    broken = True

    def answer(question: Question) -> None:
        if broken and asked.prompts.total() > 4:
            question.send(401, b"no credit")
        else:
            question.say(f"{entity_in(question.prompt)} was there.")

    with endpoint_that(answer) as (url, asked):
        asking = Generated(at(url), send=True)
        with pytest.raises(InputError, match="refuses with status 401"):
            contexts([books], tmp_path / "out", asking)
        paid = {json.loads(line)["key"] for line in (tmp_path / "out/answers.jsonl").open()}
        assert len(paid) == 4
        broken = False
        before = Counter(asked.prompts)
        result = contexts([books], tmp_path / "out", asking)
        assert result["relevant"] == 8
        assert (asked.prompts - before).total() == 4


def test_a_file_before_others_leaves_what_was_paid(books: Path, tmp_path: Path) -> None:
    with endpoint_that(lambda q: q.say(f"{entity_in(q.prompt)} was there.")) as (url, asked):
        asking = Generated(at(url), send=True)
        contexts([books], tmp_path / "out", asking)
        before = Counter(asked.prompts)
        write_jsonl([marked(EMMA, "emma", group="emma")], books / "a.jsonl")
        contexts([books], tmp_path / "out", asking)
    new = {entity_in(prompt) for prompt in asked.prompts - before}
    assert new == {"Emma", "Highbury", "Harriet", "Jane"}


def test_an_answer_that_cannot_be_used_is_asked_for_so_often(tmp_path: Path) -> None:
    with endpoint_that(lambda q: q.say(f"{q.prompt}{q.turn}")) as (url, asked):
        for again in (1 + 3, 0):
            given = generate_usable(
                at(url),
                ["a", "b", "c"],
                lambda place, answer: answer in ("a2", "b1"),
                tmp_path / "ledger.jsonl",
                send=True,
                tries=4,
            )
            assert given.answers == ["a2", "b1", "c4"]
            assert given.counts["asked again"] == again, "what is in the ledger is not"
        assert asked.prompts == {"a": 2, "b": 1, "c": 4}


def test_prompts_of_ones_own(books: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.yaml"
    prompts.write_text(
        "kinds:\n- {name: place, prompt: 'Where is {entity}?', templates: ['{entity} is {thing}.'], "
        "types: [LOC]}\nthings: {LOC: a town}\n"
    )
    result = contexts([books], tmp_path / "out", Generated(prompts=prompts))
    assert {row.context for row in rows_of(tmp_path / "out") if row.relevant} == {
        "Nantucket is a town.",
        "London is a town.",
    }
    assert result["counts"]["requests"] == 2
    for text, what in (
        ("kinds: []", "kinds"),
        (
            "kinds:\n- {name: a, prompt: nothing, templates: ['{entity}']}",
            r"'nothing' does not mention \{entity\}",
        ),
        ("kind: 1", "unknown key; did you mean 'kinds'"),
        ("- 1", "not a mapping"),
    ):
        prompts.write_text(text)
        with pytest.raises(RecipeError, match=what):
            contexts([books], tmp_path / "out", Generated(prompts=prompts))


@pytest.fixture(scope="module")
def extractor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = tagger(windows={"length": 60, "overlap": 8, "context": 30})
    folder = tmp_path_factory.mktemp("extractor") / "best"
    save_checkpoint(folder, task, built(task), {})
    return folder


def test_labels_of_an_extractor_go_on_where_they_stopped(
    books: Path, tmp_path: Path, extractor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_CHARACTERS", 1)
    settings = ContextSettings(methods=("surrounding",), count=2)
    source = Labelled(extractor, settings, minimum_gain=1e-9)
    whole = contexts([books], tmp_path / "whole", source)
    rows = rows_of(tmp_path / "whole")
    assert rows
    assert {row.relevant for row in rows} == {True, False}
    assert whole["counts"]["contexts"] == 2 * 6
    texts = {" ".join(marked(text).text.split()) for text in BOOKS.values()}
    for row in rows:
        assert any(row.sentence in text and row.context in text for text in texts)
    labelled: list[str] = []
    original = module.context_gains

    def stopping(checkpoint: Any, documents: list[Document], settings: ContextSettings) -> Any:
        if len(labelled) == 2:
            raise KeyboardInterrupt
        labelled.extend(document.document_id for document in documents)
        return original(checkpoint, documents, settings)

    with monkeypatch.context() as patch:
        patch.setattr(module, "context_gains", stopping)
        with pytest.raises(KeyboardInterrupt):
            contexts([books], tmp_path / "out", source)
    labelled.clear()
    monkeypatch.setattr(module, "context_gains", stopping)
    again = contexts([books], tmp_path / "out", source)
    assert len(labelled) == 1
    assert rows_of(tmp_path / "out") == rows
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}


@pytest.mark.parametrize(("gains", "relevant"), [((1, 1, 1, 0), 1), ((1, 0, 0, 0), 1), ((1, 1, 0, 0), 2)])
def test_as_many_contexts_help_as_do_not(
    books: Path,
    tmp_path: Path,
    extractor: Path,
    monkeypatch: pytest.MonkeyPatch,
    gains: tuple[int, ...],
    relevant: int,
) -> None:
    def known(checkpoint: Any, documents: list[Document], settings: ContextSettings) -> list[Gain]:
        group = documents[0].document_id
        return [Gain(f"sentence {n}", f"context {n}", gain, (), group) for n, gain in enumerate(gains)]

    monkeypatch.setattr(module, "context_gains", known)
    result = contexts([books / "moby.jsonl"], tmp_path / "out", Labelled(extractor))
    assert (result["relevant"], result["rows"]) == (relevant, 2 * relevant)
    assert result["counts"]["relevant"] == sum(gains)


def test_contexts_that_all_help_teach_nothing(
    books: Path, tmp_path: Path, extractor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "context_gains", lambda *_: [Gain("a", "b", 1.0, (), "g")])
    with pytest.raises(CorpusError, match=r"contexts 1, relevant 1; .*both .*--minimum-gain"):
        contexts([books / "moby.jsonl"], tmp_path / "out", Labelled(extractor))


def test_mentions_without_a_context_are_not_said_to_be_missing(tmp_path: Path, extractor: Path) -> None:
    write_jsonl([marked("[PER:Ahab] left.", "a")], tmp_path / "one.jsonl")
    with pytest.raises(
        CorpusError, match=r"mentions 1, none .* with contexts; name documents of several sent"
    ):
        contexts([tmp_path / "one.jsonl"], tmp_path / "out", Labelled(extractor))
    kinds = "kinds: [{name: move, prompt: 'To {entity}.', templates: ['{entity}.'], types: [LOC]}]"
    (tmp_path / "prompts.yaml").write_text(kinds)
    source = Generated(prompts=tmp_path / "prompts.yaml")
    with pytest.raises(CorpusError, match=r"mentions 1, of types without a kind of context; .*--prompts"):
        contexts([tmp_path / "one.jsonl"], tmp_path / "out", source)


def test_an_actor_labels_as_this_process(
    books: Path, tmp_path: Path, extractor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_CHARACTERS", 1)
    monkeypatch.setattr(module, "each_on_actors", each_pickled)
    source = Labelled(extractor, ContextSettings(methods=("surrounding",), count=2), minimum_gain=1e-9)
    one = contexts([books], tmp_path / "one", source)
    other = contexts([books], tmp_path / "other", source, workers=1)
    assert {**other, "seconds": 0} == {**one, "seconds": 0}
    assert rows_of(tmp_path / "other") == rows_of(tmp_path / "one")


def test_folders_and_checkpoints_that_cannot_be_used(books: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds the input"):
        contexts([books], books, Generated())
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(CorpusError, match="not from here"):
        contexts([books], other, Generated())
    with pytest.raises(CheckpointError):
        contexts([books], tmp_path / "out", Labelled(other))
    write_jsonl([Document("a", "Nobody here.")], tmp_path / "bare.jsonl")
    with pytest.raises(CorpusError, match="no row is left"):
        contexts([tmp_path / "bare.jsonl"], tmp_path / "out", Generated())


def test_rows_of_real_novels_train_no_evaluation(corpora: Path, tmp_path: Path) -> None:
    novels = corpora / "literary-ner-dekker"
    files = [novels / f"{name}.conll" for name in ("MobyDick", "Ulysses", "Frankenstein")]
    result = contexts(files, tmp_path / "out", Generated(), leave_out=[files[2]])
    rows = rows_of(tmp_path / "out")
    assert (result["rows"], result["relevant"], result["left_out"]) == (212, 106, 38)
    assert len(rows) == 212


def test_unfinished_work_of_another_command_is_not_taken_for_ones_own(books: Path, tmp_path: Path) -> None:
    for parts, command in (
        (module.PARTS, lambda out: convert([books], out)),
        (CONVERTED, lambda out: contexts([books], out, Generated())),
    ):
        out = tmp_path / parts.strip(".")
        (out / parts).mkdir(parents=True)
        (out / parts / "some.jsonl").write_text("hours of work")
        with pytest.raises(CorpusError, match="not from here"):
            command(out)
        assert (out / parts / "some.jsonl").exists()
