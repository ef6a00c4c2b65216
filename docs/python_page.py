"""docs/reference/python.md, from the docstrings of what `import rayner` gives.

python -m docs.generate            # writes it
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import rayner
from rayner.tasks.registry import OWN

INTRODUCTION = """\
# Python: reference

Made by `python -m docs.generate` from the docstrings: do not edit this page.

    import rayner

    pipeline = rayner.load("runs/first/best")
    for document in pipeline.predict(["Ada Lovelace wrote to Charles Babbage."]):
        for mention in document.mentions:
            print(document.text[mention.start : mention.end], mention.type, mention.score)

`import rayner` takes milliseconds; torch is imported when something is loaded. All names below are typed, and
the package says so to type checkers (`py.typed`)."""
NOTEBOOKS = """\
## In a notebook

Training, evaluation and annotation are commands; they resume when a cell is run again. Loading and predicting
are Python:

    !rayner train recipe.yaml --out runs/first
    pipeline = rayner.load("runs/first/best")
    documents = pipeline.predict(texts)

Documents as a table of their mentions, a row each (here of one that is written by hand):

```python
import pandas
import rayner

documents = [rayner.Document("letter", "Ada wrote to Bonn.", (rayner.Mention(0, 3, "PER", score=0.9),))]

found = [(d.document_id, d.text[m.start : m.end], m.type, m.score) for d in documents for m in d.mentions]
frame = pandas.DataFrame(found, columns=["document_id", "text", "type", "score"])
assert frame.text.tolist() == ["Ada"]
```

`rayner.read_corpus([PATH]).documents` are those of a corpus. What `rayner annotate` writes is Parquet:
`pandas.read_parquet("annotated")`."""
OTHER_TOOLS = """\
## Other libraries

A checkpoint's encoder is a folder that transformers loads, with the hidden states that rayner computes. The
checkpoint of a standardizer is a model of sentence-transformers, with the same vectors; what is longer than
126 sub-words is cut there, and read in parts by rayner.

    AutoModel.from_pretrained("RUN/best/encoder")
    AutoTokenizer.from_pretrained("RUN/best/encoder")
    SentenceTransformer("RUN/best")

With the extra `spacy`, a checkpoint or a pipeline file is a component of spaCy:

    nlp = spacy.blank("en")
    nlp.add_pipe("rayner", config={"checkpoint": "RUN/best", "options": {"overlap": "nested"}})
    doc = nlp("Ada Lovelace wrote to Charles Babbage.")

`doc.spans["sc"]` has all mentions, `doc.ents` those of which no two overlap, both with the entity as
`kb_id_`. `doc.spans["sc"].attrs["rayner"]` has scores, fine types and candidates, in their order, and so
has `doc.user_data["rayner"]`, of the last such component of several. Mentions begin and end at spaCy's
tokens. Of a model that reads other words (`windows.words: text`) they are widened to whole tokens, and the
attributes have the offsets that it found. Entities that a component before it has set, such as an
`entity_ruler`, stay in `doc.ents`, and mentions that overlap one are in `doc.spans` alone, as other
components of spaCy keep what they find there. What finds no mentions itself, such as a typer, takes those
of such a component before it with the same `spans_key`, and what else `doc.ents` has. Other keys of
`config` are `device`, `spans_key` (null: no `doc.spans`) and `ents` (false: `doc.ents` is left alone).
`nlp.to_disk` copies the checkpoints, and what the options or the pipeline file name."""
GROUPS = {
    "Loading and predicting": ("load", "Pipeline", "Options", "Answer"),
    "Documents and entities": ("Document", "Mention", "Candidate", "Context", "Type", "Entity"),
    "Corpora": ("read_corpus", "read_dataset", "Reading"),
    "Errors": ("RaynerError", "InputError", "StorageError"),
}
WITHOUT_MEMBERS = {"Options", "Reading"}
"""Whose members are for those who write tasks and readers."""
_PART = re.compile(r"(Args|Returns|Raises|Yields):$")
_QUOTED = re.compile(r"""(: |-> )(['"])(.*?)\2""")
_BOUNDED = re.compile(r"typing\.Annotated\[(\w+), [^]]*\]")


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, NOTEBOOKS]
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        parts += [part for name in names for part in _described(name, getattr(rayner, name))]
        if title == "Loading and predicting":
            parts += ["### Options by task", *_options()]
    return "\n\n".join([*parts, _other_errors(), OTHER_TOOLS]) + "\n"


def _described(name: str, found: Any) -> Iterator[str]:
    is_class = inspect.isclass(found)
    members = vars(found) if is_class and name not in WITHOUT_MEMBERS else {}
    yield f"### {name}"
    if found not in (rayner.RaynerError, rayner.Options):
        yield _signature(name, found, is_class)
    yield _text(found)
    for member, value in members.items():
        is_property = isinstance(value, property)
        if not member.startswith("_") and (is_property or inspect.isfunction(value)):
            yield f"#### {name}.{member}"
            if not is_property:
                yield _signature(member, value, False)
            yield _text(value)


def _signature(name: str, found: Any, is_class: bool) -> str:
    """As a block of Python, a parameter a line where one line is too long."""
    signature = inspect.signature(found)
    returns = "" if is_class else _plain(f" -> {signature.return_annotation}")
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    given = [_plain(str(p)) for p in parameters]
    named = [place for place, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY]
    if named and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        given.insert(named[0], "*")
    lines = [f"{name}({', '.join(given)}){returns}"]
    if len(lines[0]) > 100:
        lines = [f"{name}(", *(f"    {each}," for each in given), f"){returns}"]
    return "\n".join(f"    {line}" for line in lines)


def _plain(written: str) -> str:
    return _BOUNDED.sub(r"\1", _QUOTED.sub(r"\1\3", written)).replace("<factory>", "...")


def _text(found: Any) -> str:
    """A docstring, with `Args:` and its kin as lists."""
    lines: list[str] = []
    part = ""
    for line in inspect.cleandoc(found.__doc__ or "").splitlines():
        if heading := _PART.match(line):
            part = heading[1]
            lines += [line, ""]
        elif line.startswith("        ") or (part == "Returns" and line and lines[-1]):
            lines[-1] += f" {line.strip()}"
        elif line.startswith("    ") and part != "Returns":
            name, _, rest = line.strip().partition(": ")
            lines.append(f"- `{name}`: {rest}")
        else:
            lines.append(line.strip())
    return "\n".join(lines)


def _options() -> Sequence[str]:
    told = ["Keywords of `load`, and keys of a stage in a pipeline file."]
    for task in OWN:
        if task.options.model_fields:
            told += [f"**{task.name}**", _text(task.options)]
    return told


def _other_errors() -> str:
    shown = {name for names in GROUPS.values() for name in names}
    rest = [name for name in rayner.__all__ if name.endswith("Error") and name not in shown]
    kinds = [f"- `{name}`: {_text(getattr(rayner, name))}" for name in rest]
    return "\n".join(["Kinds of `InputError`:", "", *kinds])
