"""A knowledge base and mentions of it, small enough to learn within seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ENTITIES: Mapping[str, Sequence[str]] = {
    "1": ("Internet Information Server", "IIS", "MS IIS web server", "Information Server for Internet"),
    "2": ("Apache Web Server", "httpd", "apache2", "the Apache server"),
    "3": ("Postgres", "PostgreSQL", "pgsql database", "Postgres-SQL"),
    "4": ("MySQL", "My SQL database", "MySQL community", "my-sql"),
    "5": ("Visual Basic", "VB", "MS Visual Basic", "VB classic"),
    "6": ("Java", "JDK", "Java platform", "Oracle Java"),
    "7": ("Red Hat Linux", "RHEL", "redhat enterprise", "RH Linux"),
    "8": ("Cobol", "COBOL language", "enterprise cobol", "Cobol II"),
    "9": ("Job Control Language", "JCL", "job control lang", "JCL scripts"),
    "10": ("Hudson", "Hudson build server", "Hudson CI", "hudson"),
}


def small_recipe(folder: Path, **parts: Any) -> dict[str, Any]:
    """A recipe with a small untrained encoder; its files lie in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    base, train, dev = (folder / f"{name}.jsonl" for name in ("base", "train", "dev"))
    write(base, [{"entity_id": i, "name": names[0], "aliases": [names[1]]} for i, names in ENTITIES.items()])
    write(train, [{"mention": names[2], "entity_id": i} for i, names in ENTITIES.items()])
    write(dev, [{"mention": names[3], "entity_id": i} for i, names in ENTITIES.items()])
    values: dict[str, Any] = {
        "task": "standardizer",
        "encoder": "random:32x2",
        "knowledge_base": {"paths": [str(base)]},
        "mentions": {"train": [str(train)], "dev": [str(dev)]},
        "model": {"dropout": 0.0},
        "groups": {"group_size": 3, "groups_per_step": 4},
        "training": {"epochs": 2, "learning_rate": 1e-3, "log_every": 1},
    }
    for key, changes in parts.items():
        values[key] = {**values[key], **changes} if isinstance(values.get(key), dict) else changes
    return values


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
