"""Who else writes in the folder of a conversion, now or before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rayner.data.readers import find_units, read_corpus
from rayner.data.schema import Document, Mention
from rayner.data.writers import write_jsonl
from rayner.errors import CorpusError, InputError
from rayner.runtime.corpora.context_pairs import Generated, contexts
from rayner.runtime.corpora.convert import convert, process
from rayner.runtime.corpora.kept_parts import Notes


def test_two_conversions_do_not_write_to_one_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_jsonl([Document(name, "Ada ran.", (Mention(0, 3, "PER"),))], tmp_path / f"{name}.jsonl")
    out, asked = tmp_path / "out", list[str]()

    def another(document: Document) -> tuple[Document, Notes]:
        for fresh in (False, True):
            with pytest.raises(InputError, match=rf"{re.escape(str(out))}: another process .* this corpus"):
                convert([tmp_path / "b.jsonl"], out, workers=0, fresh=fresh)
            asked.append(document.document_id)
        return document, {}

    process(find_units([tmp_path / "a.jsonl"]), another, "change", out, 0, fresh=False)
    assert asked == ["a", "a"]
    assert [document.document_id for document in read_corpus(out).documents] == ["a"]


def test_a_conversion_and_rows_of_contexts_do_not_replace_each_other(tmp_path: Path) -> None:
    given = tmp_path / "in.jsonl"
    texts = [f"Ada{i} wrote to Charles. He ran." for i in range(30)]
    write_jsonl([Document(f"d{i}", text, (Mention(0, 4, "PER"),)) for i, text in enumerate(texts)], given)
    for first, second in ((_convert, _rows), (_rows, _convert)):
        out = tmp_path / first.__name__
        first(given, out)
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        with pytest.raises(CorpusError, match="holds files that are not from here"):
            second(given, out)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        first(given, out)


def test_a_folder_in_which_nothing_came_out_is_taken_again(tmp_path: Path) -> None:
    given, out = tmp_path / "in.jsonl", tmp_path / "out"
    given.write_text('{"text": 3}\n')
    with pytest.raises(CorpusError, match=r"in\.jsonl:1"):
        _convert(given, out)
    assert (out / "rejects.jsonl").read_text("utf-8")
    write_jsonl([Document("a", "Ada ran.")], given)
    _convert(given, out)
    assert [document.document_id for document in read_corpus(out).documents] == ["a"]


def _convert(given: Path, out: Path) -> None:
    convert([given], out, workers=0)


def _rows(given: Path, out: Path) -> None:
    contexts([given], out, Generated())
