"""From answers to what goes over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rayner.counted import counted
from rayner.data.mention_strings import name_of
from rayner.data.schema import UNTYPED, Document, Mention, context_to_row
from rayner.errors import InputError
from rayner.serving.schemas import (
    AnnotateReply,
    AnswerOut,
    CandidateOut,
    ContextOut,
    DocumentOut,
    FineTypeOut,
    LinkedDocumentOut,
    LinkedMentionOut,
    MentionOut,
    RecognizeReply,
    SentenceOut,
    StandardizeReply,
    TextIn,
    Versions,
)
from rayner.serving.typing_schemas import MarkedTextIn, TypedDocumentOut, TypedMentionOut, TypeReply
from rayner.tasks.predict import Predicted
from rayner.tasks.recognizer.types import Threshold
from rayner.tasks.standardizer.predictor import Answer


def documents_of(given: Sequence[TextIn]) -> list[Document]:
    """The request's documents."""
    return [
        Document(str(index) if document.document_id is None else document.document_id, document.text)
        for index, document in enumerate(given)
    ]


def marked_documents_of(given: Sequence[MarkedTextIn]) -> list[Document]:
    """The request's documents with their mentions.

    Raises:
        InputError: a mention that is empty or not within its text.
    """
    for index, text in enumerate(given):
        for number, mention in enumerate(text.mentions):
            if not mention.start < mention.end <= len(text.text):
                size = counted(len(text.text), "character")
                what = f"{mention.start} to {mention.end} is no span of {size}"
                where = f"documents.{index}.mentions.{number}"
                raise InputError(where, what, "count Unicode code points, the end exclusive")
    return [
        replace(document, mentions=tuple(Mention(m.start, m.end, UNTYPED) for m in text.mentions))
        for document, text in zip(documents_of(given), given, strict=True)
    ]


def recognize_reply(
    found: Sequence[Predicted], new_types: Mapping[str, Threshold], versions: Versions, contexts: bool = False
) -> RecognizeReply:
    """Documents with mentions; with `contexts`, their sentences with those that were chosen for each."""
    documents = [
        DocumentOut(
            document_id=document.document_id,
            windows=windows,
            mentions=[MentionOut(**_fields(document, mention)) for mention in document.mentions],
            sentences=_sentences(document) if contexts else None,
        )
        for document, windows in found
    ]
    return RecognizeReply(documents=documents, new_types=dict(new_types), versions=versions)


def annotate_reply(
    found: Sequence[Predicted],
    new_types: Mapping[str, Threshold],
    versions: Versions,
    contexts: bool = False,
) -> AnnotateReply:
    """As `recognize_reply`, with linked mentions."""
    documents = [
        LinkedDocumentOut(
            document_id=document.document_id,
            windows=windows,
            mentions=[_linked(document, mention) for mention in document.mentions],
            sentences=_sentences(document) if contexts else None,
        )
        for document, windows in found
    ]
    return AnnotateReply(documents=documents, new_types=dict(new_types), versions=versions)


def type_reply(
    found: Sequence[Predicted], new_types: Mapping[str, Threshold], versions: Versions
) -> TypeReply:
    """Documents whose mentions have fine types."""
    documents = [
        TypedDocumentOut(
            document_id=document.document_id,
            windows=windows,
            mentions=[TypedMentionOut.model_validate(_fields(document, m)) for m in document.mentions],
        )
        for document, windows in found
    ]
    return TypeReply(documents=documents, new_types=dict(new_types), versions=versions)


def standardize_reply(answers: Sequence[Answer], versions: Versions) -> StandardizeReply:
    """Answers to mentions."""
    rows = [AnswerOut.model_validate(answer.to_row()) for answer in answers]
    return StandardizeReply(answers=rows, versions=versions)


def _linked(document: Document, mention: Mention) -> LinkedMentionOut:
    candidates = [CandidateOut.model_validate(asdict(one)) for one in mention.candidates]
    return LinkedMentionOut(
        **_fields(document, mention),
        entity_id=mention.entity_id,
        name=None
        if mention.entity_id is None
        else name_of(mention.entity_id, {one.entity_id: one.name for one in candidates}),
        probability=mention.probability,
        candidates=candidates,
    )


def _fields(document: Document, mention: Mention) -> dict[str, Any]:
    return {
        "start": mention.start,
        "end": mention.end,
        "text": document.text[mention.start : mention.end],
        "type": mention.type,
        "score": mention.score,
        "margin": mention.margin,
        "uncertainty": mention.uncertainty,
        "types": [FineTypeOut(name=name, score=score) for name, score in mention.types],
    }


def _sentences(document: Document) -> list[SentenceOut] | None:
    if document.sentence_contexts is None:
        return None
    return [
        SentenceOut(
            start=start,
            end=end,
            contexts=[ContextOut(**context_to_row(context)) for context in contexts],
        )
        for (start, end), contexts in zip(document.sentences or (), document.sentence_contexts, strict=True)
    ]
