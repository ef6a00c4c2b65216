"""What a task is, only the registry says: nothing above it asks which task or recipe it has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from rayner.tasks.registry import OWN

ABOUT_ONE = {
    "platform/rayner/tasks/registry.py",
    # Commands and endpoints about one kind of answer, the quick start, and a checkpoint of one kind.
    "platform/rayner/runtime/linking/loading.py",
    "platform/rayner/runtime/quickstart.py",
}
_CLASS = re.compile(r"(Recipe|Task)$")


def sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    folders = ("platform/rayner/tasks", "platform/rayner/runtime", "platform/rayner/serving", "jobs", "serve")
    files = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    files += sorted((root / "platform/rayner").glob("cli*.py")) + sorted(
        (root / "platform/rayner").glob("cli/*.py")
    )
    for path in files:
        yield str(path.relative_to(root)), ast.parse(path.read_text(encoding="utf-8"))


def names_in(node: ast.AST) -> list[str]:
    found = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
    return [n.id if isinstance(n, ast.Name) else n.attr for n in found]


def told_apart(tree: ast.Module, tasks: set[str]) -> Iterator[int]:
    """Lines that test the class of a recipe or task, or compare with a task's name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and names_in(node.func)[-1:] in (["isinstance"], ["issubclass"]):
            if any(_CLASS.search(name) for name in names_in(node.args[1])):
                yield node.lineno
        elif isinstance(node, ast.MatchClass):
            if any(_CLASS.search(name) for name in names_in(node.cls)):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
            if tasks & {c for c in constants if isinstance(c, str)} and "task" in names_in(node) + [
                c for c in constants if isinstance(c, str)
            ]:
                yield node.lineno


def test_no_module_asks_which_task_it_has(root):
    names = {task.name for task in OWN}
    found = [
        f"{path}:{line}"
        for path, tree in sources(root)
        if path not in ABOUT_ONE
        for line in told_apart(tree, names)
    ]
    assert not found


def test_the_guard_sees_what_it_forbids():
    forbidden = (
        "isinstance(recipe, DocumentRecipe)",
        "isinstance(task, (A, tasks.TaggerTask))",
        "recipe.task == 'tagger'",
        "recipe.get('task') in ('tagger', 'x')",
        "match recipe:\n    case TaggerRecipe():\n        pass",
    )
    for text in forbidden:
        assert list(told_apart(ast.parse(text), {"tagger"})), text
    assert not list(told_apart(ast.parse("isinstance(x, Plan)\nkind == 'tagger'"), {"tagger"}))


def test_a_record_has_the_recipe_of_its_name():
    for task in OWN:
        assert task.recipe.model_fields["task"].annotation.__args__ == (task.name,)
        assert next(iter(task.metrics)), "the first metric is the main one"
    assert len({task.name for task in OWN}) == len(OWN)


def files_to_read(root: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Task -> the files of its method, and those beside them, as docs/papers.md lists them."""
    page = (root / "docs/papers.md").read_text(encoding="utf-8").split("## Where each method is")[1]
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| `")]
    return {
        task.strip(" `"): (re.findall(r"`([\w/]+\.py)`", own), re.findall(r"`([\w/]+\.py)`", beside))
        for task, _, own, beside in rows
    }


def test_each_method_is_read_in_three_to_five_files_that_exist(root):
    listed = files_to_read(root)
    assert set(listed) == {task.name for task in OWN}
    package = root / "platform/rayner"
    for task, (own, beside) in listed.items():
        assert 3 <= len(own) <= 5, task
        assert [name for name in own + beside if not (package / name).is_file()] == []
        assert {f"tasks/{task}.py", f"tasks/{task}/task.py"} & set(own), task


def test_no_file_of_a_system_is_left_out_of_the_list(root):
    listed = {name for own, beside in files_to_read(root).values() for name in own + beside}
    package = root / "platform/rayner"
    folders = [package / "tasks" / task.name for task in OWN]
    files = [path for folder in folders if folder.is_dir() for path in folder.glob("*.py")]
    files += [*(package / "losses").glob("*.py"), *(package / "models").glob("*.py")]
    shared = {"losses/gather.py", "losses/masked.py", "models/encoder.py", "models/sources.py"}
    shared |= {"models/tokenizer.py"}
    found = {str(path.relative_to(package)) for path in files if path.name != "__init__.py"}
    assert found - shared - listed == set()
