"""What tasks over annotated documents share: reading, windows and span metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rayner.config import DocumentRecipe
from rayner.counted import counted
from rayner.data.schema import Document
from rayner.errors import CorpusError
from rayner.models.encoder import Tokenizer
from rayner.tasks.corpus_task import CorpusTask, mention_of
from rayner.tasks.document_windows import (
    Gold,
    TextWindow,
    gold_of,
    known_rows,
    known_types,
    unknown_spans,
)
from rayner.tasks.required_types import require_absent, require_known, require_mentions
from rayner.tasks.splits import FoundDocuments

R = TypeVar("R", bound=DocumentRecipe)

_NONE = np.zeros(0, np.int32)


class DocumentTask(CorpusTask[R]):
    """A task that learns mentions in windows of documents."""

    examples_version = 5

    def __init__(self, recipe: R, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self.names = [t.name for t in recipe.types]

    def check_corpus(self) -> None:
        """Refuse a corpus that is said to be annotated for what is no type."""
        require_known(self.recipe.corpus, self.recipe.annotatable)

    def require(self, found: FoundDocuments) -> None:
        """Refuse documents without a mention of any of the types, or with one of an absent type."""
        require_mentions(found.mentions, self.names)
        require_absent(found.mentions, [one.name for one in getattr(self.recipe, "absent", ())])

    def lacking(self, found: FoundDocuments) -> str:
        """Mentions of any type."""
        return mention_of(self.names) if found.mentions.keys().isdisjoint(self.names) else ""

    def example_settings(self) -> Mapping[str, Any]:
        """What decides the examples: encoder, tokenizer, windows, contexts, type names, width limit."""
        settings = {
            "task": type(self).__name__,
            **self.encoder_settings,
            "windows": self.recipe.windows.model_dump(mode="json"),
            "types": self.names,
            "max_width": self.max_width,
        }
        return settings if self.contexts is None else {**settings, "context": self.contexts.key()}

    @property
    def reads_whole_documents(self) -> bool:
        """Whether sections of a document are not enough: its contexts may be anywhere in it."""
        return self.recipe.context is not None

    def rows(
        self, documents: Iterable[Document]
    ) -> Iterator[tuple[dict[str, Any], TextWindow, Sequence[Gold]]]:
        """A row for each window, the window, and all mentions of its document.

        A document's first row has `rejects`: a line for each mention that is left out or moved; `unknown`
        (first, last place) is flat.

        Raises:
            CorpusError: a document with mentions but without words.
        """
        type_index = {name: index for index, name in enumerate(self.names)}
        for document in documents:
            known = known_types(document, type_index)
            windows = self.windows_of(document)
            if not windows:
                if document.mentions:
                    what = f"{counted(len(document.mentions), 'mention')} and no word"
                    raise CorpusError(document.document_id, what, "mark what holds a letter, digit or sign")
                continue
            gold, rejects = gold_of(document, windows[0].subwords, type_index, self.max_width)
            unknown = unknown_spans(document, windows[0].subwords)
            for window in windows:
                yield (
                    {
                        "document_id": document.document_id,
                        **window.row,
                        "length": len(window),
                        "partly_known": known is not None,
                        "known": _NONE if known is None else known,
                        "unknown": window.within(unknown).astype(np.int32).ravel(),
                        "rejects": rejects if window.index == 0 else [],
                    },
                    window,
                    gold,
                )

    def known_of(self, examples: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Which of the types each example's document was annotated for: [B, K] booleans."""
        return known_rows([e["known"] if e["partly_known"] else None for e in examples], len(self.names))
