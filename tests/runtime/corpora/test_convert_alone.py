"""Who else writes in the folder of a conversion, now or before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rayner.data.readers import find_units, read_corpus
from rayner.data.schema import Document, Mention
from rayner.data.writers import write_jsonl
from rayner.errors import InputError
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
