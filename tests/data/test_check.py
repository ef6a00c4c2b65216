"""What `corpus check` finds."""

from __future__ import annotations

import difflib

import pytest

from rayner.data.corpus_check import MOST_COMPARED, type_findings
from rayner.data.schema import Document, Mention
from tests.corpus_in_memory import check_in_memory as check


def _kinds(*documents: Document, **options) -> dict[str, int]:
    return dict(check({"train": documents}, **options).counts)


def _document(
    *mentions: tuple[int, int, str], text: str = "Ann Lee ran", id_: str = "a", **fields
) -> Document:
    return Document(id_, text, tuple(Mention(*m) for m in mentions), **fields)


def test_a_good_corpus_has_no_findings() -> None:
    good = _document((0, 7, "PER"))
    other = _document((0, 3, "PER"), id_="b", text="Bob")
    assert not check({"train": [good], "dev": [other]}, types={"PER": "names of people"}).findings


def test_offsets_and_white_space() -> None:
    assert _kinds(_document((4, 99, "PER"), (3, 3, "PER"), (-1, 2, "PER"))) == {"offsets": 3}
    assert _kinds(_document((0, 4, "PER"))) == {"white space": 1}


def test_words_that_overlap_or_are_not_in_order() -> None:
    assert not _kinds(_document((0, 3, "PER"), words=((0, 3), (4, 7))))
    for words in (((4, 7), (0, 3)), ((0, 7), (4, 11)), ((0, 3), (0, 3))):
        assert _kinds(_document((0, 3, "PER"), words=words)) == {"words": 1}


def test_duplicate_nested_and_crossing_mentions() -> None:
    counts = _kinds(_document((0, 7, "PER"), (0, 7, "PER"), (0, 3, "PER"), (4, 11, "X")))
    assert counts == {"duplicate mention": 1, "crossing mentions": 2, "nested mentions": 1}


def test_nested_mentions_matter_where_a_task_loses_them() -> None:
    nested = _document((0, 7, "PER"), (0, 3, "PER"))

    def finding(**options):
        (found,) = check({"train": [nested]}, **options).findings
        return found

    assert finding(overlap="nested").severity == "note"
    for overlap in ("unknown", "outer", "flat"):
        assert finding(overlap=overlap).severity == "warning"
    assert "--recipe" in finding().hint
    assert "decoding.overlap=nested" in finding(overlap="flat").hint


def test_documents_that_are_empty_or_repeat() -> None:
    first = _document((0, 3, "PER"))
    assert _kinds(first, _document(text=" \n", id_="b")) == {"empty document": 1}
    assert _kinds(first, first) == {"duplicate document": 1}
    assert _kinds(first, _document(id_="b", text="Ann  Lee\nran")) == {"duplicate document": 1}
    assert _kinds() == {"empty split": 1}
    assert _kinds(_document()) == {"empty split": 1}


def test_types_and_their_descriptions() -> None:
    document = _document((0, 3, "PER"), (4, 7, "LOC"), annotated_types=("PER",))
    findings = check({"train": [document]}, types={"PER": "people", "ORG": "firms", "LOC": None})
    assert dict(findings.counts) == {
        "type without description": 1,
        "type without mentions": 1,
        "annotated types": 1,
    }
    assert [f.where for f in findings.findings if f.kind == "type without description"] == ["LOC"]
    assert {f.kind for f in findings.errors} == {"type without description", "annotated types"}


def test_unknown_mentions_need_no_type() -> None:
    document = _document((0, 3, "PER"), (4, 7, "?"), annotated_types=("PER",))
    widths = {"widths": lambda document: [3, 9], "max_span_width": 6}
    assert not check({"train": [document]}, types={"PER": "people"}, **widths).findings


def test_fine_types_alone_may_be_what_a_document_was_annotated_for() -> None:
    """Of mentions that have no type of their own; of others a recognizer would learn nothing."""
    for type_, found in (("mention", {}), ("PER", {"annotated types": 1})):
        mention = Mention(0, 3, type_, types=(("/poet", 1.0),))
        assert _kinds(Document("a", "Ann Lee ran", (mention,), annotated_types=("/poet",))) == found


def test_mentions_that_no_window_holds() -> None:
    findings = check(
        {"train": [_document((0, 3, "PER"), (0, 7, "PER"))]},
        widths=lambda document: [m.end - m.start for m in document.mentions],
        max_span_width=6,
    )
    (finding,) = [f for f in findings.findings if f.kind == "too wide"]
    assert "PER [0, 7) has 7 sub-words" in finding.what
    assert "to 7" in finding.hint


def test_leakage_by_id_text_and_group_is_reported_once_a_document() -> None:
    train = [
        _document((0, 3, "PER"), id_="a", group="g"),
        _document(id_="b", text="Bob"),
        _document(id_="c", text="Cid", group="h"),
    ]
    dev = [
        _document((0, 3, "PER"), id_="a", text="Eve", group="g"),
        _document(id_="d", text="Bob"),
        _document(id_="e", text="new", group="h"),
        _document(id_="f", text="newer"),
    ]
    places = {"dev": [f"dev.txt:{line}" for line in range(1, 5)]}
    findings = check({"train": train, "dev": dev}, places=places)
    assert dict(findings.counts) == {"leakage": 3}
    assert [(f.split, f.document_id, f.where) for f in findings.findings] == [
        ("dev", "a", "dev.txt:1 (dev: a)"),
        ("dev", "d", "dev.txt:2 (dev: d)"),
        ("dev", "e", "dev.txt:3 (dev: e)"),
    ]
    assert "train: b" in findings.findings[1].what


@pytest.mark.parametrize(
    ("id_", "place", "counts"),
    [
        ("PMID1", "dev.jsonl:1", {"id in two splits": 1}),
        # Given by readers, by where a document is in its file.
        ("data:1", "dev/data.jsonl:1", {}),
        ("data:0", "dev/data.arrow:row 0", {}),
        ("data:7", "dev/data.jsonl:1", {"id in two splits": 1}),
        ("a:1", "dev/data.jsonl:1", {"id in two splits": 1}),
    ],
)
def test_an_id_with_another_text_in_another_split_may_be_of_another_document(
    id_: str, place: str, counts: dict[str, int]
) -> None:
    train, other = _document((0, 3, "PER"), id_=id_), _document((0, 3, "PER"), id_=id_, text="Eve")
    findings = check({"train": [train], "dev": [other]}, places={"dev": [place]})
    assert dict(findings.counts) == counts
    assert {finding.severity for finding in findings.findings} <= {"warning"}
    same = check({"train": [train], "dev": [train]}, places={"dev": [place]})
    assert dict(same.counts) == {"leakage": 1}


def test_a_type_that_the_recipe_spells_otherwise_is_named() -> None:
    findings = check({"train": [_document((0, 3, "Person"))]}, types={"Persn": "people"}).findings
    [finding] = [f for f in findings if f.kind == "type not in the recipe"]
    assert "'Person' is not among the recipe's" in finding.what
    assert (finding.severity, finding.hint) == ("error", "is it the recipe's 'Persn'?")


def test_a_recipe_may_learn_some_of_the_types() -> None:
    document = _document((0, 3, "PER"), (4, 7, "LOC"))
    [finding] = check({"train": [document]}, types={"PER": "people"}).findings
    assert (finding.kind, finding.severity, finding.where) == ("type not in the recipe", "warning", "LOC")


def test_a_recipe_that_learns_none_of_the_types_is_wrong() -> None:
    document = _document((0, 3, "per"), (4, 7, "ship"))
    found = check({"train": [document]}, types={"PER": "people", "ORG": "firms"}).findings
    hints = {one.where: (one.severity, one.hint) for one in found if one.kind == "type not in the recipe"}
    assert hints["per"] == ("error", "is it the recipe's 'PER'?")
    assert hints["ship"][0] == "error"


def test_of_very_many_types_not_all_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def near(name: str, names: list[str], n: int) -> list[str]:
        compared.extend(names)
        return [names[0]]

    monkeypatch.setattr(difflib, "get_close_matches", near)
    used = {f"/place/{number}": "here" for number in range(2000)}
    found = [*type_findings({f"/person/{number}": "a person" for number in range(1000)}, used)]
    hints = [one.hint for one in found if one.kind == "type not in the recipe"]
    assert (len(hints), hints[0], hints[-1]) == (
        2000,
        "is it the recipe's '/person/0'?",
        "training leaves its mentions out; to learn it, describe it in the recipe's types",
    )
    assert len(compared) == MOST_COMPARED
