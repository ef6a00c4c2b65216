"""One HTML page about a run, a sweep or an evaluation: scores, curves, thresholds, similarities, mistakes."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayner.errors import InputError
from rayner.files.fetching import local
from rayner.files.uris import uri_of
from rayner.files.whole import write_bytes
from rayner.files.working import file_at
from rayner.runtime.reports.page import render
from rayner.runtime.reports.page_parts import CATEGORY_NAMES, Part, parts_of
from rayner.runtime.reports.run_files import Absent, is_evaluation, read_recipe, title_of
from rayner.runtime.reports.sweep_report import sweep_report
from rayner.runtime.run_folder import REPORT, has_sweep
from rayner.tasks.kinds.base import Kind
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.registry import tasks


def report(run: Path, out: Path | None = None) -> Path:
    """Write the report of a run, a sweep or an evaluation; parts whose files are absent are left out, with
    the reason.

    Args:
        run: the folder that `rayner train --out`, `rayner tune --out` or `rayner evaluate --out` wrote.
        out: the page to write, also at a URI; None means `report.html` in the run's folder.

    Returns:
        The page.

    Raises:
        InputError: the folder holds nothing of these, or `out` is a file that is no page.
    """
    if (uri := uri_of(run)) is not None:
        if out is None:
            hint = "name the page: --out report.html"
            raise InputError(uri, "a page is not added to a run at a URI", hint)
        run = local(run)
    run = Path(run)
    out = run / REPORT if out is None else Path(out)
    text = _report(run)
    if uri_of(out) is None and out.is_file():
        with out.open("rb") as file:
            begins = file.read(100).removeprefix(codecs.BOM_UTF8).lstrip().lower()
        if begins and not begins.startswith((b"<!doctype html", b"<html", b"<!--")):
            raise InputError(f"--out {out}", "is a file that is no page", "name a page: --out report.html")
    with file_at(out) as page:
        write_bytes(page, text.encode())
    return out


def _report(run: Path) -> str:
    if has_sweep(run):
        return sweep_report(run)
    parts: dict[str, Part] = {}
    absent: dict[str, str] = {}
    kind = _kind(run)
    for name, build in parts_of(run, kind).items():
        try:
            parts[name] = build(run)
        except Absent as reason:
            absent[name] = str(reason)
    if not parts:
        hint = "name the --out of `rayner train`, `rayner tune` or `rayner evaluate`"
        raise InputError(str(run), "no training run, sweep or evaluation", hint)
    return _render(run, parts, absent, kind)


def _kind(run: Path) -> Kind:
    """The kind of items that the run is about; documents where that cannot be told."""
    try:
        task = tasks().get(str(read_recipe(run).get("task")))
    except Absent:
        task = None
    return task.kind if task else Documents()


def _render(run: Path, parts: Mapping[str, Part], absent: Mapping[str, str], kind: Kind) -> str:
    values: dict[str, Any] = {"name": title_of(run), "parts": parts, "absent": absent}
    values |= {"about_scores": kind.about_scores, "categories": CATEGORY_NAMES}
    values["evaluated"] = is_evaluation(run)
    return render("report.html.j2", **values)
