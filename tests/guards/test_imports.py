"""What importing the package does: nothing but define names, and no Ray below the runtime."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib

import pytest

# Runs in a process of its own, because an import happens once; a training worker is forked from it.
PROBE = """
import importlib, json, os, pkgutil, sys
import torch, pyarrow, ray  # their own side effects are not ours
unused = ("sklearn", "scipy", "pandas", "transformers", "torch._dynamo", "tensorboard", "faiss")
reading, writing = os.pipe()
if not (forked := os.fork()):
    import rayner.runtime.training.ray_workers
    os.write(writing, json.dumps([name for name in unused if name in sys.modules]).encode())
    os._exit(0)
os.close(writing)
worker = os.read(reading, 10_000).decode()
os.waitpid(forked, 0)
import transformers
seen = []
LOUD = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.mkdir", "os.remove", "os.rename")
def hook(event, args):
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        seen.append((event, str(args[0])))
    elif event in LOUD:
        seen.append((event, str(args)[:200]))
import rayner
names = [m.name for m in pkgutil.walk_packages(rayner.__path__, "rayner.")]
upper = ("rayner.runtime", "rayner.serving", "rayner.cli")
lower = [n for n in names if not n.startswith(upper)]
higher = [n for n in names if n.startswith(upper)]
sys.dont_write_bytecode = True
# So that a lower module that imports it is seen.
hidden = {n: sys.modules.pop(n) for n in list(sys.modules) if n == "ray" or n.startswith("ray.")}
sys.addaudithook(hook)
raised = []
for name in lower:
    importlib.import_module(name)
    if "ray" in sys.modules:
        raised.append(name)
        break
effects = list(seen)
sys.modules.update(hidden)
for name in higher:
    importlib.import_module(name)
effects += [s for s in seen[len(effects):]]
print(json.dumps({"modules": len(names), "ray": raised, "effects": effects, "worker": worker,
                  "cuda": torch.cuda.is_initialized(), "initialized": ray.is_initialized()}))
"""


@pytest.fixture(scope="module")
def probe(root):
    command = [sys.executable, "-c", PROBE]
    environment = {"PYTHONPATH": str(root / "platform"), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_all_modules_import(probe):
    assert probe["modules"] > 5


def test_nothing_below_the_runtime_imports_ray(probe):
    assert probe["ray"] == []


def test_importing_writes_nothing_and_calls_nobody(probe):
    assert probe["effects"] == []
    assert not probe["cuda"]
    assert not probe["initialized"]


def test_what_starts_a_training_worker_imports_no_more_than_it_needs(probe):
    """Each costs a second or so, in each of a cluster's processes."""
    assert probe["worker"] == "[]"


def test_every_imported_package_is_declared(root):
    """Else an import works only as long as another package happens to bring it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    shipped = ("cpu", "track", "offline", "coreference", "ontology", "spacy")
    lines = [*project["dependencies"], *(line for name in shipped for line in extras[name])]
    declared = {_normal(re.split(r"[\[><=~! ;]", line)[0]) for line in lines}
    owners = importlib.metadata.packages_distributions()
    undeclared = {}
    for path in (root / "platform").rglob("*.py"):
        for name in _imported(path.read_text(encoding="utf-8")):
            if name == "rayner" or name in sys.stdlib_module_names:
                continue
            if not declared & {_normal(owner) for owner in owners.get(name, [name])}:
                undeclared[name] = str(path.relative_to(root))
    assert undeclared == {}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported(source: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
