"""The files of one version of an index: Arrow and NumPy, memory-mapped, and a manifest with their hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from rayner.config import IndexSettings
from rayner.data.schema import ENTITY_SCHEMA
from rayner.errors import IndexFolderError, storage_error
from rayner.files.hashes import sha256_of
from rayner.retrieval.approximate import read_approximate, write_approximate
from rayner.retrieval.dense import DenseSide
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.entity_table import EntityTable
from rayner.retrieval.lexical import restore_lexical
from rayner.retrieval.names import Names

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FORMAT = 1
MANIFEST, ENTITIES = "index.json", "entities.arrow"
OTHER_IDS = "other_ids.json"
"""Other id -> entity id; only in an index by an earlier rayner, whose entities did not hold them."""
ROUNDED = "vectors-bfloat16.npy"
"""Only of an index with inverted lists; not in one by an earlier rayner."""
HINT = "copy the whole index folder again, or build it anew"

_SPARSE = ("data", "indices", "indptr")
_POSTINGS, _BY_NAME = "postings", "by-name"


def write_files(index: EntityIndex, folder: Path, origin: Mapping[str, Any]) -> None:
    """Write an index into an empty folder, the manifest last."""
    _write_table(index.entities.table, folder / ENTITIES)
    _write_table(index.names.table, folder / "names.arrow")
    np.save(folder / "vectors.npy", index.dense.vectors)
    vectorizer = index.lexical.vectorizer
    ngrams = pa.array(vectorizer.get_feature_names_out().tolist(), pa.string())
    _write_table(pa.table({"ngram": ngrams, "idf": pa.array(vectorizer.idf_)}), folder / "ngrams.arrow")
    _write_sparse(index.lexical.postings, folder, _POSTINGS)
    if not index.scores_all:
        _write_sparse(index.lexical.by_name, folder, _BY_NAME)
    (folder / "abbreviations.json").write_text(_json(index.abbreviations), encoding="utf-8")
    if index.dense.bits is not None:
        np.save(folder / ROUNDED, index.dense.bits)
    approximate = index.dense.approximate
    if approximate is not None:
        write_approximate(approximate, str(folder / "approximate.faiss"))
    manifest = {
        "format": FORMAT,
        "entities": len(index.entities),
        "names": len(index.names),
        "dimensions": index.dense.vectors.shape[1],
        "distance": index.dense.distance,
        "settings": index.settings.model_dump(mode="json"),
        "search": search_of(index),
        "origin": dict(origin),
        "files": {path.name: sha256_of(path) for path in sorted(folder.iterdir())},
    }
    (folder / MANIFEST).write_text(_json({**manifest, "checksum": _checksum(manifest)}), encoding="utf-8")


def read_files(folder: Path, version: int) -> EntityIndex:
    """The index of a folder; the large files stay on disk until they are read.

    Raises:
        FileNotFoundError: there is no such folder any more.
        IndexFolderError: a file that is missing, cut short or changed, or another format.
    """
    manifest = read_manifest(folder)
    _check_files(folder, manifest["files"])
    try:
        settings = IndexSettings.model_validate(manifest["settings"])
    except ValidationError:
        what = "its settings are those of another version of rayner"
        raise IndexFolderError(str(folder / MANIFEST), what, "build it anew") from None
    ngrams = _read_table(folder / "ngrams.arrow")
    shape = (ngrams.num_rows, manifest["names"])
    has_names = f"{_BY_NAME}-data.npy" in manifest["files"]
    lexical = restore_lexical(
        ngrams["ngram"].to_pylist(),
        ngrams["idf"].to_numpy(),
        _read_sparse(folder, _POSTINGS, shape),
        _read_sparse(folder, _BY_NAME, shape[::-1]) if has_names else None,
        settings.ngrams,
    )
    search, approximate = manifest["search"], None
    if search["kind"] != "exact":
        path = str(folder / "approximate.faiss")
        approximate = read_approximate(path, search["kind"], search["effort"], search["recall"])
    bits = _read_array(folder / ROUNDED) if ROUNDED in manifest["files"] else None
    return EntityIndex(
        EntityTable(_read_entities(folder, OTHER_IDS in manifest["files"])),
        Names(_read_table(folder / "names.arrow")),
        DenseSide(_read_array(folder / "vectors.npy"), manifest["distance"], approximate, bits),
        lexical,
        _read_json(folder / "abbreviations.json"),
        settings,
        manifest["origin"],
        version,
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `index.json` says.

    Raises:
        FileNotFoundError: there is no such folder any more.
        IndexFolderError: it is damaged, or is of another format.
        StorageError: it cannot be read now.
    """
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = manifest["format"]
    except FileNotFoundError:
        if not folder.exists():
            raise
        raise IndexFolderError(str(path), "is missing", HINT) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        raise IndexFolderError(str(path), "is cut short or not the file that was written", HINT) from None
    if known != FORMAT:
        raise IndexFolderError(str(path), f"format {known!r} is unknown", "use the rayner that wrote it")
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise IndexFolderError(str(path), "is not the file that was written", HINT)
    return manifest


def search_of(index: EntityIndex) -> dict[str, Any]:
    """How the dense side is searched, with the recall that was measured; exact search has all."""
    approximate = index.dense.approximate
    if approximate is None:
        return {"kind": "exact", "recall": 1.0}
    return {"kind": approximate.kind, "effort": approximate.effort, "recall": approximate.recall}


def _check_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, digest in files.items():
        path = folder / Path(name).name
        try:
            intact = sha256_of(path) == digest
        except FileNotFoundError:
            if not folder.exists():
                raise
            raise IndexFolderError(str(path), "is missing", HINT) from None
        if not intact:
            raise IndexFolderError(str(path), "is cut short or not the file that was written", HINT)


def _write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read_table(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _read_entities(folder: Path, ids_apart: bool) -> pa.Table:
    table = _read_table(folder / ENTITIES)
    field = ENTITY_SCHEMA.field("other_ids")
    if field.name in table.column_names:
        return table
    ids: dict[str, list[str]] = {}
    for other, id_ in (_read_json(folder / OTHER_IDS) if ids_apart else {}).items():
        ids.setdefault(id_, []).append(other)
    others = [ids.get(id_, []) for id_ in table["entity_id"].to_pylist()]
    return table.append_column(field, pa.array(others, field.type))


def _read_array(path: Path) -> np.ndarray:
    # Copy on write: nothing writes, but PyTorch warns of arrays that it could not write to.
    return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))


def _read_json(path: Path) -> dict[str, str]:
    return json.loads(path.read_text(encoding="utf-8"))


def _write_sparse(matrix: csr_matrix, folder: Path, name: str) -> None:
    for part in _SPARSE:
        np.save(folder / f"{name}-{part}.npy", getattr(matrix, part))


def _read_sparse(folder: Path, name: str, shape: tuple[int, int]) -> csr_matrix:
    from scipy.sparse import csr_matrix

    parts = [_read_array(folder / f"{name}-{part}.npy") for part in _SPARSE]
    return csr_matrix(tuple(parts), shape=shape, copy=False)


def _json(value: Any) -> str:
    return json.dumps(dict(value), indent=1, ensure_ascii=False)


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(manifest), sort_keys=True).encode()).hexdigest()
