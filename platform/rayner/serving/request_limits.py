"""What a request may hold, and be answered with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rayner.counted import counted
from rayner.serving.application_settings import LimitSettings
from rayner.serving.model_schemas import KnowledgeBaseOut
from rayner.serving.problems import TooLarge
from rayner.serving.remote_stages import RemoteStage
from rayner.serving.schemas import RecognizeRequest
from rayner.serving.served_stages import AskedStage
from rayner.serving.typing_schemas import MarkedTextIn, TypeRequest
from rayner.tasks.predict import Predicted
from rayner.tasks.predictor_options import Options


def check_linked(
    bases: Sequence[KnowledgeBaseOut], top_k: int | None, most: int, found: Sequence[Predicted]
) -> None:
    """Raise TooLarge if mentions would get more candidates from knowledge bases than a request may have."""
    counts = Counter(mention.type for document, _ in found for mention in document.mentions)
    linked = [sum(counts[name] for name in base.types) if base.types else counts.total() for base in bases]
    check_candidates(sum(n * (top_k or base.top_k) for n, base in zip(linked, bases, strict=True)), most)


def check_candidates(count: int, most: int) -> None:
    """Raise TooLarge if a request would have more candidates than it may."""
    if count > most:
        what = f"{count:,} candidates: so many mentions, with so many candidates each"
        raise TooLarge("top_k", what, f"ask for fewer, or send less: {most:,} at most")


def check_texts(request: RecognizeRequest | TypeRequest, limits: LimitSettings) -> None:
    """Raise TooLarge if a request has more documents, characters, mentions or texts of types than it may."""
    if len(request.documents) > limits.documents:
        what, hint = f"{len(request.documents):,} documents", f"send {limits.documents:,} at most"
        raise TooLarge("documents", what, hint)
    characters = texts = mentions = 0
    for index, given in enumerate(request.types or ()):
        described = [given.name, given.description or "", given.keyword or ""]
        described += [*given.descriptions, *given.prototypes]
        texts += 1 + len(given.descriptions) + len(given.prototypes)
        characters += sum(map(len, described))
        if characters > limits.characters:
            what = f"the types up to this one have {characters:,} characters"
            raise TooLarge(f"types.{index}", what, f"send {limits.characters:,} at most")
    if texts > limits.types:
        what = counted(len(request.types or ()), "type")
        if texts > len(request.types or ()):
            what += f" of {texts:,} texts, with further descriptions and prototypes"
        raise TooLarge("types", what, f"send {limits.types:,} at most")
    for index, document in enumerate(request.documents):
        mentions += len(document.mentions) if isinstance(document, MarkedTextIn) else 0
        if mentions > limits.mentions:
            what = f"the documents up to this one have {mentions:,} mentions"
            raise TooLarge(f"documents.{index}.mentions", what, f"send {limits.mentions:,} at most")
        characters += len(document.text)
        if characters > limits.characters:
            what = f"the documents up to this one{' and the types' if request.types else ''} have"
            what += f" {characters:,} characters"
            raise TooLarge(f"documents.{index}.text", what, f"send {limits.characters:,} at most")


def check_type_tokens(asked: AskedStage, options: Options, most: int) -> None:
    """Raise TooLarge if types that are asked for have more sub-words than a model may read at once. May take
    a while.

    A stage that another deployment holds is left to that one, which has its tokenizer.
    """
    types = options.asked_types
    stage = asked.stage
    if isinstance(stage.predictor, RemoteStage) or types == stage.settings.options.asked_types:
        return
    texts = [text for t in types or () for text in (t.keyword or t.name, *t.guidelines, *t.prototypes)]
    if (count := sum(len(ids) for ids, _ in stage.loaded.task.tokenizer.batch(texts))) > most:
        what = f"{count:,} sub-words in what describes them"
        raise TooLarge("types", what, f"send fewer or shorter ones: {most:,} at most")
