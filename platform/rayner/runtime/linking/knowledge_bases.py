"""What the `rayner kb` commands do: convert and check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rayner.data.knowledge_base_check import check_knowledge_base
from rayner.data.knowledge_bases import Columns, check_suffix, read_knowledge_base, write_knowledge_base
from rayner.errors import KnowledgeBaseError
from rayner.files.whole import told_of, write_json_lines
from rayner.files.working import check_no_folder, file_at
from rayner.runtime.run_folder import comparable

REJECTS = ".rejects.jsonl"
"""What the file of rejects is called, after the whole name of the output: others may lie beside it."""
SHAPE = ("kind", "severity", "where", "what", "hint")


def convert(
    inputs: Sequence[Path],
    out: Path,
    format: str = "auto",
    columns: Columns | None = None,
    max_aliases: int | None = None,
) -> dict[str, Any]:
    """Any format to Parquet or JSON lines, by the suffix of `out`; `OUT.rejects.jsonl` beside it.

    Several inputs together are one knowledge base.

    Returns:
        `format, entities, names` (with aliases), `types` (name -> entities), `repaired, rejected, ignored`
        and `reasons` (of repaired and ignored: reason -> count).

    Raises:
        KnowledgeBaseError: as `read_knowledge_base`; an output that has no known suffix or is an input.
    """
    check_suffix(out)
    rejects = out.with_name(out.name + REJECTS)
    written = {comparable(out), comparable(rejects)}
    for path in inputs:
        if comparable(path) in written:
            raise KnowledgeBaseError(f"--out {out}", f"would overwrite the input {path}", "name another file")
    check_no_folder(out)
    base = read_knowledge_base(inputs, format, columns, max_aliases)
    if base.parents:
        base.ignored["parent"] += sum(map(len, base.parents.values()))
    with told_of(f"--out {out}", "name a file that can be"):
        with file_at(out) as path:
            write_knowledge_base(base.entities, path)
        with file_at(rejects) as path:
            write_json_lines(path, base.reject_rows())
    return base.counts()


def check(paths: Sequence[Path], format: str = "auto", columns: Columns | None = None) -> dict[str, Any]:
    """Read a knowledge base and say what is wrong with it.

    Returns:
        What `convert` returns, with `errors, warnings`, `kinds` (kind -> findings) and `findings`, each with
        `kind, severity, where, what, hint`.

    Raises:
        KnowledgeBaseError: as `read_knowledge_base`.
    """
    base = read_knowledge_base(paths, format, columns)
    found = check_knowledge_base(base)
    errors = sum(finding.severity == "error" for finding in found)
    return {
        **base.counts(),
        "errors": errors,
        "warnings": len(found) - errors,
        "kinds": dict(Counter(finding.kind for finding in found).most_common()),
        "findings": [{name: getattr(finding, name) for name in SHAPE} for finding in found],
    }
