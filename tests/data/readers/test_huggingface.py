"""Datasets of Hugging Face: words and tags, from files and from objects."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.readers import detect, read_corpus
from rayner.data.readers.huggingface import read_dataset
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention
from rayner.errors import CorpusError

NAMES = ["O", "B-PER", "I-PER", "B-creative work", "I-creative work"]
PIECES = st.lists(
    st.tuples(
        st.lists(
            st.text(st.sampled_from("ab-\u00e9\u4e2d\U0001f600\u2028\n"), min_size=1, max_size=3),
            min_size=1,
            max_size=3,
        ),
        st.sampled_from([None, "PER", "creative work"]),
    ),
    max_size=4,
)


def document_of(document_id: str, pieces: list[tuple[list[str], str | None]]) -> tuple[Document, list[int]]:
    """A document of runs of words, each a mention or none, and the numbers of its tags."""
    text, words, _ = join_words([[word for run, _ in pieces for word in run]])
    mentions, tags = [], []
    for run, type_ in pieces:
        if type_ is not None:
            first, last = len(tags), len(tags) + len(run) - 1
            mentions.append(Mention(words[first][0], words[last][1], type_))
        tags += [NAMES.index(f"{'I' if i else 'B'}-{type_}") if type_ else 0 for i in range(len(run))]
    return Document(document_id, text, tuple(mentions), words), tags


def table_of(rows: list[dict[str, Any]], names: list[str] | None = NAMES) -> pa.Table:
    """As the library writes it: the names are in the schema's metadata."""
    label = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"ner_tags": label if names else {}}}})}
    return pa.Table.from_pylist(rows).replace_schema_metadata(metadata)


@given(st.lists(PIECES, min_size=1, max_size=3))
def test_rows_are_documents_with_their_mentions(corpus: list[list[tuple[list[str], str | None]]]) -> None:
    made = [document_of(f"d{i}", pieces) for i, pieces in enumerate(corpus)]
    rows = [
        {"id": d.document_id, "tokens": [d.text[a:b] for a, b in d.words or ()], "ner_tags": tags}
        for d, tags in made
    ]
    schema = pa.schema(
        [("id", pa.string()), ("tokens", pa.list_(pa.string())), ("ner_tags", pa.list_(pa.int64()))]
    )
    table = pa.Table.from_pylist(rows, schema=schema).replace_schema_metadata(table_of(rows).schema.metadata)
    with TemporaryDirectory() as folder:
        for name in ("data.arrow", "data.parquet"):
            path = Path(folder) / name
            if name.endswith("parquet"):
                pq.write_table(table, path)
            else:
                with pa.ipc.new_stream(path, table.schema) as stream:
                    stream.write_table(table)
            assert detect(path) == "huggingface"
            reading = read_corpus(path)
            assert reading.documents == [document for document, _ in made]
            assert not reading.rejects
            assert not reading.repaired


def test_the_library_itself(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        tokens=datasets.List(datasets.Value("string")),
        pos_tags=datasets.List(datasets.ClassLabel(names=["NN", "VB"])),
        tags=datasets.List(datasets.ClassLabel(names=NAMES)),
    )
    rows = {"tokens": [["Ada", "Lovelace", "wrote"]], "pos_tags": [[0, 0, 1]], "tags": [[1, 2, 0]]}
    dataset = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict(train=dataset).save_to_disk(str(tmp_path / "saved"))
    for reading in (read_corpus(tmp_path / "saved" / "train"), read_dataset(dataset)):
        (document,) = reading.documents
        assert document.text == "Ada Lovelace wrote"
        assert document.mentions == (Mention(0, 12, "PER"),)
        assert reading.ignored["field pos_tags"] == 1
    ids = dataset.add_column("id", ["a"])
    other = datasets.Dataset.from_dict({**rows, "tokens": [["Bo", "Cox", "ran"]], "id": ["a"]}, ids.features)
    twice = read_dataset(datasets.concatenate_datasets([ids, other]))
    assert [document.document_id for document in twice.documents] == ["a"]
    assert [reject.what for reject in twice.rejects] == ["document 'a' differs from the one at dataset:row 0"]
    as_text = dataset.cast_column("tags", datasets.List(datasets.Value("string")))
    with pytest.raises(
        CorpusError, match=r"no column of tags .* among tokens, pos_tags, tags; numbers need names"
    ):
        read_dataset(as_text)
    assert read_dataset(dataset.with_format("numpy")).documents == read_dataset(dataset).documents
    with pytest.raises(CorpusError, match=r"holds the splits train, test; .*dataset\['train'\]"):
        read_dataset(datasets.DatasetDict(train=dataset, test=dataset))
    with pytest.raises(CorpusError, match=r"columns are not known; .* without streaming"):
        read_dataset(datasets.IterableDataset.from_generator(lambda: iter([{"tokens": [], "tags": []}])))


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        ([{"sentence": ["a"], "ner_tags": [0]}], NAMES, "no column of words among sentence, ner_tags"),
        ([{"tokens": ["a"], "ner_tags": [0]}], None, "no column of tags"),
        ([{"tokens": ["a"], "ner_tags": [0]}], ["NN"], "no column of tags"),
        ([{"tokens": ["a", "b"], "ner_tags": [0]}], NAMES, "2 words and 1 tag;"),
        ([{"tokens": ["a", None], "ner_tags": [0, 1]}], NAMES, "word 1 is null"),
        ([{"tokens": ["a"], "ner_tags": [9]}], NAMES, "tag 9 is none of the 5 that have names"),
        ([{"tokens": ["a"], "ner_tags": [-100]}], NAMES, "tag -100 is none"),
        ([{"tokens": ["a"], "ner_tags": ["B-PER"]}, {"tokens": ["a"], "ner_tags": ["PER"]}], None, None),
        ([{"tokens": ["a"], "ner_tags": ["B-PER"]}, {"tokens": None, "ner_tags": ["O"]}], None, None),
    ],
)
def test_rows_and_datasets_that_cannot_be_read(
    tmp_path: Path, rows: list[dict[str, Any]], names: list[str] | None, message: str | None
) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(table_of(rows, names), path)
    if message is not None:
        with pytest.raises(CorpusError, match=message):
            read_corpus(path, "huggingface")
        return
    reading = read_corpus(path)
    assert (len(reading.documents), len(reading.rejects)) == (1, 1)
    assert reading.rejects[0].where == f"{path}:row 1"


def test_a_null_tag_costs_its_row_alone(tmp_path: Path) -> None:
    rows = [{"tokens": ["a"] * len(tags), "ner_tags": tags} for tags in ([None], ["B-PER", None], ["O"])]
    pq.write_table(table_of(rows, None), tmp_path / "data.parquet")
    reading = read_corpus(tmp_path / "data.parquet")
    assert [document.document_id for document in reading.documents] == ["data:2"]
    assert [reject.what for reject in reading.rejects] == ["None is no tag"] * 2


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "data.arrow").write_bytes(b"\xff\xff\xff\xff\x10\0\0\0")
    with pytest.raises(CorpusError, match="not a file that can be read"):
        read_corpus(tmp_path / "data.arrow")


def test_words_and_tags_beside_their_text_are_read(tmp_path: Path) -> None:
    columns = {"id": ["7"], "text": ["Ada ran"], "tokens": [["Ada", "ran"]], "ner_tags": [["B-PER", "O"]]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    (document,) = read_corpus(tmp_path).documents
    assert (document.document_id, [(m.start, m.end) for m in document.mentions]) == ("7", [(0, 3)])
    pq.write_table(pa.table(columns | {"document_id": ["8"]}), tmp_path / "a.parquet")
    assert detect(tmp_path) == "parquet"


def test_empty_words_are_in_no_mention(tmp_path: Path) -> None:
    rows = [
        {"tokens": ["aphids", "", "on", "rose"], "ner_tags": ["B-X", "I-X", "O", "B-Y"]},
        {"tokens": ["", "rose"], "ner_tags": ["B-Y", "I-Y"]},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    reading = read_corpus(tmp_path)
    assert [d.text for d in reading.documents] == ["aphids on rose", "rose"]
    found = [[d.text[m.start : m.end] for m in d.mentions] for d in reading.documents]
    assert found == [["aphids", "rose"], ["rose"]]
    assert reading.repaired["empty word left out"] == 2


def test_a_null_list_of_words_is_told(tmp_path: Path) -> None:
    rows = [{"tokens": ["a"], "ner_tags": ["B-X"]}, {"tokens": None, "ner_tags": ["O"]}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    assert [reject.what for reject in read_corpus(tmp_path).rejects] == ["`tokens` is null"]
