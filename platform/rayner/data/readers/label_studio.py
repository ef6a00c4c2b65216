"""Label Studio: an array of tasks, as its exports JSON and JSON-MIN have them.

[{"id": 1, "data": {"text": "..."}, "annotations": [{"result": [
    {"type": "labels", "value": {"start": 0, "end": 3, "text": "...", "labels": ["PER"]}}]}]}]
[{"id": 1, "text": "...", "label": [{"start": 0, "end": 3, "text": "...", "labels": ["PER"]}]}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.json_rows import first_object, id_of, objects_of
from rayner.data.readers.marked_spans import Marked, add_marked, list_in, text_of
from rayner.data.readers.typed_rows import RowError

_BY_SOMEBODY = ("annotations", "completions")
_OF_MIN = {"annotation_id", "annotator", "lead_time"}
"""What every row of JSON-MIN has."""


def matches(sample: Sample) -> bool:
    """Whether the first object is a task with its data, or a row of JSON-MIN."""
    row = first_object(sample)
    is_task = "data" in row and any(name in row for name in (*_BY_SOMEBODY, "predictions"))
    return is_task or row.keys() >= {"text", *_OF_MIN}


def read(unit: FileUnit) -> Reading:
    """The documents of a file; tasks that nobody annotated are left out and counted.

    Of several annotations of a task the ground truth is taken, or else the first.
    """
    reading = Reading()
    for where, default_id, row in objects_of(unit, reading):
        try:
            found = _task(row, reading) if "data" in row else (text_of(row), list(_of_min(row, reading)))
        except RowError as error:
            reading.reject(where, error.what, error.hint)
            continue
        if found is None:
            reading.ignored["task that nobody annotated"] += 1
            continue
        text, marked = found
        add_marked(reading, where, id_of(row, default_id), text, [_unescaped(one, text) for one in marked])
    return reading


def _unescaped(marked: Marked, text: str) -> Marked:
    """Its page writes the two characters `\\n` for each line end of a text that is marked."""
    surface = marked.surface
    if not isinstance(surface, str) or "\\n" not in surface or surface in text:
        return marked
    return marked._replace(surface=surface.replace("\\n", "\n"))


def _task(row: dict[str, Any], reading: Reading) -> tuple[str, list[Marked]] | None:
    """The text and what is marked in it; None of a task that nobody annotated."""
    given = [one for name in _BY_SOMEBODY for one in list_in(row, name)]
    if not all(isinstance(one, dict) for one in given):
        raise RowError("an annotation that is no object", "restore the task")
    done = [one for one in given if not one.get("was_cancelled")]
    if not done:
        return None
    reading.ignored.update("annotation beside the one that was taken" for _ in done[1:])
    taken = next((one for one in done if one.get("ground_truth")), done[0])
    return _text_in(row["data"]), list(_of_result(list_in(taken, "result"), reading))


def _text_in(data: Any) -> str:
    """The field `text`, or the only one that is a text."""
    fields = data if isinstance(data, dict) else {}
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    if "text" not in texts and len(texts) != 1:
        what = f"`data` has {len(texts) or 'no'} texts, and none is called `text`"
        raise RowError(what, "call the one that was annotated `text`")
    return texts["text"] if "text" in texts else next(iter(texts.values()))


def _of_result(result: Sequence[Any], reading: Reading) -> Iterator[Marked]:
    kinds = [one.get("type") if isinstance(one, dict) else None for one in result]
    others = [kind for kind in kinds if isinstance(kind, str) and kind.endswith("labels")]
    if others and "labels" not in kinds:
        raise RowError(f"its mentions are of the type {others[0]!s:.20}", "mark texts with `Labels`")
    for one, kind in zip(result, kinds, strict=True):
        if kind == "labels":
            yield from _each_label([one.get("value")])
        else:
            reading.ignored[f"result of the type {kind!s:.20}"] += 1


def _of_min(row: dict[str, Any], reading: Reading) -> Iterator[Marked]:
    """The fields are called as the project calls its labels."""
    for name, value in row.items():
        regions = value if isinstance(value, list) else []
        if regions and all(isinstance(one, dict) and ("start" in one or "labels" in one) for one in regions):
            yield from _each_label(regions)
        elif name not in _OF_MIN | {"id", "text", "created_at", "updated_at"} and value:
            reading.ignored[f"field {name}"] += 1


def _each_label(values: Iterable[Any]) -> Iterator[Marked]:
    for value in values:
        row = value if isinstance(value, dict) else {}
        labels = row.get("labels")
        for label in labels if labels and isinstance(labels, list) else [None]:
            yield Marked(row.get("start"), row.get("end"), label, row.get("text"))
