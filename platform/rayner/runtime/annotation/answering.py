"""Answers of a predictor to documents, and who is to blame where there is none.

A document is rejected only for what any worker would make of it: the predictor raises an error over it
alone, twice, and still answers a plain probe afterwards. Everything else is a fault of the worker, which no
document pays for: memory that ran out (batches are halved first, down to one window), a device that failed,
a file or a network below the predictor (`OSError`), a checkpoint that cannot be used as it is, and whatever
keeps it from answering the probe, such as the other errors that a broken GPU raises. On Ray the worker then
ends, so that another one does the block; in this process the run fails. What kills the process outright is
judged by `attempts`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from rayner.data.schema import Document, Mention
from rayner.errors import CheckpointError, FileError, IndexFolderError, StorageError, first_line
from rayner.runtime.faults import WorkerFault
from rayner.tasks.base import Predictor
from rayner.tasks.predict import Predicted, predict_and_count, stages_of
from rayner.tasks.stage_chain import chain

DocumentPredictor: TypeAlias = Predictor[Document, Any, Any, Document]
"""What finds mentions in documents."""

_PROBE = "They saw the whale. It rained. The men of Oslo rowed to the whale. None in Oslo slept. It was late."
"""Sentences of which each way to find contexts proposes some."""
_OF_THE_RUN = (CheckpointError, IndexFolderError, FileError, StorageError, OSError)
"""What is raised over the files that all documents are answered with."""
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED", "bad_alloc")
"""How libraries say it that raise a plain `RuntimeError`: CUDA, PyTorch on CPUs, cuBLAS, FAISS."""

log = logging.getLogger(__name__)


class Answering:
    """Answers documents with a predictor, in batches of what memory allows.

    Args:
        tokens_per_batch: padded tokens a batch, to begin with; by default the predictor's.
        ahead: whether windows are prepared while the model works.
    """

    def __init__(
        self, predictor: DocumentPredictor, tokens_per_batch: int | None = None, ahead: bool = False
    ) -> None:
        stages: list[Any] = [_Halving(stage) for stage in stages_of(predictor)]
        linked = {name for stage in stages for name in getattr(stage, "linked_types", None) or ()}
        # Mentions, for stages that find none themselves: each has work to do.
        self._probe = Document("probe", _PROBE, tuple(Mention(9, 18, n) for n in sorted(linked or {"probe"})))
        self._first, self._predictor = stages[0], chain(stages)
        self._tokens, self._ahead = tokens_per_batch or self._first.tokens_per_batch, ahead

    @torch.no_grad()
    def answers(self, documents: Sequence[Document]) -> list[Predicted]:
        """The answers, in order.

        Raises:
            WorkerFault: no memory for a single window, or a device or a file below the predictor failed.
            Exception: what the predictor raised over one of the documents.
        """
        try:
            return list(predict_and_count(self._predictor, documents, self._tokens, self._ahead))
        except Exception as error:
            if what := _fault(error):
                raise WorkerFault(
                    f"annotate: {what} ({type(error).__name__}: {first_line(error)[:200]})"
                ) from error
            raise
        finally:
            if self._first.was_short:
                self._first.was_short = False
                self._tokens = max(1, self._tokens // 2)
                log.warning(
                    "out of memory: going on with %d tokens a batch; give fewer from the start with "
                    "--tokens-per-batch",
                    self._tokens,
                )

    def answer(self, document: Document) -> Predicted | Exception:
        """The answer to one document, or the error that is the document's own.

        Raises:
            WorkerFault: as `answers`.
            Exception: what the predictor raises over the probe, too.
        """
        own = None
        for _ in range(2):
            try:
                (answer,) = self.answers([document])
                return answer
            except WorkerFault:
                raise
            except Exception as error:
                own = error
        self.probe()
        assert own is not None
        return own

    def probe(self) -> None:
        """Answer a few plain sentences: a model that cannot is broken, which is no document's fault."""
        self.answers([self._probe])


class _Halving:
    """A predictor that works on a batch in halves where there is no memory for the whole."""

    def __init__(self, predictor: Any) -> None:
        self._predictor = predictor
        self.was_short = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._predictor, name)

    def forward(self, windows: Sequence[Any]) -> list[Any]:
        """What the model says of each window."""
        try:
            return list(self._predictor.forward(windows))
        except Exception as error:
            if len(windows) < 2 or not _is_out_of_memory(error):
                raise
        # Not above: the error holds on to what was computed before it.
        self.was_short = True
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        middle = len(windows) // 2
        return self.forward(windows[:middle]) + self.forward(windows[middle:])


def _fault(error: Exception) -> str:
    """What is wrong with the worker; empty where it may be the document."""
    if _is_out_of_memory(error):
        return "out of memory, also with one window at a time; give each worker more"
    if isinstance(error, torch.AcceleratorError):
        return "the device failed; look after it, and run the same command again"
    if isinstance(error, _OF_THE_RUN):
        return "the model lacks what it needs, or is damaged; fix that, and run the same command again"
    return ""


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)
