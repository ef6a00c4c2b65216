"""Datasets of Hugging Face in words and tags: saved to disk (Arrow) or Parquet, read without their library.

A row is a document, with its words in `tokens` or `words`. Tags are strings, or numbers whose names the
schema gives (`ClassLabel`), in one of IOB1, IOB2, BIOES and BILOU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.counted import counted
from rayner.data.readers import files, tag_schemes
from rayner.data.readers.arrow_rows import rows_of
from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.merge import merge
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention
from rayner.errors import CorpusError

WORDS = ("tokens", "words")
TAGS = ("ner_tags", "tags", "labels", "ner", "entities")
_IDS = ("document_id", "id")
Names = Mapping[str, Sequence[str]]
"""The names of the numbers in a column."""


def matches(sample: Sample) -> bool:
    """Whether it is Arrow, or Parquet that has words and no text, or words and tags but no document's id."""
    suffix = sample.path.suffix.lower()
    if suffix not in (".parquet", ".pq"):
        return suffix == ".arrow"
    try:
        columns = pq.read_schema(sample.path).names
    except (pa.ArrowException, OSError):
        return False
    is_tagged = any(name in columns for name in TAGS) and not {"document_id", "mentions"} & {*columns}
    return any(name in columns for name in WORDS) and (is_tagged or "text" not in columns)


def read(unit: FileUnit) -> Reading:
    """The documents of a file; rows without an id are named `NAME:ROW`."""
    (path,) = unit.paths
    try:
        table = _table(path)
        return _reading(rows_of(table), table.column_names, _names(table.schema), path, unit.name)
    except files.NOT_GIVEN as error:
        raise files.unreadable(path, error) from None
    except (pa.ArrowException, OSError) as error:
        if files.is_fault(error):
            raise
        raise CorpusError(path, f"not a file that can be read ({error})", "save the dataset again") from None


def read_dataset(dataset: Any) -> Reading:
    """The documents of a `datasets.Dataset` with words and tags, each a row; as of a file, the second of two
    unlike ones with one id is a reject.

    Raises:
        CorpusError: it has no column of words, or none of tags; or it is no dataset with known columns, but
            its splits, say.
    """
    if isinstance(dataset, Mapping):
        hint = f"give one of them: dataset[{next(iter(dataset), 'train')!r}]"
        raise CorpusError("dataset", f"holds the splits {', '.join(map(str, dataset))}", hint)
    if (known := getattr(dataset, "features", None)) is None:
        what = f"a {type(dataset).__name__} whose columns are not known"
        raise CorpusError("dataset", what, "give a datasets.Dataset, loaded without streaming")
    features = dict(known)
    # Formatted for NumPy or PyTorch, rows are arrays.
    dataset = dataset.with_format(None)
    names = {column: found for column, feature in features.items() if (found := _names_of(feature))}
    return merge([_reading(dataset, list(features), names, "dataset", "dataset")])


def _names_of(feature: Any) -> Sequence[str]:
    inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    return getattr(inner, "names", None) or ()


def _table(path: str) -> pa.Table:
    if not path.lower().endswith(".arrow"):
        return pq.read_table(path)
    with pa.memory_map(path) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file).read_all()


def _names(schema: pa.Schema) -> Names:
    """Those that the library of Hugging Face keeps in the schema's metadata."""
    found: dict[str, Sequence[str]] = {}
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        for column, feature in features.items():
            inner = feature[0] if isinstance(feature, list) else feature.get("feature")
            if isinstance(inner, dict) and inner.get("names"):
                found[column] = [str(name) for name in inner["names"]]
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        return found
    return found


def _reading(
    rows: Iterable[Mapping[str, Any] | UnicodeDecodeError],
    columns: Sequence[str],
    names: Names,
    where: str,
    name: str,
) -> Reading:
    reading = Reading()
    rows = list(rows)
    words = next((column for column in WORDS if column in columns), None)
    if words is None:
        listed = ", ".join(columns)
        raise CorpusError(where, f"no column of words among {listed}", f"name it {' or '.join(WORDS)}")
    tags = _tags_column([row for row in rows if isinstance(row, Mapping)], columns, names, where)
    good: list[tuple[int, str, Sequence[str], Sequence[str]]] = []
    for number, row in enumerate(rows):
        if isinstance(row, UnicodeDecodeError):
            reading.reject(f"{where}:row {number}", *files.not_utf8(row))
            continue
        document_id = next((str(row[c]) for c in _IDS if row.get(c) is not None), f"{name}:{number}")
        try:
            if row[words] is None or row[tags] is None:
                raise ValueError(f"`{words if row[words] is None else tags}` is null")
            found = [_tag(tag, names.get(tags)) for tag in row[tags]]
            if len(found) != len(row[words]):
                raise ValueError(f"{counted(len(row[words]), 'word')} and {counted(len(found), 'tag')}")
            if None in row[words]:
                raise ValueError(f"word {row[words].index(None)} is null")
            listed = [str(word) for word in row[words]]
            kept = [place for place, word in enumerate(listed) if word]
            if len(kept) < len(listed):
                reading.repaired["empty word left out"] += len(listed) - len(kept)
            good.append((number, document_id, [listed[i] for i in kept], [found[i] for i in kept]))
        except (ValueError, TypeError, IndexError) as error:
            reading.reject(f"{where}:row {number}", str(error), "give each word a tag", document_id)
    scheme = tag_schemes.scheme_of(found for *_, found in good)
    for number, document_id, listed, found in good:
        text, spans, _ = join_words([listed])
        mentions = [
            Mention(spans[first][0], spans[after - 1][1], type_)
            for first, after, type_ in tag_schemes.spans_of(found, scheme, reading.repaired)
        ]
        reading.add(Document(document_id, text, tuple(mentions), spans), f"{where}:row {number}")
    for column in set(columns) - {words, tags, *_IDS}:
        reading.ignored[f"field {column}"] += len(rows)
    return reading


def _tags_column(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], names: Names, where: str) -> str:
    """That whose names, or whose strings, are tags; of several the one with a usual name, or the first. None
    takes the place of one with a usual name: that may be of other tags."""

    def is_of_lists(column: str) -> bool:
        return any(isinstance(row[column], list) for row in rows)

    def is_of_tags(column: str) -> bool:
        if column in names:
            return all(map(tag_schemes.is_tag, names[column]))
        lists = ([v for v in row[column] if v is not None] for row in rows if isinstance(row[column], list))
        values = next(filter(None, lists), None)
        return bool(values) and all(isinstance(v, str) and tag_schemes.is_tag(v) for v in values)

    named = [column for column in TAGS if column in columns and is_of_lists(column)]
    found = [*filter(is_of_tags, named or [column for column in columns if column not in WORDS])]
    if not found:
        what = f"no column of tags (O, B-TYPE, I-TYPE, ...) among {', '.join(columns)}"
        raise CorpusError(where, what, "numbers need names: cast the column to a list of ClassLabel")
    return found[0]


def _tag(value: Any, names: Sequence[str] | None) -> str:
    if names is not None and isinstance(value, int):
        if not 0 <= value < len(names):
            raise ValueError(f"tag {value} is none of the {len(names)} that have names")
        return names[value]
    if not isinstance(value, str) or not tag_schemes.is_tag(value):
        raise ValueError(f"{value!r} is no tag")
    return value
