"""Public corpora come out with the counts that their makers, or their files, state."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from rayner.data.readers import Reading, detect, read_corpus

# (folder or file, format, documents, mentions, repaired, rejected)
COUNTS = [
    ("ncbi-disease-pubtator/NCBItrainset_corpus.txt", "pubtator", 592, 5134, 2, 0),
    ("ncbi-disease-pubtator/NCBIdevelopset_corpus.txt", "pubtator", 100, 787, 0, 0),
    ("ncbi-disease-iob/train.tsv", "columns", 5424, 5134, 0, 0),
    ("ncbi-disease-iob/devel.tsv", "columns", 923, 787, 0, 0),
    ("bc5cdr-pubtator/CDR_TrainingSet.PubTator.txt", "pubtator", 500, 5203 + 4182, 0, 0),
    ("bc5cdr-pubtator/CDR_DevelopmentSet.PubTator.txt", "pubtator", 500, 5347 + 4244, 0, 0),
    ("wnut17/wnut17train.conll", "columns", 3394, 1975, 0, 0),
    ("wnut17/emerging.dev.conll", "columns", 1009, 836, 0, 0),
    ("crossner/ai/train.txt", "columns", 100, 532, 0, 0),
    ("crossner/ai/dev.txt", "columns", 350, 1549, 0, 0),
    ("crossner/literature/train.txt", "columns", 100, 541, 0, 0),
    ("crossner/literature/dev.txt", "columns", 400, 2130, 0, 0),
    ("crossner/music/train.txt", "columns", 100, 648, 0, 0),
    ("crossner/music/dev.txt", "columns", 380, 2679, 0, 0),
    ("crossner/politics/train.txt", "columns", 200, 1304, 0, 0),
    ("crossner/politics/dev.txt", "columns", 541, 3482, 0, 0),
    ("crossner/science/train.txt", "columns", 200, 1075, 0, 0),
    ("crossner/science/dev.txt", "columns", 450, 2538, 0, 0),
    ("litbank/entities_brat", "brat", 85, 11878, 0, 0),
    ("litbank/entities_tsv", "litbank", 85, 11878, 0, 0),
    ("litbank/coref_conll", "coreference", 85, 24461, 0, 0),
    ("gum-coref", "coreference", 207, 57546, 0, 0),
    ("literary-ner-dekker", "columns", 12, 1431, 5, 0),
    ("pharmaconer/train", "brat", 500, 3822 - 5, 0, 5),
    ("pharmaconer/valid", "brat", 250, 1926, 0, 0),
    ("livingner-partial", "columns", 7953, 4292, 4, 0),
    ("dekker-full-novels", "text", 12, 0, 3, 0),
]


@cache
def _read(path: Path) -> Reading:
    return read_corpus(path)


def _types(reading: Reading) -> Counter[str]:
    return Counter(m.type for d in reading.documents for m in d.mentions)


@pytest.mark.parametrize(("path", "name", "documents", "mentions", "repaired", "rejected"), COUNTS)
def test_counts(
    corpora: Path, path: str, name: str, documents: int, mentions: int, repaired: int, rejected: int
) -> None:
    assert detect(corpora / path) == name
    reading = _read(corpora / path)
    assert (len(reading.documents), _types(reading).total()) == (documents, mentions)
    assert (reading.repaired.total(), len(reading.rejects)) == (repaired, rejected)


def test_types_of_bc5cdr(corpora: Path) -> None:
    reading = _read(corpora / "bc5cdr-pubtator")
    assert _types(reading) == {"Chemical": 5203 + 5347, "Disease": 4182 + 4244}
    ids = [m.entity_id for d in reading.documents for m in d.mentions]
    assert sum(id_ is None for id_ in ids) == 76 + 59
    assert sum("|" in id_ for id_ in ids if id_) == 98 + 100


def test_composite_ids_of_ncbi_stay(corpora: Path) -> None:
    train = _read(corpora / "ncbi-disease-pubtator" / "NCBItrainset_corpus.txt")
    ids = [m.entity_id or "" for d in train.documents for m in d.mentions]
    assert any("|" in id_ for id_ in ids)
    assert any("+" in id_ for id_ in ids)
    assert train.repaired["identical document given twice: kept once"] == 1
    assert all(id_ == id_.strip() for id_ in ids)


def test_litbank_says_the_same_in_two_formats(corpora: Path) -> None:
    """The same books, but for white space, and the same mentions, but for some that cut words in brat."""
    brat, columns = (_read(corpora / "litbank" / f"entities_{name}") for name in ("brat", "tsv"))
    unlike = 0
    for first, second in zip(brat.documents, columns.documents, strict=True):
        assert first.document_id == second.document_id
        assert "".join(first.text.split()) == "".join(second.text.split())
        kept = [
            sorted(("".join(d.text[m.start : m.end].split()), m.type) for m in d.mentions)
            for d in (first, second)
        ]
        unlike += len(set(kept[0]) ^ set(kept[1]))
    assert unlike < 0.003 * 11878


def test_pharmaconer_entities_and_rejects(corpora: Path) -> None:
    reading = _read(corpora / "pharmaconer" / "train")
    assert all(re.search(r"\.ann:\d+$", reject.where) for reject in reading.rejects)
    assert {reject.document_id for reject in reading.rejects} == {"S0211-69952015000200015-1"}
    ids = [m.entity_id for d in reading.documents for m in d.mentions]
    assert "<null>" not in ids
    assert sum(id_ is not None for id_ in ids) > 0.9 * len(ids)


def test_gum_chains_and_links(corpora: Path) -> None:
    reading = _read(corpora / "gum-coref")
    mentions = [m for d in reading.documents for m in d.mentions]
    assert all(m.chain for m in mentions)
    assert len(_types(reading)) == 10
    assert "James_Webb_Space_Telescope" in {m.entity_id for m in mentions}


def test_litbank_holds_several_formats(corpora: Path) -> None:
    with pytest.raises(Exception, match=r"several formats: coreference .*brat .*litbank"):
        detect(corpora / "litbank")
