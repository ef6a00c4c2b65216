"""Adapters beside stand-ins that have the interface of the packages, whose weights were never run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rayner.data.schema import Document
from rayner.errors import CorpusError, InputError
from rayner.supervision.resolvers import adapters
from rayner.tasks.resolvers import resolvers

TEXT = "Ada Lovelace wrote. She and Kurt slept."
DOCUMENT = Document("d", TEXT)


@pytest.fixture(autouse=True)
def nothing_loaded() -> Iterator[None]:
    """Each test loads its own stand-in."""
    for loader in (adapters._coreferee, adapters._fastcoref, adapters._maverick):
        loader.cache_clear()
    yield
    for loader in (adapters._coreferee, adapters._fastcoref, adapters._maverick):
        loader.cache_clear()


def texts(found: list[list[tuple[int, int]]]) -> list[list[str]]:
    return [[TEXT[slice(*span)] for span in chain] for chain in found]


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(members)
    return made


class Pipeline:
    """spaCy with coreferee: `doc._.coref_chains` holds chains of mentions with `token_indexes`."""

    max_length = len(TEXT)

    def __init__(self) -> None:
        self.pipe_names = ["parser"]

    def add_pipe(self, name: str) -> None:
        self.pipe_names.append(name)

    def __call__(self, text: str) -> Any:
        assert "coreferee" in self.pipe_names
        tokens = [SimpleNamespace(idx=text.index(word), text=word) for word in ("Lovelace", "She", "Kurt")]

        class Doc(list[Any]):
            _ = SimpleNamespace(coref_chains=[])

        doc = Doc(tokens)
        mentions = [SimpleNamespace(token_indexes=indexes) for indexes in ([0], [1], [1, 2])]
        doc._.coref_chains = [mentions]
        return doc


def test_another_version_of_a_package_is_another_resolver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver, found = adapters.maverick(), []
    for number in ("1.0", "1.1"):
        about = tmp_path / number / f"maverick_coref-{number}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: maverick-coref\nVersion: {number}\n")
        monkeypatch.setattr(sys, "path", [str(about.parent), *sys.path])
        found.append(resolver.version)
    assert found == [f"maverick:sapienzanlp/maverick-mes-ontonotes {number}" for number in ("1.0", "1.1")]


def test_coreferee_answers_with_head_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", module("spacy", load=lambda name: Pipeline()))
    monkeypatch.setitem(sys.modules, "coreferee", module("coreferee"))
    resolver = adapters.coreferee()
    resolver.check()
    assert resolver.version == "coreferee:en_core_web_trf"
    assert texts(resolver(DOCUMENT)) == [["Lovelace", "She"]]
    with pytest.raises(CorpusError, match="d: 40 characters are more than coreferee reads at once, 39"):
        resolver(Document("d", TEXT + " "))


class FCoref:
    """fastcoref: `predict(texts=[...])` gives answers with `get_clusters(as_strings=False)`."""

    def __init__(self, model_name_or_path: str, device: str) -> None:
        self.name = model_name_or_path

    def predict(self, texts: list[str]) -> list[Any]:
        clusters = [[(0, 12), (20, 23)]]
        return [SimpleNamespace(get_clusters=lambda as_strings: clusters) for _ in texts]


def test_fastcoref_answers_with_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastcoref", module("fastcoref", FCoref=FCoref))
    resolver = adapters.fastcoref("folder")
    assert resolver.version == "fastcoref:folder"
    assert texts(resolver(DOCUMENT)) == [["Ada Lovelace", "She"]]
    assert resolver(Document("e", " \n")) == []


class Maverick:
    """maverick: `predict(sentences of words)` gives inclusive offsets of words."""

    def __init__(self, hf_name_or_path: str, device: str) -> None:
        self.given: Any = None

    def predict(self, sentences: list[list[str]]) -> dict[str, Any]:
        assert sentences == [["Ada", "Lovelace", "wrote", "."], ["She", "and", "Kurt", "slept", "."]]
        return {"clusters_token_offsets": [((0, 1), (4, 4))]}


def test_who_uses_an_adapter_is_told_once_that_it_was_never_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "fastcoref", module("fastcoref", FCoref=FCoref))
    (resolver,) = resolvers(["fastcoref"])
    assert resolver(DOCUMENT) == resolver(DOCUMENT)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "a stand-in of fastcoref, never with its weights" in line


def test_maverick_answers_with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "maverick", module("maverick", Maverick=Maverick))
    assert texts(adapters.maverick()(DOCUMENT)) == [["Ada Lovelace", "She"]]


@pytest.mark.parametrize(
    ("make", "package", "command"),
    [
        (adapters.coreferee, "spacy", "pip install coreferee"),
        (adapters.fastcoref, "fastcoref", "pip install fastcoref"),
        (adapters.maverick, "maverick", "pip install maverick-coref"),
    ],
)
def test_what_is_missing_is_named(
    make: Any, package: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError) as error:
        make().check()
    assert package in error.value.what
    assert command in error.value.hint


def test_a_model_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> Any:
        raise OSError("no such model\nmore")

    monkeypatch.setitem(sys.modules, "fastcoref", module("fastcoref", FCoref=fail))
    with pytest.raises(InputError, match=r"far/away cannot be loaded \(no such model\)"):
        adapters.fastcoref("far/away").check()
