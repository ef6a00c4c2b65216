"""Ontologies in OBO: id, name, synonyms, definition and is_a parents, read by the library pronto."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rayner.data.knowledge_bases.builder import Builder
from rayner.data.knowledge_bases.fields import Columns
from rayner.data.knowledge_bases.lines import read_text
from rayner.data.readers.base import Sample
from rayner.data.readers.files import split_lines, suffix
from rayner.errors import KnowledgeBaseError

# pronto fails at tags that it does not know, and where another term is not in the file, as in every excerpt
# of an ontology; is_a is read here.
_READ = re.compile(r"(id|name|namespace|def|alt_id):")
_TAG = re.compile(r"[\w-]+:")
# So may the types of synonyms be undeclared, which nothing here reads. OBO 1.0 has the scope in the tag, and
# a synonym without one is related.
_SYNONYM = re.compile(
    r'(?:(?P<of_tag>exact|broad|narrow|related)_)?synonym:\s*(?P<text>"(?:[^"\\]|\\.)*")'
    r"(?:\s+(?P<scope>EXACT|BROAD|NARROW|RELATED)\b)?(?:\s+[^\s\[]+)?\s*(?=\[|$)"
)
_ID = re.compile(r"id:\s*(\S+)")
_PARENT = re.compile(r"is_a:\s*(\S+)")
_REPLACED = re.compile(r"replaced_by:\s*(\S+)")


@dataclass(slots=True)
class _Frames:
    """The text less what pronto must not see, its lines in place; the line and the parents of each term, and
    what replaced it."""

    lines: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    replaced: dict[str, list[str]] = field(default_factory=dict)


def matches(sample: Sample) -> bool:
    """Whether the name says OBO, or the first line is its header."""
    first = next((line for line in sample.lines if line.strip()), "")
    return suffix(sample.path) == ".obo" or first.startswith("format-version:")


def read(path: Path, builder: Builder, _: Columns) -> None:
    """One entity a term, the first of an id; its type is its namespace, or the default one of the file. The
    ids of an obsolete term that one other replaced are further ids of that; other obsolete terms are counted,
    not read.

    Imports are not followed.
    """
    frames = _frames(split_lines(read_text(path, builder)), path, builder)
    obsolete: list[Any] = []
    of_alternate: dict[str, list[str]] = {}
    ontology = _load("\n".join([*frames.lines, ""]), path)
    for term in ontology.terms():
        if term.obsolete:
            obsolete.append(term)
            continue
        for alternate in term.alternate_ids:
            if alternate not in frames.places:
                of_alternate.setdefault(alternate, []).append(term.id)
        builder.add(
            term.id,
            term.name or "",
            frames.places.get(term.id, str(path)),
            aliases=sorted({synonym.description for synonym in term.synonyms}),
            type=term.namespace or ontology.metadata.default_namespace,
            description=term.definition,
            parents=frames.parents.get(term.id, []),
            other_ids=sorted(term.alternate_ids),
        )
    replaced = of_alternate | frames.replaced
    for term in obsolete:
        successor = _successor(term.id, replaced)
        if not all(builder.add_other_id(successor, id_) for id_ in (term.id, *sorted(term.alternate_ids))):
            builder.ignored["obsolete term"] += 1


def _successor(id_: str, replaced: Mapping[str, Sequence[str]]) -> str:
    """The last of the terms that replaced one another; the term itself where none, or several, did."""
    seen = {id_}
    while len(others := replaced.get(id_, ())) == 1 and others[0] not in seen:
        id_ = others[0]
        seen.add(id_)
    return id_


def _frames(lines: list[str], path: Path, builder: Builder) -> _Frames:
    frames, in_term, twice, id_ = _Frames(), False, False, ""
    opening: int | None = None
    for number, line in enumerate(lines, 1):
        if line.startswith("["):
            in_term, twice, id_ = line.startswith("[Term]"), False, ""
            opening = len(frames.lines)
        if in_term and not id_ and (found := _ID.match(line)):
            id_ = found[1]
            first, where = frames.places.get(id_), f"{path}:{number}"
            if first is None:
                frames.places[id_] = where
            else:
                twice = True
                what = f"the id {id_!r} also has a term at {first}"
                builder.reject(where, what, "keep one term an id", "duplicate id", id_)
                frames.lines[opening:] = [""] * (len(frames.lines) - (opening or 0))
        if in_term and not twice and (found := _PARENT.match(line)):
            frames.parents.setdefault(id_, []).append(found[1])
        if in_term and not twice and (found := _REPLACED.match(line)):
            frames.replaced.setdefault(id_, []).append(found[1])
        # pronto knows OBO by its first line, which a comment may be.
        unseen = twice or line.startswith("!")
        frames.lines.append("" if unseen else _for_pronto(line) if opening is not None else line)
    return frames


def _for_pronto(line: str) -> str:
    """A line of a frame; empty if its tag is not read."""
    if (found := _SYNONYM.match(line)) is not None:
        scope = (found["of_tag"] or found["scope"] or "related").upper()
        return f"synonym: {found['text']} {scope} {line[found.end() :]}"
    if line.startswith("is_obsolete:"):
        return line.lower()
    is_read = _READ.match(line) or "synonym" in line.partition(":")[0]
    return line if is_read or not _TAG.match(line) else ""


def _load(text: str, path: Path) -> Any:
    if text.lstrip()[:1] in ("{", "<"):
        # pronto would take it for another notation, and its parser of JSON ends the process on a mistake.
        raise KnowledgeBaseError(str(path), "not OBO but JSON or XML", "convert it to OBO, or drop --format")
    try:
        import pronto
    except ImportError:
        raise KnowledgeBaseError(
            str(path), "OBO needs the package pronto, which is missing", "pip install pronto"
        ) from None
    try:
        with warnings.catch_warnings():
            # What it warns of (unknown relations, a missing header) concerns nothing that is read here.
            warnings.simplefilter("ignore")
            return pronto.Ontology(io.BytesIO(text.encode()), import_depth=0, threads=1)
    except KeyError as error:
        what = f"names {error}, which it does not declare"
        raise KnowledgeBaseError(str(path), what, "declare it") from None
    except (SyntaxError, ValueError, TypeError) as error:
        line = getattr(error, "lineno", None)
        if "could not find a parser" in str(error):
            raise KnowledgeBaseError(str(path), "not OBO", "name its --format, or drop the option") from None
        where = f"{path}:{line}" if line else str(path)
        what = f"not OBO ({getattr(error, 'msg', None) or error})"
        raise KnowledgeBaseError(where, " ".join(what.split()), "correct the line") from None
