"""The documents of a corpus with what of them was counted, and a sample of their sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from rayner.data.schema import Document
from rayner.runtime.corpora.distinct import Distinct
from rayner.supervision.synthetic_contexts import SourceSentence

SENTENCES = 50_000
"""Of other documents, from which contexts that do not help are drawn."""


class CountedCorpus(Distinct):
    """The documents of files, each id once, and what of them was counted on the way."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths, "contexts")
        self.sentences = self.mentions = 0

    def __iter__(self) -> Iterator[Document]:
        for document in super().__iter__():
            self.mentions += len(document.mentions)
            yield document


class Drawn:
    """A sample of the sentences that pass, each as likely, however many they are."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.sentences: list[SourceSentence] = []
        self.seen = 0

    def passed(self, sentences: Iterable[SourceSentence]) -> Iterator[SourceSentence]:
        """The same sentences."""
        for sentence in sentences:
            self.seen += 1
            if len(self.sentences) < SENTENCES:
                self.sentences.append(sentence)
            elif (place := int(self._rng.integers(self.seen))) < SENTENCES:
                self.sentences[place] = sentence
            yield sentence
