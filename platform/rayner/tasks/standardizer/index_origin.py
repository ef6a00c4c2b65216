"""What made an index's vectors, and whether a checkpoint is that."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe, KnowledgeBaseSettings
from rayner.data.warned_once import warn_once
from rayner.errors import IndexFolderError
from rayner.files.fetching import local
from rayner.files.run_checkpoints import MANIFEST, checkpoint_of
from rayner.files.uris import uri_of
from rayner.retrieval.entity_table import EntityTable
from rayner.tasks.standardizer.fitting import FILE as FITTED
from rayner.tasks.standardizer.reranker import RERANKER

log = logging.getLogger(__name__)


def origin_of(checkpoint: Path, recipe: BaseRecipe) -> dict[str, str]:
    """What an index keeps of the checkpoint that encodes its names.

    `version` follows from the files that the vectors depend on: what is fitted afterwards is none of them.
    """
    checkpoint = checkpoint_of(checkpoint)
    files: Mapping[str, str] = json.loads((local(checkpoint) / MANIFEST).read_text(encoding="utf-8"))["files"]
    fitted = (FITTED, f"{RERANKER}/")
    kept = sorted((name, digest) for name, digest in files.items() if not name.startswith(fitted))
    version = hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:12]
    return {
        "version": version,
        "encoder": recipe.encoder,
        "checkpoint": uri_of(checkpoint) or str(checkpoint.resolve()),
    }


def tell_of_another_base(found: EntityTable, base: str | None, settings: KnowledgeBaseSettings) -> None:
    """Warn where a checkpoint answers from the files of its recipe, and they hold other entities by now.

    The paths count from the current folder, and files change.

    Args:
        base: the digest of the entities that it has learned; None while it does, and of earlier checkpoints.
    """
    if base not in (None, found.digest):
        paths = f"{', '.join(settings.paths)} (counted from {Path.cwd()})"
        what = "not the entities that this checkpoint has learned, and it answers from these"
        warn_once(log, f"knowledge_base.paths: {paths}: {what}; name an `index` to have it answer from that")


def check_origin(of_index: Mapping[str, Any], origin: Mapping[str, str], folder: Path) -> None:
    """Refuse an index whose vectors another checkpoint made: they would be compared in silence.

    Raises:
        IndexFolderError: the two checkpoints.
    """
    if of_index.get("version") != origin["version"]:
        made = f"{of_index.get('checkpoint', 'an unknown checkpoint')} ({of_index.get('version', 'unknown')})"
        what = f"was built by another encoder: {made}, not {origin['checkpoint']} ({origin['version']})"
        raise IndexFolderError(
            str(folder), what, "use that checkpoint, or build the index again with this one"
        )
