"""Two builds of FAISS in one environment are refused when an index is loaded."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from rayner.config import IndexSettings
from rayner.errors import InputError
from rayner.retrieval import faiss_library
from rayner.retrieval.build import build_index
from rayner.retrieval.index_folder import open_index, write_index
from tests.retrieval.letters import ENTITIES, Letters


def install(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    def version(name: str) -> str:
        if name in packages:
            return "1.15"
        raise PackageNotFoundError(name)

    monkeypatch.setattr(faiss_library, "version", version)


def test_two_builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_index(build_index(ENTITIES, Letters(), IndexSettings(), "cosine"), tmp_path)
    install(monkeypatch, "faiss-cpu", "faiss-gpu")
    with pytest.raises(InputError, match="faiss-cpu and faiss-gpu are both installed"):
        open_index(tmp_path)
    with pytest.raises(InputError, match="pip uninstall faiss-cpu faiss-gpu"):
        build_index(ENTITIES, Letters(), IndexSettings(), "cosine")


def test_one_build_or_none_is_enough_for_exact_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_index(build_index(ENTITIES, Letters(), IndexSettings(), "cosine"), tmp_path)
    for packages in [(), ("faiss-gpu",)]:
        install(monkeypatch, *packages)
        assert len(open_index(tmp_path).entities) == len(ENTITIES)
