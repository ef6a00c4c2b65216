"""Pages from templates."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rayner.counted import counted
from rayner.metrics.shown import shown_score

MOST_TYPES = 25
"""Rows of a table or bars by type."""


def render(template: str, **values: Any) -> str:
    """A page from a template of this folder; all know `now` and the filters `counted`, `percent` and
    `score` (of a metric's name)."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["percent"] = lambda value: f"{100 * value:.1f}"
    environment.filters["score"] = lambda value, name: shown_score(name, value)
    return environment.get_template(template).render(now=datetime.now().astimezone(), **values)
