"""Coreference by mention ranking (Lee et al. 2017): chains of a text, learned from annotated ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rayner.config.coreference import CoreferenceRecipe
from rayner.data.batches import COST_OF_A_FORWARD, tokens_per_batch_of
from rayner.data.schema import UNTYPED, Document, Mention
from rayner.data.sentences import sentences_of
from rayner.data.windows import SubWords, locate
from rayner.errors import CorpusError
from rayner.losses.antecedents import antecedent_loss
from rayner.metrics.coreference import library, score_chains
from rayner.models.mention_ranking import Candidates, MentionRanking, Words
from rayner.supervision.heads import head_limits, head_of, is_possessive
from rayner.supervision.partitions import Joined
from rayner.tasks.base import Counts, Metric, Output, Progress, Seed
from rayner.tasks.chains.story_rows import label
from rayner.tasks.corpus_task import CorpusTask
from rayner.tasks.document_windows import SPECIAL_TOKENS, TextWindow, confidence
from rayner.tasks.splits import FoundDocuments

_UNCOUNTED = frozenset({"the", "a", "an"})
_WORDS = tuple(Words._fields)


@dataclass(frozen=True, slots=True)
class CoreferenceBatch:
    """Windows with their words and gold mentions.

    Attributes:
        ids, mask: [B, L] sub-words with special tokens.
        words: the words of each.
        chains: int64 [B, W, width] the chain of each span that is a mention, from 1 on; 0 for other spans.
    """

    ids: Tensor
    mask: Tensor
    words: Words
    chains: Tensor


class CoreferenceTask(CorpusTask[CoreferenceRecipe]):
    """Learns which spans are mentions, and with which mention before it each corefers."""

    examples_version = 7
    metric = Metric("conll_f1")
    keeps_stories_apart = True
    weights: Mapping[str, float] = {"mention": 1.0, "antecedent": 1.0}

    def require(self, found: FoundDocuments) -> None:
        """Refuse documents without a chain of two mentions, and a machine that could score none."""
        library()
        if not found.stories:
            what = "none of its documents has a coreference chain of two mentions"
            raise CorpusError("corpus.train", what, "name an annotated corpus, such as LitBank or GUM")

    def lacking(self, found: FoundDocuments) -> str:
        """Chains of two mentions."""
        return "" if found.stories else "coreference chain of two mentions"

    def example_settings(self) -> Mapping[str, Any]:
        """Encoder, tokenizer, windows and the widest span."""
        return {
            **self.encoder_settings,
            "windows": self.recipe.windows.model_dump(mode="json"),
            "max_span_width": self.recipe.model.max_span_width,
        }

    def examples(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        """A row a window, with its words and the gold mentions that lie in it."""
        for document in items:
            windows = self.windows_of(document)
            if windows:
                yield from self._rows(document, windows)

    def rows(self, document: Document, windows: Sequence[TextWindow]) -> list[dict[str, Any]]:
        """The rows of a document without its gold mentions."""
        return list(self._rows(replace(document, mentions=()), windows))

    def _rows(self, document: Document, windows: Sequence[TextWindow]) -> Iterator[dict[str, Any]]:
        subwords = windows[0].subwords
        texts = [document.text[slice(*span)] for span in subwords.words]
        about = _about_words(document, texts, subwords)
        gold, rejects = self._gold(document, subwords, about["sentence"])
        for window in windows:
            words = _whole_words(window)
            low = int(words[0]) if len(words) else 0
            inside = gold[(gold[:, 0] >= low) & (gold[:, 1] < low + len(words))] - [low, low, 0]
            limit = np.minimum(about["head_limit"][words] - low, len(words) - 1)
            yield {
                "document_id": document.document_id,
                "ids": window.ids,
                "length": len(window.ids) + SPECIAL_TOKENS,
                "first": subwords.first[words] + window.place(0),
                "last": subwords.last[words] + window.place(0),
                "sentence": about["sentence"][words],
                "spelling": about["spelling"][words],
                "head_spelling": about["head_spelling"][words],
                "head_limit": limit,
                "mentions": inside.ravel(),
                "rejects": rejects if window.index == 0 else [],
            }

    def _gold(
        self, document: Document, subwords: SubWords, sentence: np.ndarray
    ) -> tuple[np.ndarray, list[str]]:
        """[M, 3] first and last word and chain of each mention, and a line for each that is left out."""
        found: dict[tuple[int, int], int] = {}
        rejects = []
        numbers: dict[str, int] = {}
        # Where mentions of chains have no type of their own, those without a chain are of another annotation,
        # such as the named entities of OntoNotes, which marks no mention that is alone.
        is_apart = {m.type for m in document.mentions if m.chain is not None} == {UNTYPED}
        # The same words may be marked for a type, too, without a chain.
        of_chains_first = sorted(enumerate(document.mentions), key=lambda one: one[1].chain is None)
        for number, mention in of_chains_first:
            if is_apart and mention.chain is None:
                continue
            where = f"{document.document_id}: {mention.start}-{mention.end}"
            span = locate(subwords, mention.start, mention.end)
            if span is None:
                rejects.append(f"{where}: holds no word")
                continue
            first, last = map(int, subwords.word_of[[span[0], span[1]]])
            if last - first >= self.recipe.model.max_span_width:
                most = self.recipe.model.max_span_width
                rejects.append(f"{where}: {last - first + 1} words, over max_span_width {most}")
                continue
            if sentence[first] != sentence[last]:
                rejects.append(f"{where}: goes over the end of a sentence")
                continue
            # A mention without a chain is a chain of its own.
            name = f" {number}" if mention.chain is None else mention.chain
            found.setdefault((first, last), numbers.setdefault(name, len(numbers) + 1))
        rows = [(first, last, chain) for (first, last), chain in sorted(found.items())]
        return np.array(rows, np.int64).reshape(-1, 3), rejects

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> CoreferenceBatch:
        """Rows as tensors; positions move by one for [CLS]."""
        ids, mask = self.padded([np.asarray(e["ids"]) for e in examples])
        shape = len(examples), max(1, max(len(e["first"]) for e in examples))
        columns = {name: np.zeros(shape, np.int64) for name in _WORDS if name != "real"}
        real = np.zeros(shape, bool)
        chains = np.zeros((*shape, self.recipe.model.max_span_width), np.int64)
        before = 0
        for row, example in enumerate(examples):
            count = len(example["first"])
            real[row, :count] = True
            for name, column in columns.items():
                column[row, :count] = np.asarray(example[name], np.int64) + (name in ("first", "last"))
            first, last, chain = np.asarray(example["mentions"], np.int64).reshape(-1, 3).T
            chains[row, first, last - first] = chain + before
            before += int(chain.max(initial=0))
        tensors = {name: torch.from_numpy(column) for name, column in columns.items()}
        words = Words(**tensors, real=torch.from_numpy(real))
        return CoreferenceBatch(ids, mask, words, torch.from_numpy(chains))

    def counts(self, batch: CoreferenceBatch, progress: Progress) -> Counts:
        """Both parts are means over words."""
        words = float(batch.words.real.sum())
        return {"mention": words, "antecedent": words}

    def build(self) -> MentionRanking:
        """The encoder and new heads."""
        encoder = self.encoder()
        self.check_length(encoder, self.recipe.windows.length)
        return MentionRanking(encoder, self.recipe.model)

    def forward(self, model: nn.Module, batch: CoreferenceBatch, progress: Progress) -> Output:
        """The cross-entropy of all spans as mentions, and the marginal likelihood of antecedents. Gold
        mentions are candidates, whatever their score."""
        assert isinstance(model, MentionRanking)
        states = model.states(batch.ids, batch.mask)
        mentions, spans = model.mention_scores(states, batch.words)
        gold = (batch.chains > 0) & spans
        found = model.candidates(states, batch.words, mentions, spans, gold)
        chain = batch.chains[found.row, found.first, found.last - found.first]
        same = (chain[:, None] == chain[found.antecedent]) & (chain > 0)[:, None]
        # Of a mask each use would count its places anew, which a GPU makes the host wait for.
        places = spans.nonzero(as_tuple=True)
        mention = F.binary_cross_entropy_with_logits(
            mentions[places], gold[places].to(mentions.dtype), reduction="sum"
        )
        return Output({"mention": mention, "antecedent": antecedent_loss(found.score, found.possible, same)})

    def predictor(self, model: nn.Module, options: Any = None) -> CoreferencePredictor:
        """The model as it answers; it has no options."""
        return CoreferencePredictor(self, model)


class Links(NamedTuple):
    """The candidates of a window, in words of the window, and the antecedent of each (-1: none): [K] each."""

    first: np.ndarray
    last: np.ndarray
    mention: np.ndarray
    antecedent: np.ndarray


class CoreferencePredictor:
    """Replaces the mentions of documents by those that corefer, each with its chain."""

    forward_cost = COST_OF_A_FORWARD
    whole = True

    def __init__(self, task: CoreferenceTask, model: nn.Module) -> None:
        assert isinstance(model, MentionRanking)
        self._task, self._model = task, model.eval()
        self.tokens_per_batch = tokens_per_batch_of(model)

    def prepare(self, item: Document) -> list[tuple[TextWindow, dict[str, Any]]]:
        """The windows of a document, and their rows."""
        windows = self._task.windows_of(item)
        return list(zip(windows, self._task.rows(item, windows), strict=True)) if windows else []

    def length_of(self, window: tuple[TextWindow, dict[str, Any]]) -> int:
        """Sub-words of the window, special tokens included."""
        return window[1]["length"]

    @torch.inference_mode()
    def forward(self, windows: Sequence[tuple[TextWindow, dict[str, Any]]]) -> list[Links]:
        """The candidates of each window, and whom each refers to."""
        device = next(self._model.parameters()).device
        batch = self._task.collate([row for _, row in windows], [])
        words = Words(*(column.to(device) for column in batch.words))
        states = self._model.states(batch.ids.to(device), batch.mask.to(device))
        mentions, spans = self._model.mention_scores(states, words)
        return _by_row(self._model.candidates(states, words, mentions, spans), len(windows))

    def finish(
        self, item: Document, windows: Sequence[tuple[TextWindow, dict[str, Any]]], scores: Sequence[Links]
    ) -> Document:
        """The document with its chains; that window decides about a mention which shows most around it."""
        joined: Joined[tuple[int, int]] = Joined()
        probability: dict[tuple[int, int], float] = {}
        for (window, _), links in zip(windows, scores, strict=True):
            subwords, words = window.subwords, _whole_words(window)
            spans = list(zip(words[links.first].tolist(), words[links.last].tolist(), strict=True))
            for place, (first, last) in enumerate(spans):
                if not window.decides(int(subwords.first[first]), int(subwords.last[last])):
                    continue
                probability[first, last] = confidence(float(links.mention[place]))
                if links.antecedent[place] >= 0:
                    joined.join((first, last), spans[links.antecedent[place]])
        if not windows:
            return replace(item, mentions=())
        of_words = windows[0][0].subwords.words
        mentions = []
        for number, group in enumerate(joined.groups()):
            for first, last in group:
                span = of_words[first][0], of_words[last][1]
                at = first + head_of([item.text[slice(*of_words[w])] for w in range(first, last + 1)])
                mentions.append(
                    Mention(
                        *span,
                        UNTYPED,
                        chain=str(number),
                        head=of_words[at],
                        score=probability.get((first, last)),
                    )
                )
        return replace(item, mentions=tuple(sorted(mentions, key=lambda m: (m.start, -m.end))))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """MUC, B-cubed, CEAF-e and LEA."""
        return score_chains(gold, predicted)


def _by_row(found: Candidates, rows: int) -> list[Links]:
    """The candidates of each window, with the best antecedent of each where one is better than none."""
    score = found.score.masked_fill(~found.possible, -torch.inf)
    best = score.max(1)
    place = found.antecedent.gather(1, best.indices[:, None])[:, 0]
    begins = torch.searchsorted(found.row, torch.arange(rows + 1, device=found.row.device))
    own = torch.where(best.values > 0, place - begins[found.row], -1)
    columns = [c.cpu().numpy() for c in (found.first, found.last, found.mention.float(), own)]
    edges = begins.tolist()
    return [Links(*(c[low:high] for c in columns)) for low, high in pairwise(edges)]


def _whole_words(window: TextWindow) -> np.ndarray:
    """The words of the document that lie whole in a window: a run."""
    words = window.words
    return words[window.subwords.last[words] < window.span.end]


def _about_words(document: Document, texts: Sequence[str], subwords: SubWords) -> dict[str, np.ndarray]:
    """[W] each: the sentence of each word, and what it is compared by."""
    starts = np.array([start for start, _ in subwords.words])
    sentence = np.searchsorted([start for start, _ in sentences_of(document)], starts, side="right")
    hashed = cache(label)
    lower = [text.lower() for text in texts]
    spelling, heads = [], []
    for place, text in enumerate(lower):
        is_mark = is_possessive(lower, place)
        spelling.append(0 if is_mark or text in _UNCOUNTED else hashed(text))
        heads.append(heads[-1] if is_mark and heads else hashed(text))
    columns = {"spelling": spelling, "head_spelling": heads, "head_limit": head_limits(texts)}
    return {"sentence": sentence, **{name: np.array(column, np.int64) for name, column in columns.items()}}
