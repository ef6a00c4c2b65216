"""Resolvers of other packages, imported only when asked for.

Each is tested against a stand-in with the interface that its documentation shows; none was ever run here with
the package's own weights.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rayner.data.schema import Document, Span
from rayner.data.sentences import sentences_of
from rayner.data.words import words_of
from rayner.errors import CorpusError, InputError, first_line

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Adapter:
    """A resolver of another package.

    Args:
        name: what it is called.
        package: as pip calls it.
        model: which of the package's models.
        load: the model's name -> what answers.
        chains: what answers, and a document -> chains.
    """

    name: str
    package: str
    model: str
    load: Callable[[str], Any]
    chains: Callable[[Any, Document], list[list[Span]]]

    @property
    def version(self) -> str:
        """The package's resolver, its model and what is installed of the package."""
        try:
            return f"{self.name}:{self.model} {version(self.package)}"
        except PackageNotFoundError:
            return f"{self.name}:{self.model}"

    def check(self) -> None:
        """Load it, and say that what it answers was never seen.

        Raises:
            InputError: the package or the model is not installed.
        """
        self.load(self.model)
        what = "rayner was tested beside a stand-in of %s, never with its weights: look at some of its chains"
        log.warning(what, self.name)

    def __call__(self, document: Document) -> list[list[Span]]:
        """The chains of a document; none of one without a word.

        Raises:
            CorpusError: the document is longer than the resolver takes.
        """
        return self.chains(self.load(self.model), document) if document.text.strip() else []


def coreferee(model: str = "") -> Adapter:
    """Coreferee (Hudson, github.com/richardpaulhudson/coreferee) in a pipeline of spaCy. Its mentions are
    head words; those of several words are left out."""
    return Adapter("coreferee", "coreferee", model or "en_core_web_trf", _coreferee, _chains_of_coreferee)


def fastcoref(model: str = "") -> Adapter:
    """fastcoref (Otmazgin et al. 2022), F-coref unless another model is named."""
    return Adapter("fastcoref", "fastcoref", model or "biu-nlp/f-coref", _fastcoref, _chains_of_fastcoref)


def maverick(model: str = "") -> Adapter:
    """Maverick (Martinelli et al. 2024), package maverick-coref. It is given words and sentences."""
    return Adapter(
        "maverick",
        "maverick-coref",
        model or "sapienzanlp/maverick-mes-ontonotes",
        _maverick,
        _chains_of_maverick,
    )


@cache
def _coreferee(model: str) -> Any:
    hint = f"pip install coreferee, python -m spacy download {model}, python -m coreferee install en"
    spacy = _imported("coreferee", "spacy", hint)
    _imported("coreferee", "coreferee", hint)
    try:
        pipeline = spacy.load(model)
        if "coreferee" not in pipeline.pipe_names:
            pipeline.add_pipe("coreferee")
    except (OSError, ValueError) as error:
        raise _missing("coreferee", f"{model} cannot be loaded ({first_line(error)})", hint) from None
    return pipeline


def _chains_of_coreferee(pipeline: Any, document: Document) -> list[list[Span]]:
    if (size := len(document.text)) > pipeline.max_length:
        what = f"{size} characters are more than coreferee reads at once, {pipeline.max_length}"
        raise CorpusError(document.document_id, what, "cut it into chapters")
    answer = pipeline(document.text)
    chains = []
    for chain in answer._.coref_chains:
        # Of a coordination such as `Ada and Kurt`, no word alone is the mention.
        tokens = [answer[mention.token_indexes[0]] for mention in chain if len(mention.token_indexes) == 1]
        chains.append([(token.idx, token.idx + len(token.text)) for token in tokens])
    return chains


def _loaded(module: str, distribution: str, name: str, model: str, argument: str) -> Any:
    hint = f"pip install {distribution}, and name a model that is in the cache or a folder"
    package = _imported(module, module, hint)
    try:
        return getattr(package, name)(**{argument: model}, device="cpu")
    except (OSError, ValueError) as error:
        raise _missing(module, f"{model} cannot be loaded ({first_line(error)})", hint) from None


@cache
def _fastcoref(model: str) -> Any:
    return _loaded("fastcoref", "fastcoref", "FCoref", model, "model_name_or_path")


def _chains_of_fastcoref(model: Any, document: Document) -> list[list[Span]]:
    (answer,) = model.predict(texts=[document.text])
    return [[(start, end) for start, end in chain] for chain in answer.get_clusters(as_strings=False)]


@cache
def _maverick(model: str) -> Any:
    return _loaded("maverick", "maverick-coref", "Maverick", model, "hf_name_or_path")


def _chains_of_maverick(model: Any, document: Document) -> list[list[Span]]:
    words = words_of(document, "corpus")
    if not words:
        return []
    starts = [start for start, _ in sentences_of(document)][1:]
    sentences: list[list[str]] = [[]]
    for start, end in words:
        while starts and start >= starts[0]:
            starts.pop(0)
            sentences.append([])
        sentences[-1].append(document.text[start:end])
    # Offsets count the words of all sentences, both ends inclusive.
    answer = model.predict([sentence for sentence in sentences if sentence])
    return [
        [(words[first][0], words[last][1]) for first, last in chain]
        for chain in answer["clusters_token_offsets"]
    ]


def _imported(resolver: str, module: str, hint: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise _missing(resolver, f"the package {module} is not installed", hint) from None


def _missing(resolver: str, what: str, hint: str) -> InputError:
    return InputError(f"--resolver {resolver}", what, hint)
