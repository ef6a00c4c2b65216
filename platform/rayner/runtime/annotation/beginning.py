"""What an annotation finds in its folder: nothing, another one to go on with, or what is not from here."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import fs

from rayner.counted import counted
from rayner.errors import InputError
from rayner.files.places import Place
from rayner.files.whole import is_partial, told_of
from rayner.runtime.annotation.input_shards import (
    Addition,
    Source,
    addition,
    additions_to_table,
    digest_of,
    grown,
    shards_of,
)
from rayner.runtime.annotation.output_folder import (
    BEFORE,
    DUPLICATES,
    FILES,
    INPUTS,
    PRECISION,
    REJECTS,
    SETTINGS,
    SUMMARY,
    WORK,
    Output,
    at_once,
)

_DOCUMENTS = r"documents-\d{5,}-\d{5,}\.parquet"
_OURS = re.compile(rf"{_DOCUMENTS}|_jsonl|_brat|_rejects\.jsonl|_inputs\.arrow|_annotation\.json|\.work")
_OF_WORK = {
    *(name.removeprefix(f"{WORK}/") for name in (SETTINGS, FILES, BEFORE, PRECISION, DUPLICATES)),
    *("blocks", "shards", "attempts", "duplicates"),
}
_REMOVED = {"removed": "to begin anew"}
"""The settings of an annotation whose removal was begun."""
_FRESH = "name another folder, or start over with --fresh"


def begin(
    output: Output,
    settings: Mapping[str, Any],
    sources: Sequence[Source],
    fresh: bool,
) -> list[Addition] | None:
    """Make ready to work in the folder.

    An annotation of the same settings whose files are all here, unchanged, is gone on with, whatever else is
    among the sources.

    Args:
        settings: what decides the result beside the input, by name, each as a hash, a short text, or a table
            of these by name.
        fresh: remove what is there of another annotation.

    Returns:
        The input, in the additions in which it came; None where all is done already.

    Raises:
        InputError: the folder holds something else, an annotation with other settings, or a finished one of
            which documents are missing.
    """
    entries = _names(output.place)
    summary = output.summary()
    of_work = _settings_in(output.read_json(output.place.below(SETTINGS)))
    earlier = of_work or _settings_in(summary.get("settings"))
    if not earlier:
        _check_own(output, entries, fresh)
    wanted = {"input": digest_of(sources), **settings}
    is_done = SUMMARY in entries and summary.get("settings") == earlier
    is_empty = SUMMARY not in entries and not output.finished_blocks()
    additions = None
    if fresh or not earlier or earlier == _REMOVED or (is_empty and earlier != wanted):
        with told_of(f"--out {output.place.shown}", "name a folder that can be"):
            _remove(output, entries)
    else:
        known = _read_additions(output, FILES if of_work else INPUTS, is_done)
        additions = None if known is None else grown(known, sources)
        _check_settings(output, earlier, wanted, additions is not None)
        is_same = additions is None or sum(len(a.sources) for a in additions) == len(known or ())
        if is_done:
            _check_parts(output, summary)
        if is_done and is_same:
            # One that was interrupted at its very end has left it.
            output.place.below(WORK).delete()
            return None
        if is_done and additions:
            _keep_as_before(output, summary, additions[:-1])
        _forget_damaged(output)
    additions = additions or [addition(sources)]
    with told_of(f"--out {output.place.shown}", "name a folder that can be"):
        output.place.drop_partials()
        for name in ("_jsonl", "_brat", WORK):
            output.place.below(name).drop_partials(recursive=True)
        _write_additions(output.place.below(FILES), additions)
        # Last: with them, all else is there.
        output.write_json(output.place.below(SETTINGS), wanted)
    return additions


def _refused(output: Output, what: str, hint: str) -> InputError:
    return InputError(f"--out {output.place.shown}", what, hint)


def _names(place: Place) -> set[str]:
    selector = fs.FileSelector(place.path, allow_not_found=True)
    return {info.base_name for info in place.filesystem.get_file_info(selector)}


def _settings_in(value: Any) -> dict[str, Any]:
    """The settings of an annotation; empty where it is something else."""
    return value if isinstance(value, dict) and ("model" in value or value == _REMOVED) else {}


def _check_own(output: Output, entries: Collection[str], fresh: bool) -> None:
    """Refuse a folder of which nothing says that it is ours, where something in it would be replaced.

    What a run leaves that is killed before its settings are written, or while they are removed, is ours, and
    so are the rejects of one that rejected everything.
    """
    has_documents = any(name.startswith("documents-") for name in entries)
    is_work = WORK in entries and _is_work(output.place.below(WORK))
    of_end = INPUTS in entries and (has_documents or SUMMARY in entries)
    if of_end or (is_work and output.place.below(FILES).info().type == fs.FileType.File):
        if has_documents and not fresh:
            what = "holds an annotation that has lost its settings, as after a power cut"
            raise _refused(output, what, _FRESH)
        return
    if has_documents:
        raise _refused(output, "holds documents that are not from here", "name another folder")
    own = {WORK} if is_work else set()
    if REJECTS in entries and _is_rejects(output.place.below(REJECTS)):
        own.add(REJECTS)
    if others := sorted(name for name in entries if _OURS.fullmatch(name) and name not in own):
        what = f"holds files that are not from here and would be replaced: {', '.join(others)}"
        raise _refused(output, what, "name another folder")


def _is_work(place: Place) -> bool:
    if place.info().type != fs.FileType.Directory:
        return False
    return all(name in _OF_WORK or is_partial(name) for name in _names(place))


def _is_rejects(place: Place) -> bool:
    if place.info().type != fs.FileType.File:
        return False
    with place.filesystem.open_input_stream(place.path, compression=None) as stream:
        first = stream.read(2**20).partition(b"\n")[0]
    try:
        row = json.loads(first or b"{}")
    except ValueError:
        return False
    return not first or (isinstance(row, dict) and {"where", "what", "hint"} <= row.keys())


def _remove(output: Output, entries: Collection[str]) -> None:
    """Remove an annotation, so that whoever is killed meanwhile begins anew the next time: first it is noted,
    then goes what says that it is finished, and the note goes last."""
    ours = [name for name in entries if _OURS.fullmatch(name)]
    if ours:
        output.write_json(output.place.below(SETTINGS), _REMOVED)
    for name in sorted({*ours, WORK} if ours else (), key=lambda name: (name == WORK, name != SUMMARY, name)):
        output.place.below(name).delete()


def _check_settings(
    output: Output, earlier: Mapping[str, Any], wanted: Mapping[str, Any], has_grown: bool
) -> None:
    changed = _changed(earlier, wanted)
    if set(changed) - ({"input"} if has_grown else set()):
        told = [_told(key, earlier.get(key), wanted.get(key)) for key in changed]
        hint = _FRESH
        if changed == ["input"]:
            hint += "; where a corpus grows, keep the files that were read, with what is new in others"
        raise _refused(output, f"holds an annotation with another {', another '.join(told)}", hint)


def _changed(earlier: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in {**earlier, **wanted} if earlier.get(key) != wanted.get(key))


def _told(key: str, earlier: Any, wanted: Any) -> str:
    """A setting that changed; of a table, with the names of those in it."""
    if isinstance(earlier, dict) and isinstance(wanted, dict):
        return f"{key} ({', '.join(_changed(earlier, wanted))})"
    return key


def _check_parts(output: Output, summary: Mapping[str, Any]) -> None:
    """Refuse a finished annotation of which documents are missing: what is known of its blocks is gone."""
    found = output.parts()
    wanted = summary.get("parts", found)
    if found != wanted:
        told, meant = (
            f"{counted(n['files'], 'file')} of {counted(n['bytes'], 'byte')}" for n in (found, wanted)
        )
        what = f"holds {told} of documents, where the annotation that was finished there had {meant}"
        raise _refused(output, what, "put the files back that it had, or start over with --fresh")


def _keep_as_before(output: Output, summary: Mapping[str, Any], additions: Iterable[Addition]) -> None:
    output.place.below(WORK).delete()
    rejects = output.place.below(REJECTS).info().size or 0
    before = {**summary, "shards": len(shards_of(additions)), "bytes_of_rejects": rejects}
    output.write_json(output.place.below(BEFORE), before)


def _forget_damaged(output: Output) -> None:
    """Have those blocks done again whose documents are noted and are not there, as after a power cut, which
    leaves files empty. To read into each of a million blocks would take minutes."""
    sizes = output.document_files()
    blocks = [name for name in output.blocks() if not sizes.get(name)]
    notes = at_once(lambda name: output.read_json(output.sidecar(name)), blocks)
    for name, known in zip(blocks, notes, strict=True):
        if known.get("documents") != 0:
            output.sidecar(name).delete()


def _read_additions(output: Output, name: str, is_done: bool) -> pa.Table | None:
    """The files that were read, or are to be; None where no list is left: nothing can be added then."""
    data = output.place.below(name).read()
    if data is None:
        return None
    try:
        return pa.ipc.open_file(data).read_all()
    except (pa.ArrowException, OSError):
        if is_done:
            return None
    what = f"holds an annotation of which {name}, the list of its files, is damaged"
    raise _refused(output, what, _FRESH)


def _write_additions(place: Place, additions: Iterable[Addition]) -> None:
    sink = io.BytesIO()
    table = additions_to_table(additions)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    place.write(sink.getvalue())
