"""The spaCy component: mentions at tokens, entities, batches, and a folder that can be moved."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention, mention_from_row
from rayner.data.writers import write_jsonl
from rayner.errors import CheckpointError, InputError
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.stages import load_pipeline
from tests.serving.checkpoints import PEOPLE, TEXTS, ranker_folder, recognizer_folder, standardizer_folder
from tests.tasks.gaussian.small_gaussian import SUPPORT, gaussian, learned
from tests.tasks.small import corpus, tagger, trained

pytestmark = pytest.mark.skipif(find_spec("spacy") is None, reason="the extra spacy is not installed")
WORDS = st.sampled_from(
    [*" ".join(TEXTS).split(), "e\u0301", "\U0001f600", "\u4e2d\u6587", "\u200b", "don't", "U.K."]
)
SPACES = st.sampled_from([" ", "  ", "\n", "\u00a0", ""])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recognizer, a standardizer with an index, and a pipeline file of both."""
    folder = tmp_path_factory.mktemp("spacy")
    recognizer_folder(folder / "recognizer")
    checkpoint, index = standardizer_folder(folder / "people", PEOPLE)
    stages = [
        {"checkpoint": "recognizer"},
        {"checkpoint": str(checkpoint), "index": str(index), "types": ["PER"], "operating_point": "never"},
    ]
    (folder / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    return folder


@pytest.fixture(scope="module")
def factory(root: Path) -> Any:
    """What the entry point names, which spaCy imports by itself where the package is installed."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    ((name, value),) = project["entry-points"]["spacy_factories"].items()
    return EntryPoint(name, value, "spacy_factories").load()


def library() -> Any:
    """spaCy, whose import takes a second in every process that collects tests."""
    import spacy

    return spacy


def nlp_with(checkpoint: Path, **config: Any) -> Any:
    nlp = library().blank("en")
    nlp.add_pipe("rayner", config={"checkpoint": str(checkpoint), **config})
    return nlp


def known(doc: Any) -> list[tuple[Any, ...]]:
    return [(s.start_char, s.end_char, s.label_, s.kb_id_) for s in doc.spans["sc"]]


@pytest.fixture(scope="module")
def found(folder: Path, factory: Any) -> tuple[Any, Any]:
    """spaCy's pipeline and ours, of the recognizer with nested mentions."""
    nlp = nlp_with(folder / "recognizer", options={"overlap": "nested", "shift": -0.5})
    return nlp, load_pipeline(folder / "recognizer", "cpu", overlap="nested", shift=-0.5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(WORDS, SPACES), max_size=12).map(lambda pairs: "".join(a + b for a, b in pairs)))
def test_mentions_are_those_of_the_pipeline_at_spacys_tokens(found: tuple[Any, Any], text: str) -> None:
    nlp, pipeline = found
    doc = nlp(text)
    words = tuple((token.idx, token.idx + len(token)) for token in doc if not token.is_space)
    (expected,) = pipeline.predict([Document("0", text, words=words)])
    assert known(doc) == [(m.start, m.end, m.type, "") for m in expected.mentions]
    scored = [mention_from_row(row) for row in doc.user_data["rayner"]]
    assert [m.type for m in scored] == [m.type for m in expected.mentions]
    assert [m.score for m in scored] == pytest.approx([m.score for m in expected.mentions], abs=1e-4)
    # No two overlap, and each mention overlaps one of them.
    flat = [(e.start_char, e.end_char) for e in doc.ents]
    assert set(flat) <= {(m.start, m.end) for m in expected.mentions}
    assert all(any(a < m.end and m.start < b for a, b in flat) for m in expected.mentions)


def test_entities_are_linked_in_batches_and_the_folder_can_be_moved(
    folder: Path, factory: Any, tmp_path: Path
) -> None:
    own = shutil.copytree(folder, tmp_path / "own")
    stages = yaml.safe_load((own / "pipeline.yaml").read_text().replace(str(folder), str(own)))
    (own / "pipeline.yaml").write_text(yaml.safe_dump(stages))
    nlp = nlp_with(own / "pipeline.yaml")
    docs = list(nlp.pipe(TEXTS, batch_size=3))
    expected = load_pipeline(own / "pipeline.yaml", "cpu").predict(
        [
            Document(str(i), d.text, words=tuple((t.idx, t.idx + len(t)) for t in d))
            for i, d in enumerate(docs)
        ]
    )
    answers = [known(doc) for doc in docs]
    assert answers == [
        [(m.start, m.end, m.type, m.entity_id or "") for m in document.mentions] for document in expected
    ]
    assert any(kb_id for doc in answers for *_, kb_id in doc)
    names = {entity.entity_id: entity.name for entity in PEOPLE}
    assert [row["name"] for doc in docs for row in doc.user_data["rayner"]] == [
        names.get(kb_id) for doc in answers for *_, kb_id in doc
    ]
    assert [e.kb_id_ for doc in docs for e in doc.ents] == [kb_id for doc in answers for *_, kb_id in doc]
    assert [known(nlp(text)) for text in TEXTS] == answers
    nlp.to_disk(tmp_path / "saved")
    shutil.rmtree(own)
    (tmp_path / "saved").rename(tmp_path / "moved")
    moved = library().load(tmp_path / "moved")
    assert [known(doc) for doc in moved.pipe(TEXTS)] == answers
    # Into the folder that it was read from.
    moved.to_disk(tmp_path / "moved")
    assert [known(doc) for doc in library().load(tmp_path / "moved").pipe(TEXTS)] == answers
    read = library().tokens.Doc(moved.vocab).from_bytes(docs[0].to_bytes())
    assert known(read) == answers[0]
    assert read.user_data["rayner"] == docs[0].user_data["rayner"]


def test_contexts_of_a_pipeline_file_come_along(factory: Any, tmp_path: Path) -> None:
    own = tmp_path / "own"
    task = tagger(windows={"length": 40, "overlap": 10, "context": 12})
    save_checkpoint(own / "tagger", task, trained(task, corpus(), 30), {})
    ranker_folder(own / "ranker")
    context = {"methods": ["before"], "candidates": 2, "ranker": "ranker", "budget": 8}
    stages = [{"checkpoint": "tagger", "context": context}]
    (own / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    nlp, text = nlp_with(own / "pipeline.yaml"), " ".join(TEXTS)
    answers, version = known(nlp(text)), nlp.get_pipe("rayner").settings.version
    assert answers
    nlp.to_disk(tmp_path / "saved")
    shutil.rmtree(own)
    moved = library().load(tmp_path / "saved")
    assert known(moved(text)) == answers
    assert moved.get_pipe("rayner").settings.version == version
    # As spaCy sends it to processes that are not forked.
    sent = pickle.loads(pickle.dumps(moved.get_pipe("rayner")))
    assert known(sent(library().blank("en")(text))) == answers
    (stage,) = moved.get_pipe("rayner").settings.stages
    assert stage.where == f"{tmp_path}/saved/rayner/rayner.json: stages.0"


def test_where_answers_go_is_chosen(folder: Path, factory: Any) -> None:
    doc = nlp_with(folder / "recognizer", spans_key=None)(TEXTS[0])
    assert doc.ents
    assert not doc.spans
    doc = nlp_with(folder / "recognizer", spans_key="mine", ents=False)(TEXTS[0])
    assert not doc.ents
    assert doc.spans["mine"]


def test_mentions_that_widen_to_one_token_are_one_entity(folder: Path, factory: Any) -> None:
    nlp, text = nlp_with(folder / "recognizer"), "see https://a.de/kafka/java-8"
    found = (Mention(17, 22, "LOC"), Mention(23, 29, "PER"))
    answer = SimpleNamespace(predict=lambda given: [replace(d, mentions=found) for d in given])
    nlp.get_pipe("rayner")._pipeline = answer
    (doc,) = nlp.pipe([text])
    assert known(doc) == [(4, 29, "LOC", ""), (4, 29, "PER", "")]
    assert [(e.start_char, e.end_char, e.label_) for e in doc.ents] == [(4, 29, "LOC")]
    assert [(row["start"], row["end"]) for row in doc.user_data["rayner"]] == [(17, 22), (23, 29)]


def test_it_is_not_written_over_something_else(folder: Path, factory: Any, tmp_path: Path) -> None:
    (tmp_path / "rayner").mkdir()
    (tmp_path / "rayner/thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something other than a component; name another folder"):
        nlp_with(folder / "recognizer").to_disk(tmp_path)
    assert (tmp_path / "rayner/thesis.txt").exists()


def test_what_cannot_be_used_is_said(folder: Path, factory: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="RUN/best"):
        nlp_with(tmp_path / "nowhere")("text")
    with pytest.raises(InputError, match="takes no documents"):
        nlp_with(folder / "people" / "best")("text")
    with pytest.raises(InputError, match="sharpness: is no option of a recognizer"):
        nlp_with(folder / "recognizer", options={"sharpness": 1})("text")


def test_a_saved_component_is_not_loaded_with_other_options(
    folder: Path, factory: Any, tmp_path: Path
) -> None:
    nlp_with(folder / "recognizer", options={"shift": -1.0}).to_disk(tmp_path / "saved")
    nlp_with(folder / "recognizer").from_disk(tmp_path / "saved")
    with pytest.raises(InputError, match="are not the options that it was saved with"):
        library().load(tmp_path / "saved", config={"components": {"rayner": {"options": {"shift": 2.0}}}})


def test_importing_the_component_imports_no_model(root: Path) -> None:
    """spaCy imports it wherever rayner is installed, whether or not a pipeline has it."""
    # Without torch, which spaCy imports where it is: we do not, and it takes two seconds.
    block = "import sys; sys.modules['torch'] = None; "
    probe = block + "import rayner.integrations.spacy_component; print(*sys.modules)"
    environment = {"PYTHONPATH": str(root / "platform"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "rayner.integrations.spacy_component" in done.stdout
    assert {"ray", "transformers", "rayner.tasks", "rayner.models"}.isdisjoint(done.stdout.split())


def test_a_file_that_an_option_names_moves_along(factory: Any, tmp_path: Path) -> None:
    task = gaussian()
    save_checkpoint(tmp_path / "best", task, learned(task, corpus(), 10), {})
    support = tmp_path / "support.jsonl"
    write_jsonl(corpus(SUPPORT), support)
    nlp = nlp_with(tmp_path / "best", options={"support": str(support)})
    text = corpus(SUPPORT)[0].text
    answer = known(nlp(text))
    assert answer
    nlp.to_disk(tmp_path / "saved")
    support.unlink()
    assert known(library().load(tmp_path / "saved")(text)) == answer


def test_entities_that_are_there_stay(folder: Path, factory: Any) -> None:
    nlp, text = library().blank("en"), "Ada Lovelace saw Oslo"
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "NAME", "pattern": "Lovelace"}])
    nlp.add_pipe("rayner", config={"checkpoint": str(folder / "recognizer")})
    found = (Mention(0, 12, "PER"), Mention(17, 21, "LOC"))
    answer = SimpleNamespace(predict=lambda given: [replace(d, mentions=found) for d in given])
    nlp.get_pipe("rayner")._pipeline = answer
    doc = nlp(text)
    assert [(e.text, e.label_) for e in doc.ents] == [("Lovelace", "NAME"), ("Oslo", "LOC")]
    assert [(s.text, s.label_) for s in doc.spans["sc"]] == [("Ada Lovelace", "PER"), ("Oslo", "LOC")]


def test_what_one_component_found_another_goes_on_with(folder: Path, factory: Any) -> None:
    """As a typer does: it finds no mentions, and keeps scores, nested mentions and entities of a ruler."""
    nlp, text = library().blank("en"), "Ada Lovelace saw Oslo"
    nlp.add_pipe("rayner", "finds", config={"checkpoint": str(folder / "recognizer")})
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "ACT", "pattern": "saw"}])
    nlp.add_pipe("rayner", "types", config={"checkpoint": str(folder / "recognizer")})
    nlp.add_pipe("rayner", "other", config={"checkpoint": str(folder / "recognizer"), "spans_key": "other"})
    found = (Mention(0, 12, "PER", score=0.75), Mention(4, 12, "PER", score=0.5))
    nlp.get_pipe("finds")._pipeline = SimpleNamespace(
        predict=lambda given: [replace(d, mentions=found) for d in given]
    )
    nlp.get_pipe("types")._settings = SimpleNamespace(finds_mentions=False)
    nlp.get_pipe("types")._pipeline = SimpleNamespace(
        predict=lambda given: [
            replace(d, mentions=tuple(replace(m, types=(("/x", 1.0),)) for m in d.mentions)) for d in given
        ]
    )
    nlp.get_pipe("other")._pipeline = SimpleNamespace(predict=lambda given: given)
    doc = nlp(text)
    rows = doc.spans["sc"].attrs["rayner"]
    assert [(row["start"], row["end"], row["type"], row["score"]) for row in rows] == [
        (0, 12, "PER", 0.75),
        (4, 12, "PER", 0.5),
        (13, 16, "ACT", None),
    ]
    assert all(row["types"] for row in rows)
    assert [e.text for e in doc.ents] == ["Ada Lovelace", "saw"]
    assert len(doc.spans["sc"]) == 3
    assert doc.spans["other"].attrs["rayner"] == doc.user_data["rayner"] == []
    again = library().tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert again.spans["sc"].attrs["rayner"] == rows
