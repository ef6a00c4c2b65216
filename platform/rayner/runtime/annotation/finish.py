"""The end of an annotation: ids given twice, the table of rejects, and whether all documents are there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import IO, Any

from rayner.errors import RaynerError
from rayner.runtime.annotation.duplicates import decision, drop_duplicates
from rayner.runtime.annotation.output_folder import REJECTS, Output

_CHUNK = 2**20
_COUNTS = ("documents", "rejected", "duplicates", "linked", "windows", "words")


def finish(output: Output, shards: int) -> dict[str, Any]:
    """Leave each id once, write the rejects, and count.

    Every step can be cut short and done again.

    Args:
        shards: of the whole input, also those that an annotation before files were added has read.

    Returns:
        `documents, rejected, duplicates, mentions, linked, types, fine_types, windows, words, first_reject`;
        `fine_types` not where a part was annotated before they were counted. `lost`, if anything is: what
        brat files had no place for when they were written, also those of duplicates, by what it is.

    Raises:
        RaynerError: documents are missing or too many, which no input can cause.
    """
    before = output.before()
    blocks = output.blocks()
    earlier = output.blocks_before(before.get("shards", 0))
    documents = sum(known["documents"] for known in output.sidecars(blocks)) + before.get("documents", 0)
    decided = drop_duplicates(output, [*earlier, *blocks], documents)
    counts = Counter({key: before.get(key, 0) for key in _COUNTS})
    types: Counter[str] = Counter(before.get("types", {}))
    fine_types: Counter[str] = Counter(before.get("fine_types", {}))
    lost: Counter[str] = Counter(before.get("lost", {}))
    are_counted = not before or "fine_types" in before
    with output.place.below(REJECTS).writing() as stream:
        first = _copy_rejects(output, before, stream)
        for name, known in zip(blocks, output.sidecars(blocks), strict=True):
            twice = output.read_json(decision(output, name)) if name in decided else {}
            are_counted = are_counted and "fine_types" in known
            for source, sign in ((known, 1), (twice, -1)):
                types.update({k: sign * v for k, v in source.get("mentions", {}).items()})
                fine_types.update({k: sign * v for k, v in source.get("fine_types", {}).items()})
                for key in ("documents", "windows", "linked"):
                    counts[key] += sign * source.get(key, 0)
            lost.update(known.get("lost", {}))
            counts["duplicates"] += known["duplicates"] + twice.get("documents", 0)
            counts["rejected"] += known["rejected"] + twice.get("documents", 0)
            counts["words"] += known["words"]
            rejects = known["rejects"] + twice.get("rejects", [])
            first = first or next(iter(rejects), None)
            for reject in rejects:
                stream.write(json.dumps(reject, ensure_ascii=False).encode() + b"\n")
    _check(output, shards, [*earlier, *blocks], len(blocks), counts)
    return {
        "documents": counts["documents"],
        "rejected": counts["rejected"],
        "duplicates": counts["duplicates"],
        "mentions": (+types).total(),
        "linked": counts["linked"],
        "types": dict((+types).most_common()),
        **({"fine_types": dict((+fine_types).most_common())} if are_counted else {}),
        **({"lost": dict(lost.most_common())} if lost else {}),
        "windows": counts["windows"],
        "words": counts["words"],
        "first_reject": first,
    }


def _copy_rejects(output: Output, before: Mapping[str, Any], stream: IO[bytes]) -> dict[str, Any] | None:
    """Begin with the rejects of the annotation before files were added; the first of them.

    They are the first bytes of the file, also where this was cut short after the file was written.
    """
    left = before.get("bytes_of_rejects", 0)
    if not left:
        return None
    place, first = output.place.below(REJECTS), b""
    with place.filesystem.open_input_stream(place.path, compression=None) as file:
        while left and (data := file.read(min(left, _CHUNK))):
            first += b"" if b"\n" in first else data
            stream.write(data)
            left -= len(data)
    return json.loads(first.split(b"\n")[0])


def _check(output: Output, shards: int, blocks: Sequence[str], done: int, counts: Counter[str]) -> None:
    """Compare what the readers read with what lies in the files.

    Args:
        blocks: all of them.
        done: how many of them are not those of an annotation before files were added.
    """
    read, before = output.shards(), output.before()
    given = sum(shard["documents"] for shard in read.values())
    given += before.get("documents", 0) + before.get("rejected", 0)
    written = sum(output.rows_of(blocks))
    missing = set(range(before.get("shards", 0), shards)) - set(read)
    expected = sum(shard["blocks"] for shard in read.values())
    sound = written == counts["documents"] and given == written + counts["rejected"]
    if missing or done != expected or not sound:
        raise RaynerError(
            f"{output.place.shown}: {given:,} documents were read, {written:,} lie in the output and "
            f"{counts['rejected']:,} among the rejects ({done:,} of {expected:,} blocks, "
            f"{len(missing):,} of the inputs unread); did the input change, or another run write here? "
            "start over with --fresh"
        )
