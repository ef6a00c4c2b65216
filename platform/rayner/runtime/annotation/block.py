"""One block annotated: rows to documents, documents to answers, answers to files."""

from __future__ import annotations

import io
import json
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.json_lines import hint_for
from rayner.data.readers import files
from rayner.data.readers.base import Reading, Reject
from rayner.data.readers.rows import add_row
from rayner.data.schema import Document, mention_to_row, sentence_rows
from rayner.data.writers import write_brat, write_jsonl
from rayner.errors import CorpusError, InputError
from rayner.files.places import Place
from rayner.runtime.annotation.answering import Answering, DocumentPredictor
from rayner.runtime.annotation.attempts import Attempts, note_fault
from rayner.runtime.annotation.output_folder import ANNOTATION_SCHEMA, SENTENCES, Output
from rayner.runtime.annotation.reading import Block, Row
from rayner.runtime.faults import WorkerFault
from rayner.tasks.predict import Predicted, has_spare_core, tokens_of
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
class Work:
    """What becomes of a block. It pickles: a pool of workers for each stage passes it on.

    Attributes:
        windows: of each document, once the first stage has answered.
        read: each document with the contexts that were chosen for its sentences, where they are kept.
        begun: when the work began, in seconds of the clock.
        where, consumed: those of the block.
    """

    documents: list[Document] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)
    read: list[Document] = field(default_factory=list)
    rejects: list[dict[str, Any]] = field(default_factory=list)
    duplicates: int = 0
    begun: float = field(default_factory=time.time)
    where: str = ""
    consumed: float = 0.0

    def reject(self, reject: Reject, lost: Literal["document", "mention"] = "document") -> None:
        """Note what is left out, a document or a mention of one, and why."""
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
        stage: of a pipeline, the number of the one stage that this worker has; None for all of them. The
            first reads the blocks, the last writes them.
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
        stage: int | None = None,
    ) -> None:
        self._with_contexts: Callable[[Document], Document] | None = None
        self._is_last = True
        if isinstance(model, PipelineSettings):
            model = model.decided(device)
            own = model if stage is None else replace(model, stages=(model.stages[stage],))
            self._is_last = own.stages[-1] is model.stages[-1]
            pipeline = own.pipeline(device)
            predictor = pipeline.predictor
            if {"jsonl", "contexts"} & set(also) and pipeline.reads_contexts:
                self._with_contexts = pipeline.with_contexts
        else:
            predictor = model.load(device)
        if stage:
            tokens_per_batch = tokens_of(predictor, tokens_per_batch)
        self._answering = Answering(predictor, tokens_per_batch, has_spare_core(cpus))
        self._version = model.version
        self._output, self._also = output, tuple(also)
        self._run = run
        self._note = "" if stage is None else f"-{stage}"

    def __call__(self, name: str, block: Block | Work) -> Done | Work:
        """Annotate a block and write its files, of which that which says that it is done comes last; or, for
        a stage that is not the last, what the next one goes on with."""
        work = _begun(block) if isinstance(block, Block) else block
        attempts = Attempts.begin(self._attempts(name), self._run)
        self._predict(work, attempts)
        done = self._done(name, work) if self._is_last else work
        attempts.end()
        return done

    def _attempts(self, name: str) -> Place:
        return self._output.attempts(name + self._note)

    def _done(self, name: str, work: Work) -> Done:
        words = sum(count_words(document.text) for document in work.documents)
        # Whoever took the place over may be done: what is written here would pass for its answers.
        self._output.check()
        not_in_brat = self._write(name, work)
        mentions = [mention for document in work.documents for mention in document.mentions]
        lost = sum(reject["lost"] == "document" for reject in work.rejects)
        sidecar = {
            "documents": len(work.documents),
            "rejected": lost,
            "duplicates": work.duplicates,
            "windows": sum(work.windows),
            "words": words,
            "mentions": Counter(m.type for m in mentions),
            "fine_types": Counter(name for m in mentions for name, _ in m.types),
            "linked": sum(m.entity_id is not None for m in mentions),
            "lost": not_in_brat,
            "rejects": work.rejects,
        }
        self._output.write_json(self._output.sidecar(name), sidecar)
        return Done(len(work.documents), lost, words, work.begun, time.time())

    def fault(self, name: str) -> int:
        """Note that this worker gives a block up for a fault of its own; how often that was in this run."""
        return note_fault(self._attempts(name), self._run)

    def _predict(self, work: Work, attempts: Attempts) -> None:
        """Put the answers in place of the documents; one that the model fails on becomes a reject, and no
        other does."""
        answers: Sequence[Predicted | None] | None = None
        if not attempts.is_careful:
            try:
                answers = self._answering.answers(work.documents)
            except WorkerFault:
                raise
            except Exception:
                log.warning("a batch failed; trying its documents one by one", exc_info=True)
        if answers is None:
            answers = self._one_by_one(work, attempts)
        given = [place for place, answer in enumerate(answers) if answer is not None]
        found = [answer for answer in answers if answer is not None]
        for answer in found:
            if not isinstance(answer.out, Document):
                what = f"its answers are {type(answer.out).__name__}s, not documents"
                raise InputError("annotate", what, "name a checkpoint that finds mentions")
        work.documents = [answer.out for answer in found]
        work.sources = [work.sources[place] for place in given]
        work.windows = [work.windows[p] for p in given] if work.windows else [a.windows for a in found]
        work.read = [work.read[place] for place in given] if work.read else []
        if self._with_contexts is not None and not work.read:
            work.read = [self._with_contexts(document) for document in work.documents]

    def _one_by_one(self, work: Work, attempts: Attempts) -> list[Predicted | None]:
        answers = [
            self._one(document, source, work, attempts)
            for document, source in zip(work.documents, work.sources, strict=True)
        ]
        if answers and not any(answers):
            self._answering.probe()
        return answers

    def _one(self, document: Document, source: str, work: Work, attempts: Attempts) -> Predicted | None:
        what, hint = "the worker died over it, more than once", "report this, with the document"
        if not attempts.is_lethal(source):
            answer = self._answering.answer(document)
            if not isinstance(answer, Exception):
                return answer
            what = f"the model failed on it ({type(answer).__name__}: {str(answer)[:200]})"
            if isinstance(answer, InputError):
                what, hint = answer.what, answer.hint
        work.reject(Reject(source, what, hint, document.document_id))
        return None

    def _write(self, name: str, work: Work) -> Counter[str]:
        """Write the documents; what brat files of them have no place for, by what it is."""
        lost: Counter[str] = Counter()
        if not work.documents:
            return lost
        found = work.documents
        if work.read:
            pairs = zip(work.read, found, strict=True)
            found = [replace(read, mentions=document.mentions) for read, document in pairs]
        with tempfile.TemporaryDirectory() as folder:
            if "jsonl" in self._also:
                path = Path(folder, "documents.jsonl")
                write_jsonl(found, path)
                self._output.jsonl(name).copy_from(path)
            if "brat" in self._also:
                written = write_brat(found, Path(folder, "brat"))
                lost = written.dropped
                for path in written.paths:
                    self._output.brat(name).below(path.name).copy_from(path)
        rows = [
            {
                "document_id": document.document_id,
                "mentions": [mention_to_row(mention) for mention in document.mentions],
                "windows": windows,
                "model_version": self._version,
                "source": source,
                "sentences": sentence_rows(document) if "contexts" in self._also else None,
            }
            for document, windows, source in zip(found, work.windows, work.sources, strict=True)
        ]
        schema = ANNOTATION_SCHEMA.append(SENTENCES) if "contexts" in self._also else ANNOTATION_SCHEMA
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
        self._output.documents(name).write(sink.getvalue())
        return lost


def _begun(block: Block) -> Work:
    """The documents of a block, of those with one id the first, and rejects for all else."""
    work = Work(where=block.where, consumed=block.consumed)
    for row in block.all_rows():
        if isinstance(row, Reject):
            work.reject(row)
        else:
            _read(row, work)
    _keep_first(work)
    return work


def _read(row: Row, work: Work) -> None:
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
        line = row.content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise CorpusError(row.where, *files.not_utf8(error)) from None
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorpusError(row.where, f"not JSON ({error})", hint_for(line)) from None


def _keep_first(work: Work) -> None:
    """Of documents with one id, keep the first."""
    first: dict[str, str] = {}
    kept = []
    for document, source in zip(work.documents, work.sources, strict=True):
        if first.setdefault(document.document_id, source) == source:
            kept.append((document, source))
        else:
            work.reject(second(document.document_id, source, first[document.document_id]))
    work.duplicates = len(work.documents) - len(kept)
    work.documents, work.sources = [d for d, _ in kept], [s for _, s in kept]


def count_words(text: str) -> int:
    """What spaces part, for figures of speed: to find words as a model does would take part of its time."""
    return sum(len(text[i : i + _SLICE].split()) for i in range(0, len(text), _SLICE))


def second(document_id: str, source: str, first: str) -> Reject:
    """The reject of a document whose id another one has."""
    hint = "give each document an id of its own"
    return Reject(source, f"its id {document_id!r} is that of the document at {first}", hint, document_id)
