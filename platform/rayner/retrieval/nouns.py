"""The nouns of a document's sentences: by spaCy, by NLTK, or by a light tagger that needs no model."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import regex

from rayner.config.documents import NounTagger
from rayner.errors import InputError
from rayner.retrieval.same_noun import Tagger
from rayner.supervision.spacy_pipelines import spacy_pipeline

NLTK_TAGGER = "taggers/averaged_perceptron_tagger_eng"
HEAD_SHARE = 0.2
"""The share of its occurrences at the end of a noun phrase from which on a lower-case word is a noun."""
COMMON_SHARE = 0.05
"""In a script without case, a word of a larger share of the sentences is no noun."""

_DETERMINERS = frozenset(
    {"a", "an", "the", "this", "that", "these", "those", "no", "some", "any", "each", "every", "another"}
    | {"my", "your", "his", "her", "its", "our", "their"}
)
# The list of scikit-learn holds a few nouns.
_LISTED_NOUNS = {
    *("amount", "bill", "bottom", "call", "computer", "cry", "detail", "fill", "fire", "front", "interest"),
    *("mill", "name", "part", "side", "system"),
}
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}\p{N}’'-]+")
_CASED = regex.compile(r"[\p{Lu}\p{Ll}]")
_ENDINGS = ("tion", "sion", "ness", "ment", "ship", "hood", "ism", "ance", "ence")


def noun_tagger(name: NounTagger = "light", lemmas: bool = False, where: str = "nouns") -> tuple[str, Tagger]:
    """A tagger and its name; `auto` is the first of spaCy, NLTK and light whose models are installed.

    Of 2,500 sentences of a novel, spaCy took 40 times as long as `light`, whose nouns had a precision of 0.86
    and a recall of 0.81 against those of spaCy.

    Args:
        lemmas: give base forms in place of the words as written.
        where: the setting that names the tagger.

    Raises:
        InputError: the tagger or its model is not installed.
    """
    if name == "auto":
        for installed in ("spacy", "nltk"):
            try:
                return noun_tagger(installed, lemmas)
            except InputError:
                continue
        return "light", partial(light_nouns, lemmas=lemmas)
    if name == "spacy":
        return name, partial(_spacy_nouns, spacy_pipeline(where, ["parser", "ner"]), lemmas=lemmas)
    if name == "nltk":
        return name, partial(_nltk_nouns, _load_nltk(lemmas, where), lemmas=lemmas)
    return name, partial(light_nouns, lemmas=lemmas)


def light_nouns(sentences: Sequence[Sequence[str]], lemmas: bool = False) -> list[list[str]]:
    """Nouns by where their words occur in the document, for English; names and rare words for all languages.

    A word is a noun where it is capitalized within a sentence, or begins one and is found elsewhere only
    capitalized, and where it often ends a phrase that a determiner begins (`the old whale was`). In
    scripts without case, so is every word that few sentences have. Without a model, some verbs and adjectives
    pass, and nouns without an article are missed.
    """
    heads, seen, inside, spread = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for words in sentences:
        for place, word in enumerate(words):
            seen[word] += 1
            heads[word] += _is_head(words, place)
            inside[word] += _is_capitalized(word) and _is_within(words, place)
        spread.update(set(words))
    common = max(1, COMMON_SHARE * len(sentences))

    def is_noun(words: Sequence[str], place: int) -> bool:
        word = words[place]
        if not _WORD.fullmatch(word) or word.lower() in _function_words():
            return False
        if not _CASED.match(word):
            return spread[word] <= common
        if _is_capitalized(word):
            return inside[word] > 0 or not seen[word.lower()] or is_common(word.lower())
        return is_common(word)

    def is_common(word: str) -> bool:
        return heads[word] >= max(1, HEAD_SHARE * seen[word]) or word.endswith(_ENDINGS)

    chosen = ([w for place, w in enumerate(words) if is_noun(words, place)] for words in sentences)
    return [[_singular(word) if lemmas else word for word in nouns] for nouns in chosen]


def _is_head(words: Sequence[str], place: int) -> bool:
    """Whether a determiner is one or two words before, and no word of content comes next."""
    following = words[place + 1] if place + 1 < len(words) else "."
    if following[0].isalpha() and following.lower() not in _function_words():
        return False
    before = [word.lower() for word in words[max(0, place - 2) : place]]
    if before[-1:] and before[-1] in _DETERMINERS:
        return True
    return len(before) == 2 and before[0] in _DETERMINERS and before[1] not in _function_words()


@cache
def _function_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS | {"said", "would", "shall"}) - _LISTED_NOUNS


def _is_capitalized(word: str) -> bool:
    return word[:1].isupper()


def _is_within(words: Sequence[str], place: int) -> bool:
    """Whether something other than a mark comes before; the first word of a sentence says nothing."""
    return any(word[0].isalnum() for word in words[max(0, place - 1) : place])


def _singular(word: str) -> str:
    lower = word.lower()
    if lower.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if lower.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def _spacy_nouns(pipeline: Any, sentences: Sequence[Sequence[str]], lemmas: bool) -> list[list[str]]:
    tokens: Any = importlib.import_module("spacy.tokens")
    documents = (tokens.Doc(pipeline.vocab, words=list(words)) for words in sentences)
    return [
        [token.lemma_ if lemmas else token.text for token in found if token.pos_ in ("NOUN", "PROPN")]
        for found in pipeline.pipe(documents)
    ]


def _load_nltk(lemmas: bool, where: str) -> Any:
    needed = [NLTK_TAGGER, *(["corpora/wordnet"] if lemmas else [])]
    try:
        nltk: Any = importlib.import_module("nltk")
        for resource in needed:
            _find(nltk, resource)
    except (ImportError, LookupError):
        names = " ".join(resource.rpartition("/")[2] for resource in needed)
        hint = f"pip install nltk, then python -m nltk.downloader {names}"
        raise InputError(where, f"NLTK with {names} is not installed", hint) from None
    return nltk


def _find(nltk: Any, resource: str) -> None:
    """Find a resource of NLTK, unpacked or as the archive that its downloader leaves."""
    try:
        nltk.data.find(resource)
    except LookupError:
        nltk.data.find(f"{resource}.zip")


def _nltk_nouns(nltk: Any, sentences: Sequence[Sequence[str]], lemmas: bool) -> list[list[str]]:
    tagged = nltk.pos_tag_sents([list(words) for words in sentences])
    nouns = [[word for word, tag in of_one if tag.startswith("NN")] for of_one in tagged]
    if not lemmas:
        return nouns
    base_form = nltk.stem.WordNetLemmatizer().lemmatize
    return [[base_form(word) for word in of_one] for of_one in nouns]
