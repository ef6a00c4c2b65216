"""Mentions in windows of sub-words, and the place in each where the mention's vector is read (papers/003,
section 4.2 and table 4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rayner.config import WindowSettings
from rayner.config.typer import MentionEncoding
from rayner.data.schema import Document, Mention
from rayner.data.windows import SubWords, locate, owner
from rayner.errors import RecipeError
from rayner.models.tokenizer import Tokenizer
from rayner.supervision.heads import head_of
from rayner.tasks.document_windows import SPECIAL_TOKENS, TextWindow, text_windows

_LEAST_TEXT = 4
"""Sub-words of the text that a window must have room for."""
_MARKERS = (("[unused1]", "<m>"), ("[unused2]", "</m>"))
"""Entries that vocabularies keep free, and what is spelled where there are none."""


@dataclass(frozen=True, slots=True)
class MentionWindow:
    """What the encoder reads between [CLS] and [SEP], and which mentions are read where.

    Attributes:
        ids: [T] sub-words.
        mentions: [m] numbers of mentions of the document.
        places: [m] where in `ids` the vector of each is read.
        hidden: how many sub-words of a mention that is too long are left out.
    """

    ids: np.ndarray
    mentions: np.ndarray
    places: np.ndarray
    hidden: int = 0

    def __len__(self) -> int:
        return len(self.ids) + SPECIAL_TOKENS


@dataclass(frozen=True, slots=True)
class Located:
    """A mention in sub-words of its document: all inclusive, `head` and `head_last` of its head word."""

    first: int
    last: int
    head: int
    head_last: int


class MentionWindows:
    """Windows around mentions.

    Args:
        settings: the length of windows, contexts included.
        encoding: where a mention's vector is read.
        tokenizer: that of the encoder.

    Raises:
        RecipeError: an encoder without a mask token where one is needed, or windows too short.
    """

    def __init__(self, settings: WindowSettings, encoding: MentionEncoding, tokenizer: Tokenizer) -> None:
        self._settings, self._encoding, self._tokenizer = settings, encoding, tokenizer
        self._open, self._close = (self._marker(*names) for names in _MARKERS)
        mask = tokenizer.mask_id
        if mask is None and encoding in ("mask", "prompt", "triple"):
            what = f"{encoding!r} needs a mask token, which the encoder lacks"
            raise RecipeError("model.mention_encoding", what, "take head or span_markers")
        self._mask = np.array([mask or 0])
        phrases = {"prompt": ("The type of", "is", "."), "triple": ("<", ", hasType,", ">")}
        self._phrase = [self._spelled(part) for part in phrases.get(encoding, ())]
        room = settings.length - SPECIAL_TOKENS - settings.context - self._extra
        if room < _LEAST_TEXT:
            what = f"{settings.length} sub-words leave {room} for the text"
            raise RecipeError("windows.length", what, f"make it at least {settings.length - room + 4}")

    def __call__(self, document: Document) -> list[MentionWindow]:
        """The windows of a document that hold mentions; a mention that touches no word is in none."""
        if not document.mentions:
            return []
        tokenizer = self._tokenizer
        texts = text_windows(document, self._settings, tokenizer, tokenizer.unk_id, tokenizer.sep_id)
        if not texts:
            return []
        found = [
            (number, place)
            for number, mention in enumerate(document.mentions)
            if (place := located(document, mention, texts[0].subwords)) is not None
        ]
        if self._encoding == "head":
            return _shared(texts, found)
        return [self._around(texts[_shown_in(texts, place)], number, place) for number, place in found]

    @property
    def _extra(self) -> int:
        """Sub-words that the encoding adds to the text, the mention in a phrase not counted."""
        if self._encoding in ("span_markers", "head_markers"):
            return len(self._open) + len(self._close)
        return sum(map(len, self._phrase)) + (1 if self._phrase else 0)

    def _around(self, text: TextWindow, number: int, place: Located) -> MentionWindow:
        """The window of one mention: as much of the text on either side as fits, within its sentence where a
        document is read sentence by sentence.

        Of a mention longer than half of the window, the middle is left out.
        """
        ids, room = text.subwords.ids, self._settings.length - SPECIAL_TOKENS - self._extra
        room -= len(text.before) + len(text.after)
        first, last = place.first, place.last
        if self._encoding == "head_markers":
            first, last = place.head, place.head_last
        own = ids[first : last + 1]
        phrase: list[np.ndarray] = []
        if self._phrase:
            named = _shortened(own, room // 4)
            room -= len(named)
            begin, middle, end = self._phrase
            phrase = [begin, named, middle, self._mask, end]
        if self._encoding == "mask":
            own = self._mask
        shown = _shortened(own, max(1, room // 2))
        begin, end = text.edges
        left, right = _sides(room - len(shown), max(0, first - begin), max(0, end - last - 1))
        opened, closed = (self._open, self._close) if "markers" in self._encoding else (ids[:0], ids[:0])
        parts = [text.before, ids[first - left : first], opened, shown, closed]
        parts += [ids[last + 1 : last + 1 + right], text.after, *phrase]
        read = len(text.before) + left
        if phrase:
            read = sum(map(len, parts[:-1])) - 1
        return MentionWindow(
            np.concatenate(parts).astype(np.int32),
            mentions=np.array([number], np.int32),
            places=np.array([read], np.int32),
            hidden=len(own) - len(shown),
        )

    def _marker(self, reserved: str, spelled: str) -> np.ndarray:
        known = self._tokenizer.id_of(reserved)
        return self._spelled(spelled) if known is None else np.array([known])

    def _spelled(self, text: str) -> np.ndarray:
        return np.array(self._tokenizer(text)[0], dtype=np.int32)


def located(document: Document, mention: Mention, subwords: SubWords) -> Located | None:
    """Where a mention is; None where it touches no word.

    Its head word is the one that it names; of one that names none, that of `heads.head_of`, by which the
    pre-training on chains reads mentions, too.
    """
    place = locate(subwords, mention.start, mention.end)
    if place is None:
        return None
    first, last, _ = place
    words, low, high = subwords.words, int(subwords.word_of[first]), int(subwords.word_of[last])
    if mention.head is not None:
        head = max(low, bisect_left(words, mention.head[1], lo=low, hi=high + 1, key=lambda w: w[0]) - 1)
    else:
        head = low + head_of([document.text[slice(*word)] for word in words[low : high + 1]])
    return Located(first, last, int(subwords.first[head]), int(subwords.last[head]))


def _shared(texts: Sequence[TextWindow], found: Sequence[tuple[int, Located]]) -> list[MentionWindow]:
    """Each mention in the window that shows most of what is around its head word."""
    held: dict[int, list[tuple[int, int]]] = {}
    for number, place in found:
        index = _shown_in(texts, place)
        held.setdefault(index, []).append((number, texts[index].place(place.head)))
    return [
        MentionWindow(texts[index].ids, *np.array(held[index], dtype=np.int32).T) for index in sorted(held)
    ]


def _shown_in(texts: Sequence[TextWindow], place: Located) -> int:
    """The number of the window that shows most of what is around a head word."""
    index = owner(texts[0].windows, place.head, place.head + 1, len(texts[0].subwords))
    assert index is not None
    return index


def _shortened(ids: np.ndarray, length: int) -> np.ndarray:
    """Sub-words, at most `length`: the first and the last of them."""
    if len(ids) <= length:
        return ids
    end = length // 2
    return np.concatenate([ids[: length - end], ids[len(ids) - end :]])


def _sides(room: int, left: int, right: int) -> tuple[int, int]:
    """How many of the sub-words on either side there is room for, about as many on both."""
    taken = min(left, max(room // 2, room - right))
    return taken, min(right, room - taken)
