"""Coreference by mention ranking: spans as candidates, and each candidate against those before it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rayner.config.coreference import MentionRankingSettings
from rayner.losses.full_precision import exact
from rayner.models.encoder import Encoder

DISTANCES = 9
"""Classes of distance: 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63 and more candidates."""
MATCHES = 4
"""Whether heads are equal, and whether all words are: 1 and 2 of them."""
_AT_LEAST = 64
"""Candidates of a window that has few words."""


class Words(NamedTuple):
    """The words of windows, W at most in each; what is beyond a window's words is false in `real`.

    Attributes:
        first, last: int64 [B, W] places of the first and the last sub-word of each.
        real: bool [B, W].
        sentence: int64 [B, W] the number of its sentence.
        spelling: int64 [B, W] a hash of the word as it is compared; 0 where it does not count.
        head_spelling: int64 [B, W] the same of the word as a head: a possessive mark has that of its word.
        head_limit: int64 [B, W] of a span that begins there, the last word that can be its head.
    """

    first: Tensor
    last: Tensor
    real: Tensor
    sentence: Tensor
    spelling: Tensor
    head_spelling: Tensor
    head_limit: Tensor


class Candidates(NamedTuple):
    """The spans of a batch that are compared, in the order of rows and places.

    Attributes:
        row: int64 [K] the window of each.
        first, last: int64 [K] its words, both inclusive.
        mention: [K] its score as a mention, a logit.
        antecedent: int64 [K, A] the candidates before it, nearest first.
        possible: bool [K, A] which of these there are: of the same window, and not overlapping.
        score: [K, A] how much the two corefer; 0 is as much as "with none".
    """

    row: Tensor
    first: Tensor
    last: Tensor
    mention: Tensor
    antecedent: Tensor
    possible: Tensor
    score: Tensor


class MentionRanking(nn.Module):
    """Scores spans as mentions and pairs of mentions as coreferent (Lee et al. 2017, section 3).

    As there, but that the head of a span is a word found by rule, not attention, and that a pair is described
    by whether its heads and words are equal, in place of speaker and genre. A window has 64 candidates at
    least, however few its words, and no candidate has an antecedent that overlaps it.

    Args:
        text_encoder: encodes windows.
        settings: sizes and bounds.
    """

    def __init__(self, text_encoder: Encoder, settings: MentionRankingSettings) -> None:
        super().__init__()
        self.settings = settings
        self.text_encoder = text_encoder
        self.text_encoder.set_dropout(settings.dropout)
        self.dropout = nn.Dropout(settings.dropout)
        hidden, size = text_encoder.hidden_size, settings.hidden_size
        self.start, self.end = nn.Linear(hidden, size), nn.Linear(hidden, size, bias=False)
        self.width = nn.Embedding(settings.max_span_width, size)
        self.as_mention = nn.Linear(size, 1)
        self.span = nn.Linear(3 * hidden, size)
        self.anaphor, self.candidate = nn.Linear(size, size), nn.Linear(size, size, bias=False)
        self.product = nn.Linear(size, size, bias=False)
        self.distance, self.match = nn.Embedding(DISTANCES, size), nn.Embedding(MATCHES, size)
        self.as_pair = nn.Linear(size, 1)

    def states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The last hidden states [B, L, H] of `ids` [B, L], real where `mask`."""
        return self.dropout(self.text_encoder(ids, mask))

    def mention_scores(self, states: Tensor, words: Words) -> tuple[Tensor, Tensor]:
        """Logits of all spans [B, W, width], from each word on, in float32 at least; and which are spans."""
        starts, ends = self.start(_at(states, words.first)), self.end(_at(states, words.last))
        count = self.settings.max_span_width
        following = F.pad(ends, (0, 0, 0, count - 1)).unfold(1, count, 1).transpose(2, 3)
        vectors = F.relu(starts.unsqueeze(2) + following + self.width.weight)
        scores = self.as_mention(vectors).squeeze(-1)
        real = F.pad(words.real, (0, count - 1)).unfold(1, count, 1)
        sentence = F.pad(words.sentence, (0, count - 1), value=-1).unfold(1, count, 1)
        return exact(scores), real & (sentence == words.sentence.unsqueeze(2)) & words.real.unsqueeze(2)

    def candidates(
        self, states: Tensor, words: Words, mentions: Tensor, spans: Tensor, kept: Tensor | None = None
    ) -> Candidates:
        """The best spans as mentions, and their antecedents.

        Args:
            mentions, spans: [B, W, width] of `mention_scores`.
            kept: bool [B, W, width] spans that are candidates whatever their score.
        """
        chosen = self._chosen(words, mentions.detach(), spans)
        row, first, width = ((chosen | kept) if kept is not None else chosen).nonzero(as_tuple=True)
        last = first + width
        head = torch.minimum(last, words.head_limit[row, first])
        places = words.first[row, first], words.last[row, last], words.first[row, head]
        vectors = F.relu(self.span(torch.cat([states[row, place] for place in places], 1)))
        antecedent, possible = self._before(row, first, last)
        matches = self._matches(words, row, first, last, head)
        score = self._pairs(vectors, antecedent, matches)
        mention = mentions[row, first, width]
        score = exact(score) + mention[:, None] + mention[antecedent]
        return Candidates(row, first, last, mention, antecedent, possible, score)

    def _chosen(self, words: Words, mentions: Tensor, spans: Tensor) -> Tensor:
        """bool [B, W, width] the best spans of each window."""
        scores = mentions.masked_fill(~spans, -torch.inf).flatten(1)
        counts = (words.real.sum(1) * self.settings.spans_per_word).ceil().long().clamp_min(_AT_LEAST)
        order = scores.argsort(dim=1, descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(
            1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
        )
        return (rank < counts[:, None]).view_as(spans) & spans

    def _before(self, row: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """int64 [K, A] the candidates before each, and bool [K, A] those that may be its antecedents."""
        back = torch.arange(1, self.settings.antecedents + 1, device=row.device)
        place = torch.arange(len(row), device=row.device)[:, None] - back
        antecedent = place.clamp_min(0)
        same = (place >= 0) & (row[antecedent] == row[:, None])
        return antecedent, same & (last[antecedent] < first[:, None])

    def _matches(self, words: Words, row: Tensor, first: Tensor, last: Tensor, head: Tensor) -> list[Tensor]:
        """[K] hashes of each candidate's head and of all its words."""
        sums = F.pad(words.spelling.cumsum(1), (1, 0))
        return [words.head_spelling[row, head], sums[row, last + 1] - sums[row, first]]

    def _pairs(self, vectors: Tensor, antecedent: Tensor, matches: list[Tensor]) -> Tensor:
        """[K, A] of each candidate and the antecedents before it."""
        match = sum(
            (one[:, None] == one[antecedent]).long() * weight for weight, one in enumerate(matches, 1)
        )
        steps = torch.arange(1, antecedent.shape[1] + 1, device=antecedent.device)
        classes = torch.where(steps <= 4, steps - 1, steps.float().log2().floor().long() + 2)
        hidden = self.product(vectors[:, None] * vectors[antecedent])
        hidden = hidden + self.anaphor(vectors)[:, None] + self.candidate(vectors)[antecedent]
        hidden = hidden + self.distance(classes.clamp_max(DISTANCES - 1)) + self.match(match)
        return self.as_pair(self.dropout(F.relu(hidden))).squeeze(-1)


def _at(states: Tensor, places: Tensor) -> Tensor:
    """[B, W, H] states at places [B, W] of their rows."""
    return states.gather(1, places.unsqueeze(2).expand(-1, -1, states.shape[2]))
