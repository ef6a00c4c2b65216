"""One block annotated: rows to documents, documents to answers, answers to files."""

from __future__ import annotations

import io
import json
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.readers import files
from rayner.data.readers.base import Reading, Reject
from rayner.data.readers.rows import add_row
from rayner.data.schema import Document, mention_to_row, sentence_rows
from rayner.data.writers import write_brat, write_jsonl
from rayner.errors import CorpusError, InputError
from rayner.runtime.annotation.answering import Answering, DocumentPredictor
from rayner.runtime.annotation.attempts import Attempts, note_fault
from rayner.runtime.annotation.output_folder import ANNOTATION_SCHEMA, SENTENCES, Output
from rayner.runtime.annotation.reading import Block, Row
from rayner.runtime.faults import WorkerFault
from rayner.tasks.predict import Predicted, has_spare_core
from rayner.tasks.stages import PipelineSettings

Also = Literal["jsonl", "brat", "contexts"]

_SLICE = 2**16

log = logging.getLogger(__name__)


class Model(Protocol):
    """Where a predictor over documents comes from; it must pickle."""

    @property
    def version(self) -> str:
        """What tells its answers from those of any other model."""
        ...

    def load(self, device: str | None) -> DocumentPredictor:
        """The predictor, on a device; None for a GPU where there is one."""
        ...


@dataclass(slots=True)
class _Work:
    """What becomes of a block."""

    documents: list[Document] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    rejects: list[dict[str, Any]] = field(default_factory=list)

    def reject(self, reject: Reject, lost: Literal["document", "mention"] = "document") -> None:
        self.rejects.append({**reject.to_row(), "lost": lost})


@dataclass(frozen=True, slots=True)
class Done:
    """A block that is done: counts, and when the work on it began and ended, in seconds of the clock."""

    documents: int
    rejected: int
    words: int
    begun: float
    ended: float


class BlockAnnotator:
    """Annotates blocks with one predictor, and writes each to the output, whole or not at all.

    Args:
        also: formats beside Parquet.
        tokens_per_batch: padded tokens a batch; None for what suits the device.
        device: as in `Model.load`.
        run: what tells the driver that gives the blocks from any other; empty where it is this process.
        cpus: those that this process was given; by default those that it may run on.
    """

    def __init__(
        self,
        model: Model,
        output: Output,
        also: Sequence[Also],
        tokens_per_batch: int | None,
        device: str | None,
        run: str = "",
        cpus: float | None = None,
    ) -> None:
        self._with_contexts: Callable[[Document], Document] = lambda document: document
        if isinstance(model, PipelineSettings):
            model = model.decided(device)
            pipeline = model.pipeline(device)
            predictor, self._with_contexts = pipeline.predictor, pipeline.with_contexts
        else:
            predictor = model.load(device)
        self._answering = Answering(predictor, tokens_per_batch, has_spare_core(cpus))
        self._version = model.version
        self._output, self._also = output, tuple(also)
        self._run = run

    def __call__(self, name: str, block: Block) -> Done:
        """Annotate a block and write its files; that which says that it is done comes last."""
        begun = time.time()
        work = _Work()
        for reject in block.rejects:
            work.reject(reject)
        for row in block.all_rows():
            _read(row, work)
        duplicates = _keep_first(work)
        attempts = Attempts.begin(self._output.attempts(name), self._run)
        predicted = self._predict(work, attempts)
        found = [answer.out for answer in predicted]
        words = sum(count_words(document.text) for document in found)
        self._write(name, predicted, work.sources)
        lost = sum(reject["lost"] == "document" for reject in work.rejects)
        sidecar = {
            "documents": len(found),
            "rejected": lost,
            "duplicates": duplicates,
            "windows": sum(answer.windows for answer in predicted),
            "words": words,
            "mentions": Counter(m.type for document in found for m in document.mentions),
            "linked": sum(m.entity_id is not None for document in found for m in document.mentions),
            "rejects": work.rejects,
        }
        self._output.write_json(self._output.sidecar(name), sidecar)
        attempts.end()
        return Done(len(found), lost, words, begun, time.time())

    def fault(self, name: str) -> int:
        """Note that this worker gives a block up for a fault of its own; how often that was in this run."""
        return note_fault(self._output.attempts(name), self._run)

    def _predict(self, work: _Work, attempts: Attempts) -> list[Predicted]:
        """The answers; a document that the model fails on becomes a reject, and no other does."""
        answers = None
        if not attempts.is_careful:
            try:
                answers = self._answering.answers(work.documents)
            except WorkerFault:
                raise
            except Exception:
                log.warning("a batch failed; trying its documents one by one", exc_info=True)
        if answers is None:
            answers = self._one_by_one(work, attempts)
        for answer in answers:
            if not isinstance(answer.out, Document):
                what = f"its answers are {type(answer.out).__name__}s, not documents"
                raise InputError("annotate", what, "name a checkpoint that finds mentions")
        return answers

    def _one_by_one(self, work: _Work, attempts: Attempts) -> list[Predicted]:
        answers, sources = [], []
        for document, source in zip(work.documents, work.sources, strict=True):
            what, hint = "the worker died over it, more than once", "report this, with the document"
            if not attempts.is_lethal(source):
                answer = self._answering.answer(document)
                if not isinstance(answer, Exception):
                    answers.append(answer)
                    sources.append(source)
                    continue
                what = f"the model failed on it ({type(answer).__name__}: {str(answer)[:200]})"
                if isinstance(answer, InputError):
                    what, hint = answer.what, answer.hint
            work.reject(Reject(source, what, hint, document.document_id))
        work.sources = sources
        if not answers and work.documents:
            self._answering.probe()
        return answers

    def _write(self, name: str, predicted: Sequence[Predicted], sources: Sequence[str]) -> None:
        if not predicted:
            return
        found = [answer.out for answer in predicted]
        if {"jsonl", "contexts"} & set(self._also):
            found = [self._with_contexts(document) for document in found]
        with tempfile.TemporaryDirectory() as folder:
            if "jsonl" in self._also:
                path = Path(folder, "documents.jsonl")
                write_jsonl(found, path)
                self._output.jsonl(name).copy_from(path)
            if "brat" in self._also:
                for path in write_brat(found, Path(folder, "brat")).paths:
                    self._output.brat(name).below(path.name).copy_from(path)
        rows = [
            {
                "document_id": document.document_id,
                "mentions": [mention_to_row(mention) for mention in document.mentions],
                "windows": answer.windows,
                "model_version": self._version,
                "source": source,
                "sentences": sentence_rows(document) if "contexts" in self._also else None,
            }
            for document, answer, source in zip(found, predicted, sources, strict=True)
        ]
        schema = ANNOTATION_SCHEMA.append(SENTENCES) if "contexts" in self._also else ANNOTATION_SCHEMA
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
        self._output.documents(name).write(sink.getvalue())


def _read(row: Row, work: _Work) -> None:
    """The document of a row, and a reject for each of its mentions that its text cannot hold; or a reject."""
    reading = Reading()
    try:
        if isinstance(row.content, dict):
            add_row(row.content, row.where, row.name, reading)
        elif row.is_text:
            text = files.decode(row.content, row.where)
            reading.add(Document(row.name, files.without_mark(text, reading.repaired)), row.where)
        else:
            add_row(_json(row), row.where, row.name, reading)
    except CorpusError as error:
        reading.reject(error.where, error.what, error.hint)
    work.documents += reading.documents
    work.sources += reading.places
    if reading.documents:
        for reject in reading.rejects:
            work.reject(reject, "mention")
    else:
        work.reject(reading.rejects[0])


def _json(row: Row) -> Any:
    assert isinstance(row.content, bytes)
    try:
        return json.loads(row.content.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        what = f"byte 0x{row.content[error.start]:02x} is not UTF-8"
        raise CorpusError(row.where, what, "convert it to UTF-8, for example with iconv -f latin1") from None
    except (ValueError, RecursionError) as error:
        raise CorpusError(row.where, f"not JSON ({error})", "write one JSON object a line") from None


def _keep_first(work: _Work) -> int:
    """Of documents with one id, keep the first; how many others there are."""
    first: dict[str, str] = {}
    kept = []
    for document, source in zip(work.documents, work.sources, strict=True):
        if first.setdefault(document.document_id, source) == source:
            kept.append((document, source))
        else:
            work.reject(second(document.document_id, source, first[document.document_id]))
    others = len(work.documents) - len(kept)
    work.documents, work.sources = [d for d, _ in kept], [s for _, s in kept]
    return others


def count_words(text: str) -> int:
    """What spaces part, for figures of speed: to find words as a model does would take part of its time."""
    return sum(len(text[i : i + _SLICE].split()) for i in range(0, len(text), _SLICE))


def second(document_id: str, source: str, first: str) -> Reject:
    """The reject of a document whose id another one has."""
    hint = "give each document an id of its own"
    return Reject(source, f"its id {document_id!r} is that of the document at {first}", hint, document_id)
