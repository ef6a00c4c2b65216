"""What a task is, only the registry says: nothing above it asks which task or recipe it has."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rayner.tasks.registry import OWN

ABOUT_ONE = {
    "platform/rayner/tasks/registry.py",
    # Commands and endpoints about one kind of answer, the quick start, and a checkpoint of one kind.
    "platform/rayner/runtime/linking/loading.py",
    "platform/rayner/runtime/quickstart/quickstart.py",
}
"""Who may ask, as the architecture allows: all else takes what it needs from the record of the task."""
BELOW = {"platform/rayner/config"}
"""Recipes are defined there."""
_CLASS = re.compile(r"(Recipe|Task)$")
_ASKED = {"task", "name", "__name__"}


def sources(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """The modules of every package above `config`."""
    for folder in ("platform/rayner", "jobs", "serve", "tune_spaces"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            if not any(name.startswith(f"{below}/") for below in BELOW):
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def names_in(node: ast.AST) -> list[str]:
    found = (n for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute)))
    return [n.id if isinstance(n, ast.Name) else n.attr for n in found]


def constants_in(node: ast.AST) -> set[str]:
    found = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return {value for value in found if isinstance(value, str)}


def compared(node: ast.Compare) -> list[ast.expr]:
    sides = [node.left, *node.comparators]
    return [x for side in sides for x in (side.elts if isinstance(side, (ast.Tuple, ast.Set)) else [side])]


def last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_class_of(node: ast.expr) -> bool:
    return last_name(node.func if isinstance(node, ast.Call) else node) in ("type", "__class__")


def assigned(tree: ast.Module, asked: Callable[[ast.expr], bool]) -> set[str]:
    """Names that have such a value anywhere in a module."""
    found = [n for n in ast.walk(tree) if isinstance(n, (ast.Assign, ast.AnnAssign, ast.NamedExpr))]
    values = [(n.targets if isinstance(n, ast.Assign) else [n.target], n.value) for n in found]
    return {last_name(target) for targets, value in values if value and asked(value) for target in targets}


def asks_table(tree: ast.Module, tasks: set[str]) -> Iterator[int]:
    """Lines that look a task up in a dict which has the name of one, if only of one."""

    def has_task(node: ast.expr) -> bool:
        return isinstance(node, ast.Dict) and any(tasks & constants_in(key) for key in node.keys if key)

    tables = assigned(tree, has_task)
    for node in ast.walk(tree):
        asked: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Compare):
            pairs = zip(node.ops, node.comparators, strict=True)
            asked = [(node.left, side) for op, side in pairs if isinstance(op, (ast.In, ast.NotIn))]
        elif isinstance(node, ast.Subscript):
            asked = [(node.slice, node.value)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            asked = [(node.args[0], node.func.value)] if node.func.attr == "get" else []
        for key, table in asked:
            by_task = _ASKED & {*names_in(key), *constants_in(key)}
            if by_task and (has_task(table) or last_name(table) in tables):
                yield table.lineno


def asks_learned(tree: ast.Module) -> Iterator[int]:
    """Lines that ask what a task learns by for its class, or for what it can."""

    def is_learned(node: ast.expr) -> bool:
        node = node.value if isinstance(node, ast.NamedExpr) else node
        called = last_name(node.func) if isinstance(node, ast.Call) else ""
        return called in ("train_task", "learn") or (isinstance(node, ast.Attribute) and node.attr == "task")

    learned = assigned(tree, is_learned)
    for node in ast.walk(tree):
        asked = None
        if isinstance(node, ast.Call) and len(node.args) > 1:
            place = {"isinstance": 0, "issubclass": 0, "hasattr": 0, "cast": 1}.get(last_name(node.func))
            asked = None if place is None else node.args[place]
        elif isinstance(node, ast.Match) and any(isinstance(c.pattern, ast.MatchClass) for c in node.cases):
            asked = node.subject
        if asked is not None and (is_learned(asked) or last_name(asked) in learned):
            yield asked.lineno


def told_apart(tree: ast.Module, tasks: set[str]) -> Iterator[int]:
    """Lines that test the class of a recipe or task, compare with a task's name, or look up by it."""
    yield from asks_table(tree, tasks)
    yield from asks_learned(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and names_in(node.func)[-1:] in (["isinstance"], ["issubclass"]):
            if any(_CLASS.search(name) for name in names_in(node.args[1])):
                yield node.lineno
        elif isinstance(node, ast.MatchClass):
            if any(_CLASS.search(name) for name in names_in(node.cls)):
                yield node.lineno
        elif isinstance(node, ast.Match):
            asked = _ASKED & {*names_in(node.subject), *constants_in(node.subject)}
            if asked and any(tasks & constants_in(case.pattern) for case in node.cases):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            names, constants = names_in(node), constants_in(node)
            classes = [side for side in compared(node) if _CLASS.search(last_name(side))]
            by_class = classes and any(map(_is_class_of, compared(node)))
            if by_class or (tasks & constants and _ASKED & {*names, *constants}):
                yield node.lineno
        elif isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
            classes = [key for key in keys if any(map(_CLASS.search, names_in(key)))]
            if classes or sum(bool(tasks & constants_in(key)) for key in keys) > 1:
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
        "match recipe.task:\n    case 'tagger' | 'x':\n        pass",
        "type(recipe) is TaggerRecipe",
        "type(recipe) in (config.TaggerRecipe, DocumentRecipe)",
        "recipe.__class__ == TaggerRecipe",
        "record.name == 'tagger'",
        "'tagger' != task_of(recipe).name",
        "{'tagger': one, 'ranker': other}[recipe.task]",
        "{TaggerRecipe: one}[type(recipe)]",
        "KNOWN = {'tagger': one}\nif task not in KNOWN:\n    pass",
        "KNOWN: Known = {'tagger': one}\nKNOWN[recipe.task]",
        "{'tagger': one}.get(record.name, other)",
        "'x' if recipe['task'] in {'tagger': one} else 'y'",
        "isinstance(train_task(recipe), Knows)",
        "if isinstance(found := record.learn(recipe, None), Knows):\n    pass",
        "task = train_task(recipe)\nhasattr(task, 'uncertainty')",
        "match loaded.task:\n    case Knows():\n        pass",
        "cast(TaggerTask, loaded.task).nil",
    )
    for text in forbidden:
        assert list(told_apart(ast.parse(text), {"tagger", "ranker"})), text
    allowed = (
        "isinstance(x, Plan)",
        "kind == 'tagger'",
        "type(count) is int",
        "type(self).contrast is not EncoderTask.contrast",
        "record.name == other.name",
        "{'tagger': version, 'device': device}",
        "match kind:\n    case 'tagger':\n        pass",
        "counts = {'tagger': 1}\ncounts['tagger'] + counts[kind]",
        "KNOWN = {'tagger': one}\nrecipe.task in OTHERS",
        "task = train_task(recipe)\ntask.examples(items)",
        "isinstance(loaded.model, Tagger)",
    )
    for text in allowed:
        assert not list(told_apart(ast.parse(text), {"tagger", "ranker"})), text


def test_it_reads_every_package_above_config(root):
    packages = {path.split("/")[2] for path, _ in sources(root) if path.count("/") > 2}
    there = {path.parent.name for path in (root / "platform/rayner").glob("*/__init__.py")}
    assert packages >= there - {"config"}
    assert {path.split("/")[0] for path, _ in sources(root)} == {"platform", "jobs", "serve", "tune_spaces"}
    assert set(ABOUT_ONE) <= {path for path, _ in sources(root)}


def test_a_record_has_the_recipe_of_its_name():
    for task in OWN:
        assert task.recipe.model_fields["task"].annotation.__args__ == (task.name,)
        assert next(iter(task.metrics)), "the first metric is the main one"
    assert len({task.name for task in OWN}) == len(OWN)


def files_to_read(root: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Task -> the files of its method, and those beside them, as docs/code.md lists them."""
    page = (root / "docs/code.md").read_text(encoding="utf-8")
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
    shared = {
        "losses/full_precision.py",
        "losses/gather.py",
        "losses/masked.py",
        "models/encoder.py",
        "models/sources.py",
    }
    shared |= {"models/finite.py", "models/tokenizer.py", "models/precision.py", "models/precision_choice.py"}
    shared |= {"models/threads.py"}
    found = {str(path.relative_to(package)) for path in files if path.name != "__init__.py"}
    assert found - shared - listed == set()
