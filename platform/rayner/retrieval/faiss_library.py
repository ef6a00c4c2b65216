"""FAISS, of which an environment has one build."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rayner.errors import InputError

BUILDS = ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu11", "faiss-gpu-cu12")
"""The packages that install the same module, each over the other."""


def check_faiss() -> None:
    """Refuse an environment with two builds of FAISS.

    Raises:
        InputError: the packages, and which to take off.
    """
    found = [name for name in BUILDS if _is_installed(name)]
    if len(found) > 1:
        what = f"{' and '.join(found)} are both installed and break each other"
        raise InputError("FAISS", what, f"pip uninstall {' '.join(found)}, then install one of them again")


def load_faiss() -> Any:
    """The module.

    Raises:
        InputError: no build, or two.
    """
    check_faiss()
    try:
        import faiss
    except ImportError as error:
        hint = "pip install 'rayner[cpu]', or search exactly"
        raise InputError("FAISS", f"cannot be imported ({error})", hint) from None
    return faiss


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
