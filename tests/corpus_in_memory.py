"""What `corpus check` finds, by its definition: every document in memory, one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from rayner.data.corpus_check import (
    DocumentPlace,
    Finding,
    Overlap,
    document_findings,
    empty_split,
    repetition_findings,
    type_findings,
    width_findings,
)
from rayner.data.schema import Document


class Findings:
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    @property
    def counts(self) -> Counter[str]:
        return Counter(finding.kind for finding in self.findings)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]


def check_in_memory(
    splits: Mapping[str, Iterable[Document]],
    *,
    types: Mapping[str, str | None] | None = None,
    widths: Callable[[Document], Sequence[int]] | None = None,
    max_span_width: int = 0,
    places: Mapping[str, Sequence[str]] | None = None,
    overlap: Overlap = "unknown",
) -> Findings:
    """All findings about the documents of each split."""
    found = Findings()
    ids: dict[str, DocumentPlace] = {}
    texts: dict[str, DocumentPlace] = {}
    groups: dict[str, DocumentPlace] = {}
    used: dict[str, str] = {}
    for split, given in splits.items():
        documents = list(given)
        for number, document in enumerate(documents):
            where = f"{split}: {document.document_id}"
            if places and split in places:
                where = f"{places[split][number]} ({where})"
            place = DocumentPlace(split, document.document_id, where)
            found.findings += document_findings(document, place, overlap)
            if widths is not None:
                found.findings += width_findings(document, place, widths(document), max_span_width)
            same_id = ids.setdefault(document.document_id, place)
            same_text = texts.setdefault(" ".join(document.text.split()), place)
            group = document.group and groups.setdefault(document.group, place)
            found.findings += repetition_findings(
                place,
                None if same_id is place else same_id,
                None if same_text is place or not document.text.strip() else same_text,
                (document.group, group) if document.group and group else None,
            )
            for mention in document.mentions:
                used.setdefault(mention.type, where)
        if not any(document.mentions for document in documents):
            found.findings.append(empty_split(split, len(documents)))
    found.findings += type_findings(types, used) if types is not None else []
    return found
