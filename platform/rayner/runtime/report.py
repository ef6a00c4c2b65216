"""One HTML page about a training run (or a sweep): scores, curves, thresholds, similarities and mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rayner.errors import InputError
from rayner.runtime.reports.inputs import Absent, read_recipe
from rayner.runtime.reports.page import render
from rayner.runtime.reports.parts import CATEGORY_NAMES, COMMON, OF_DOCUMENTS, OF_MENTIONS, Part
from rayner.runtime.reports.sweep import sweep_report
from rayner.runtime.sweeps.plan import SWEEP


def report(run: Path, out: Path | None = None) -> Path:
    """Write the report of a run or a sweep; parts whose files are absent are left out, with the reason.

    Args:
        run: the folder that `rayner train --out` or `rayner tune --out` wrote.
        out: the page to write; None means `report.html` in the run's folder.

    Returns:
        The page.

    Raises:
        InputError: the folder holds nothing of a training run.
    """
    run = Path(run)
    if (run / SWEEP).exists():
        return sweep_report(run, out)
    parts: dict[str, Part] = {}
    absent: dict[str, str] = {}
    links = _links(run)
    for name, build in (COMMON | (OF_MENTIONS if links else OF_DOCUMENTS)).items():
        try:
            parts[name] = build(run)
        except Absent as reason:
            absent[name] = str(reason)
    if not parts:
        raise InputError(str(run), "no training run", "name the folder that `rayner train --out` wrote")
    out = run / "report.html" if out is None else Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(_render(run.resolve().name, parts, absent, links), encoding="utf-8")
    return out


def _links(run: Path) -> bool:
    """Whether it is the run of a standardizer; one that cannot be told is taken for one over documents."""
    try:
        return read_recipe(run).get("task") == "standardizer"
    except Absent:
        return False


def _render(name: str, parts: Mapping[str, Part], absent: Mapping[str, str], links: bool) -> str:
    values = {"name": name, "parts": parts, "absent": absent, "categories": CATEGORY_NAMES, "links": links}
    return render("report.html.j2", **values)
