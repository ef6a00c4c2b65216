"""A batch of windows with random mentions, for timing."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import torch
from torch import Tensor

from rayner.losses.span_contrast import SpanTargets
from rayner.models.tokenizer import Tokenizer
from rayner.models.type_inputs import TypeInputs

TEXT = """
The ferry left Harwich at dusk with two hundred passengers, among them Ingrid Solheim, who had sold her
laboratory in Bergen to a Danish company that autumn. She carried a notebook on the growth of kelp, three
letters from the Ministry of Fisheries, and a ticket to Hook of Holland that she did not mean to use. On
deck a man from the harbour office asked whether the Norwegian trawlers had been counted again; nobody knew.
In the saloon the wireless spoke of a strike in Rotterdam, of storms west of the Hebrides and of a cup match
that Sparta had lost. Captain Willem de Groot, a careful man of sixty, had crossed this sea more than four
thousand times, and he still wrote the hour of every light that he passed: Orford Ness, the Gabbard, the
North Hinder. "You may set your watch by them," he used to say, "but never your heart." By midnight the wind
had turned, the glass was falling, and the first officer telephoned the engine room to ask for another knot.
Nothing in the log explains what followed.
"""
DESCRIPTIONS = (
    "names of people, real or fictional, without their titles",
    "companies, ministries, clubs and other organizations with members, statutes and a name",
    "countries, cities, rivers, islands and other places that a map shows, and their people",
    "ships, trains, aircraft and other vehicles that are called by a name",
    "a disease or a symptom in a patient, with the words that say where it sits and how severe it is",
    "dates, times of day and periods, absolute or relative to the day of writing",
)


class Batch(NamedTuple):
    """Windows, what is known about their spans and sub-words, and the types."""

    ids: Tensor
    mask: Tensor
    targets: SpanTargets
    labels: Tensor
    types: TypeInputs
    words: int

    def of_types(self, chosen: Tensor) -> Batch:
        """The batch with some of its types, given in ascending order, renumbered."""
        known = self.targets.known
        place = torch.full((known.shape[1],), -1, device=known.device)
        place[chosen] = torch.arange(len(chosen), device=known.device)
        gold = self.targets.gold[place[self.targets.gold[:, 1]] >= 0].clone()
        gold[:, 1] = place[gold[:, 1]]
        rows = TypeInputs(*(t[chosen] for t in self.types[:3]), type_index=place[chosen])
        return self._replace(targets=self.targets._replace(gold=gold, known=known[:, chosen]), types=rows)


def make_batch(tokenizer: Tokenizer, windows: int, tokens: int, types: int, device: torch.device) -> Batch:
    """Full windows of running text, five random mentions of one to three words in each."""
    ids, word_start, word_end = _windows(tokenizer, windows, tokens)
    gold, labels = [], torch.zeros_like(ids)
    for window in range(windows):
        starts = word_start[window].nonzero().flatten().tolist()
        ends = word_end[window].nonzero().flatten().tolist()
        for _ in range(5):
            first = random.choice(starts[:-4])
            last = [e for e in ends if e >= first][random.randrange(3)]
            kind = random.randrange(types)
            gold.append((window, kind, first, last))
            labels[window, first : last + 1] = 2 * kind + 2
            labels[window, first] = 2 * kind + 1
    none = torch.zeros(0, 3, dtype=torch.long)
    known = torch.ones(windows, types, dtype=torch.bool)
    targets = SpanTargets(word_start, word_end, torch.tensor(gold), known, none, none, none.new_zeros(0, 4))
    return Batch(
        ids.to(device),
        torch.ones_like(ids, dtype=torch.bool).to(device),
        SpanTargets(*(t.to(device) for t in targets)),
        labels.to(device),
        TypeInputs(*(t.to(device) for t in _descriptions(tokenizer, types))),
        int(word_start.sum()),
    )


def _windows(tokenizer: Tokenizer, windows: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    sentences = re.split(r"(?<=\.)\s+", TEXT.strip())
    text = " ".join(random.choice(sentences) for _ in range(windows * tokens // 10)).replace("\n", " ")
    ids, offsets = tokenizer(text)
    words = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    starts, ends = {s for s, _ in words}, {e for _, e in words}
    inner = tokens - 2
    rows, firsts, lasts = [], [], []
    for begin in range(0, windows * inner, inner):
        part = slice(begin, begin + inner)
        rows.append([tokenizer.cls_id, *ids[part], tokenizer.sep_id])
        firsts.append([False, *(s in starts for s, _ in offsets[part]), False])
        lasts.append([False, *(e in ends for _, e in offsets[part]), False])
    return torch.tensor(rows), torch.tensor(firsts), torch.tensor(lasts)


def _descriptions(tokenizer: Tokenizer, types: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = [tokenizer(f"{DESCRIPTIONS[k % len(DESCRIPTIONS)]}, kind {k}")[0] for k in range(types)]
    rows = [[tokenizer.cls_id, *row, tokenizer.sep_id] for row in rows]
    width = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_id] * (width - len(row)) for row in rows])
    mask = torch.tensor([[i < len(row) for i in range(width)] for row in rows])
    return ids, mask, torch.zeros(types, dtype=torch.long), torch.arange(types)
