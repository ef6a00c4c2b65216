"""What `rayner annotate` does: a checkpoint over whole corpora."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rayner.config.base import AskedPrecision
from rayner.counted import counted
from rayner.data.example_shards import canonical_digest
from rayner.errors import CheckpointError, CorpusError, InputError
from rayner.files.places import place_of
from rayner.runtime.annotation.annotation_progress import Speed, Tick, follow
from rayner.runtime.annotation.beginning import begin
from rayner.runtime.annotation.block import Also, BlockAnnotator, Model
from rayner.runtime.annotation.execution import ToRead, run_here, run_on_ray
from rayner.runtime.annotation.finish import finish
from rayner.runtime.annotation.input_shards import Addition, Left, find_sources, shards_of
from rayner.runtime.annotation.output_folder import ANNOTATION_SCHEMA, PRECISION, WORK, Output
from rayner.runtime.annotation.pools import PoolSettings, pool_of, with_memory
from rayner.runtime.run_folder import check_apart
from rayner.tasks.stages import PipelineSettings, read_pipeline

LAYOUT = "2"
"""To be raised when files are cut into blocks in another way: a run must not go on with other blocks."""
_NAMED = 3
"""Of files that are left aside, how many are named."""
SECONDS_BETWEEN_CHECKS = 20.0
"""How often it is looked whether another run has taken the output over."""
SMALL_BYTES = 2**18
"""Inputs below this are annotated faster in this process than Ray starts."""

_BRING = "give rows with `mentions`, or a pipeline file with a recognizer or a tagger before it"

log = logging.getLogger(__name__)


def annotate(
    model: Model | Path,
    inputs: Sequence[str | Path],
    out: str | Path,
    *,
    options: Mapping[str, Any] | None = None,
    also: Sequence[Also] = (),
    workers: int | None = None,
    max_workers: int | None = None,
    pool_per_stage: bool = False,
    cpus: float | None = None,
    gpus: float | None = None,
    memory: float | None = None,
    tokens_per_batch: int | None = None,
    precision: AskedPrecision = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Annotate Parquet, JSONL and text files, packed or not: `documents-*.parquet` and `_rejects.jsonl`.

    A killed run goes on where it stopped, block by block; a finished one of the same files is not done again,
    and where files were added since, they alone are annotated.
    On a cluster, inputs, output and checkpoint must be on storage that all nodes see.

    Args:
        model: a checkpoint folder, a pipeline file, or another source of a predictor over documents.
        inputs: local files and folders, or URIs that pyarrow or fsspec know.
        out: a local folder or a URI.
        options: of the checkpoint's task, by name: other types, thresholds or nesting than the recipe's; only
            with a checkpoint folder.
        also: write JSONL with the texts, or brat, beside Parquet; with `contexts`, Parquet has a column
            `sentences` of the contexts chosen for each sentence, which JSONL has anyway.
        workers: a fixed number of actors; 0 works in this process; None lets the pool grow from one actor to
            `max_workers` (all that the cluster has room for), or works here where the input is small.
        pool_per_stage: a pool of actors for each stage of a pipeline, each of the size that `workers` or
            `max_workers` says, in place of one whose actors hold all stages: so each model has a worker, or
            a GPU, of its own, and they work at the same time. It changes no answer.
        cpus: logical CPUs of an actor; the whole ones are also its threads, at least one, and with a fraction
            beyond them (1.5) it prepares windows while the model works, as with a GPU. By default one; on one
            machine that has fewer than there are pools, which all work at once, an equal share.
        gpus: GPUs of an actor; by default one where the cluster has any, or a share as of CPUs. Where this
            process does the work, 0 keeps it from its GPU, and more than 0 asks for one.
        memory: GiB of an actor, by which Ray places it, 0 for none; by default what its checkpoints and
            indexes make probable, unless no node has so much.
        tokens_per_batch: padded tokens a batch, memory against speed; by default what suits the device. A run
            that is resumed may take others.
        precision: what encoders compute in; only with a checkpoint or a pipeline file. `auto` is decided
            once, here or, for GPUs that this process does not see, by each actor, and kept when the run is
            resumed.
        fresh: start over.

    Returns:
        `documents, rejected, duplicates, mentions, linked, types, fine_types` (mentions by each), `lost`
        (what brat files have no place for, if anything, by what it is, also of duplicates), `windows, words`
        (of all documents that were read), `new_types` (those never learned, with how their threshold is had),
        `first_reject, model_version, words_per_second` (after start-up, in this run), `startup_seconds,
        seconds, workers`, and `compute_precision` where it was decided here.

    Raises:
        InputError: an input, the output or the checkpoint that cannot be used.
        RaynerError: documents got lost, or a worker failed.
    """
    speed = Speed()
    asked_pool = PoolSettings(workers, max_workers, pool_per_stage, cpus, gpus, memory)
    asked_pool.check()
    source = read_pipeline(model, options, precision) if isinstance(model, str | Path) else model
    if isinstance(source, PipelineSettings) and not source.answers_documents:
        what = f"task {source.stages[0].record.name} does not find mentions in documents"
        raise CheckpointError(str(model), what, "name a recognizer or a tagger, or a pipeline file")
    asked_precision = getattr(source, "precision", None)
    # What is asked for is told apart from the model; what that comes to is decided later, once.
    version = _with_precision(source, None).version
    sources, left = find_sources([str(given) for given in inputs])
    _tell_of_left(left)
    output = Output(place_of(out))
    place = output.place
    # Of a URI such as file:///texts, the path that it means.
    check_apart([place_of(str(given)).shown for given in inputs], place.shown)
    if place.is_local and Path(place.path).exists() and not Path(place.path).is_dir():
        raise InputError(f"--out {place.shown}", "is a file", "name a folder")
    asked = source.options if isinstance(source, PipelineSettings) else None
    settings = {
        "model": version,
        "set of options": _options(asked or [], also),
        "cut into blocks": LAYOUT,
        "set of columns": canonical_digest(str(ANNOTATION_SCHEMA)),
        **({"precision": asked_precision} if asked_precision else {}),
    }
    with output.locked() as output:
        if fresh and isinstance(source, PipelineSettings):
            # What cannot answer removes no annotation.
            source.check()
        additions = begin(output, settings, sources, fresh)
        if additions is None:
            log.info("%s is up to date", output.place.shown)
            return {k: v for k, v in output.summary().items() if k not in ("settings", "parts")}
        if isinstance(source, PipelineSettings) and not fresh:
            source.check()
        annotator = partial(BlockAnnotator, output=output, also=also, tokens_per_batch=tokens_per_batch)
        used = _run(source, additions, output, annotator, asked_pool, speed)
        output.check()
        counts = finish(output, len(shards_of(additions)))
        first = counts["first_reject"]
        if not counts["documents"]:
            output.place.below(WORK).delete()
            raise CorpusError(first["where"], first["what"], first["hint"])
        if isinstance(source, PipelineSettings) and not source.finds_mentions:
            _tell_of_given(source, counts)
        if lost := counts.get("lost"):
            told = ", ".join(f"{name} ({count})" for name, count in lost.items())
            log.warning("lost, as brat has no place for it: %s", told)
        computed = _kept_precision(output)
        result = {
            **counts,
            "new_types": source.new_types if isinstance(source, PipelineSettings) else {},
            "first_reject": first and f"{first['where']}: {first['what']}; {first['hint']}",
            "model_version": _with_precision(source, computed).version,
            **({"compute_precision": computed} if computed else {}),
            "words_per_second": round(speed.words_per_second, 1),
            "startup_seconds": round(speed.startup_seconds, 3),
            "seconds": round(speed.seconds, 3),
            "workers": used,
        }
        output.check()
        output.end(result)
    return result


def _tell_of_left(left: Left) -> None:
    """Name files of folders that are not read."""
    aside = "left aside, for their kind, names of documentation or an underscore in front"
    for what, names in ((aside, left.aside), ("left aside, as links to nothing", left.dangling)):
        if names:
            more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            log.warning("%s: %s (%s%s)", what, counted(len(names), "file"), ", ".join(names[:_NAMED]), more)


def _options(asked: Sequence[Mapping[str, Any]], also: Sequence[Also]) -> dict[str, str]:
    """A hash for each option that changes answers or files; of a pipeline by stage, as errors name them."""
    found: dict[str, Any] = dict.fromkeys(also, True)
    for number, options in enumerate(asked):
        stage = f"stages.{number}." if len(asked) > 1 else ""
        found |= {f"{stage}{name}": value for name, value in options.items() if value is not None}
    return {name: canonical_digest(value) for name, value in sorted(found.items())}


def _tell_of_given(source: PipelineSettings, counts: Mapping[str, Any]) -> None:
    """Warn where the documents bring no mentions, or none of a type that is to be linked."""
    if not counts["mentions"]:
        log.warning("no document brings a mention, and the checkpoint finds none itself: %s", _BRING)
        return
    stages = [stage.options for stage in source.stages if stage.record.stage == "entities"]
    wanted = {name for options in stages for name in options.asked_types or ()}
    if unused := sorted(wanted - counts["types"].keys()):
        what = "no mention is of the type %s, which the pipeline links; those there are: %s"
        log.warning(what, *(", ".join(map(repr, names)) for names in (unused, counts["types"])))


def _run(
    source: Model,
    additions: Sequence[Addition],
    output: Output,
    annotator: partial[BlockAnnotator],
    asked: PoolSettings,
    speed: Speed,
) -> int:
    """Annotate what is not done; how many actors there may be at once, 0 for none."""
    total = sum(source.size for added in additions for source in added.sources)
    work, finished = _left(additions, output)
    if not work:
        return 0
    stages = len(source.stages) if asked.per_stage and isinstance(source, PipelineSettings) else None
    is_small = total < SMALL_BYTES and asked.grows and not asked.gpus and not stages
    if asked.workers == 0 or is_small:
        device = "cpu" if asked.gpus == 0 else None
        decided = _decided(source, output, device)
        ticks = run_here(partial(annotator, decided, device=device), work, output)
        follow(_checked(ticks, output.check), total, finished, speed)
        return 0
    pool = with_memory(pool_of(asked, stages), source, asked)
    device = "cuda" if pool.gpus else "cpu"
    decided = _decided(source, output, device)
    if stages and getattr(decided, "precision", None) == "auto":
        what = "would be timed by each stage for itself, since this process sees no GPU"
        raise InputError("--precision auto", what, "with --pool-per-stage name float32 or bfloat16")
    ticks = run_on_ray(partial(annotator, decided, device=device), work, output, pool)
    follow(_checked(ticks, output.check), total, finished, speed)
    return pool.most + (stages or 1) - 1 if asked.grows else pool.most * (stages or 1)


def _decided(source: Model, output: Output, device: str | None) -> Model:
    """The source with the precision that the run took when it was begun, or takes now and will keep.

    Where the work is for GPUs that this process does not see, each worker decides by its own.
    """
    if not isinstance(source, PipelineSettings) or (device == "cuda" and not torch.cuda.is_available()):
        return source
    precision = _kept_precision(output) or source.decided(device).precision
    output.write_json(output.place.below(PRECISION), {"compute_precision": precision})
    return _with_precision(source, precision)


def _kept_precision(output: Output) -> AskedPrecision:
    return (output.read_json(output.place.below(PRECISION)) or output.before()).get("compute_precision")


def _with_precision(source: Model, precision: AskedPrecision) -> Model:
    return replace(source, precision=precision) if isinstance(source, PipelineSettings) else source


def _checked(ticks: Iterator[Tick], check_writer: Callable[[], None]) -> Iterator[Tick]:
    """The ticks; now and then, whether this run may still write."""
    checked = time.monotonic()
    for tick in ticks:
        if time.monotonic() - checked >= SECONDS_BETWEEN_CHECKS:
            check_writer()
            checked = time.monotonic()
        yield tick


def _left(additions: Sequence[Addition], output: Output) -> tuple[list[ToRead], float]:
    """The shards that have blocks to do, and the bytes of the others."""
    done, read, before = output.finished_blocks(), output.shards(), output.before().get("shards", 0)
    work, finished = [], 0.0
    for index, (shard, block_bytes) in enumerate(shards_of(additions)):
        blocks = frozenset(done.get(index, ()))
        if index < before or (index in read and len(blocks) == read[index]["blocks"]):
            finished += sum(source.size for source in shard)
        else:
            work.append(ToRead(index, shard, block_bytes, blocks))
    if done:
        log.info("going on after %s", counted(sum(map(len, done.values())), "block"))
    return work, finished
