"""Files of CoNLL-2012, as OntoNotes has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.data.readers import detect, read_corpus

ROWS = (
    ("Ada", "(PERSON", "(3"),
    ("Lovelace", "*)", "3)"),
    ("left", "*", "-"),
    ("London", "(GPE)", "-"),
    ("last", "(DATE*", "-"),
    ("week", "*)", "-"),
)


def part(number: int = 0, rows: tuple[tuple[str, str, str], ...] = ROWS) -> str:
    lines = [
        f"wb/a 0 {place} {word} NN (TOP* - - - - {entity} (V*) {chain}"
        for place, (word, entity, chain) in enumerate(rows)
    ]
    return "\n".join((f"#begin document (wb/a); part {number:03}", *lines, "", "#end document", ""))


def test_named_entities_are_mentions_without_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "a.v4_gold_conll"
    path.write_text(part().replace("(PERSON", "(PERSON*"))
    reading = read_corpus(path)
    (document,) = reading.documents
    assert [(document.text[m.start : m.end], m.type, m.chain) for m in document.mentions] == [
        ("Ada Lovelace", "PERSON", None),
        ("Ada Lovelace", "mention", "3"),
        ("London", "GPE", None),
        ("last week", "DATE", None),
    ]
    assert not reading.rejects


@pytest.mark.parametrize(
    ("entity", "said"),
    [
        ("*)", "a bracket closes a named entity, and none is open"),
        ("(GPE*", "opens a named entity (GPE) and"),
    ],
)
def test_brackets_of_named_entities_that_do_not_match_are_rejects(
    tmp_path: Path, entity: str, said: str
) -> None:
    path = tmp_path / "a.conll"
    path.write_text(part(rows=(("Ada", "*", "(1)"), ("ran", entity, "-"))))
    reading = read_corpus(path)
    (reject,) = reading.rejects
    assert said in reject.what
    assert reject.where.endswith(":3")
    assert [m.type for m in reading.documents[0].mentions] == ["mention"]


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".v4_gold_conll", part()),
        (".conllup", "1\tAda\tB-PER\n2\tran\tO\n"),
        (".testa", "Ada B-PER\nran O\n"),
    ],
)
def test_folders_of_the_suffixes_of_conll_are_read(tmp_path: Path, suffix: str, text: str) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("a", "inner/b"):
        (tmp_path / f"{name}{suffix}").write_text(text.replace("wb/a", name))
    assert detect(tmp_path) in ("coreference", "columns")
    assert len(read_corpus(tmp_path).documents) == 2
