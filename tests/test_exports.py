"""What `import rayner` gives, and that it is quick: nothing heavy is imported before it is used."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rayner
from docs import python_page
from rayner.config.documents import TypeSettings
from rayner.data.schema import Document

PROBE = """
import json, sys
before = set(sys.modules)
import rayner
names = dir(rayner)
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def test_importing_the_package_imports_nothing_else(root: Path) -> None:
    environment = {"PYTHONPATH": str(root / "platform"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    others = set(json.loads(done.stdout)) - {"rayner"} - set(sys.stdlib_module_names)
    assert others == set()


@pytest.mark.parametrize("name", rayner.__all__)
def test_every_name_is_there_and_described(name: str) -> None:
    found = getattr(rayner, name)
    assert name == "__version__" or (found.__doc__ and found.__module__.startswith("rayner"))
    assert name in dir(rayner)


def test_names_are_the_things_that_the_package_itself_uses() -> None:
    assert rayner.Document is Document
    assert rayner.Type is TypeSettings
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rayner.nothing  # pyright: ignore


def test_type_checkers_see_the_same_names(root: Path) -> None:
    tree = ast.parse((root / "platform/rayner/__init__.py").read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed: dict[str, tuple[str | None, str]] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        typed |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    assert set(typed) | {"load", "__version__"} == set(rayner.__all__)
    for name, (module, own) in typed.items():
        assert getattr(rayner, name) is getattr(sys.modules[str(module)], own)
    assert (root / "platform/rayner/py.typed").is_file()


def test_the_reference_page_has_every_name() -> None:
    for name in set(rayner.__all__) - {"__version__"}:
        assert re.search(rf"^### {name}$|^- `{name}`: ", python_page.page(), re.MULTILINE)
