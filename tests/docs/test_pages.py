"""What README and docs show is true of the code: commands, YAML, Python, links and names of files."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.exceptions import TyperException

from rayner.cli.app import app
from rayner.cli.options import given_file, given_path
from rayner.config import PromptSettings
from rayner.config.documents import TypeSettings
from rayner.config.recipe_files import parse_settings
from rayner.errors import RaynerError
from rayner.serving.application_settings import ServeSettings
from rayner.tasks.registry import parse_recipe
from rayner.tasks.stage_contexts import StageContexts
from tests.docs.pages import PAGES, ROOT, Block, anchors, blocks, commands, commands_of, inline

FOLDERS = ("docs", "jobs", "serve", "tune_spaces", "platform", "benchmarks", "tests")
NUMBERS = {"N": "1", "X": "0.5", "SECONDS": "1"}
"""Placeholders in the place of numbers."""
NOT_THERE = {"platform/__init__.py"}
"""Which pages warn of."""
PAGE_IDS = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.fixture(scope="module")
def cli() -> Iterator[Any]:
    """The command line, which asks of no path whether it is there."""
    command = typer.main.get_command(app)
    with pytest.MonkeyPatch.context() as patch:
        for info in parameters(command):
            if info.parser in (given_path, given_file):
                patch.setattr(info, "parser", None)
            patch.setattr(info, "exists", False)
        yield command


def parameters(command: Any) -> Iterator[Any]:
    """What is declared of every parameter, also of the commands below."""
    yield from (param.type_descriptor.parameter_info for param in command.params if has_type(param))
    for inner in getattr(command, "commands", {}).values():
        yield from parameters(inner)


def has_type(param: Any) -> bool:
    """Not so the options that Typer adds by itself, such as --help."""
    return getattr(param, "type_descriptor", None) is not None


def parse(command: Any, arguments: list[str]) -> None:
    """Take the arguments as the command line does, without doing anything.

    Raises:
        TyperException: an unknown command or option, a value that is none of the choices, too few.
    """
    if arguments[:1] == ["COMMAND"]:
        return
    arguments = [NUMBERS.get(word, word) for word in arguments]
    while hasattr(command, "commands"):
        if not arguments or (arguments[0].startswith("-") and arguments[0] in ("--version", "--help", "-h")):
            return
        name, *arguments = arguments
        if name not in command.commands:
            raise TyperException(f"no such command: {name}")
        command = command.commands[name]
    if arguments:
        command.make_context(command.name, list(arguments))


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_every_command_is_one_that_the_command_line_takes(page: Path, cli: Any) -> None:
    wrong = []
    for where, arguments in commands(page):
        try:
            parse(cli, arguments)
        except TyperException as error:
            wrong.append(f"{where}: {' '.join(arguments)}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        "trein R",
        "train R --workers many",
        "train R --Out x",
        "corpus turn X",
        "annotate C T",
        "corpus convert A --out B --to xml",
    ],
)
def test_a_wrong_command_is_seen(wrong: str, cli: Any) -> None:
    with pytest.raises(TyperException):
        parse(cli, wrong.split())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("$ rayner report runs/a   # a page", [["report", "runs/a"]]),
        (
            "ray job submit --working-dir . -- python -m jobs.train R --workers 2",
            [["train", "R", "--workers", "2"]],
        ),
        ("rayner doctor && rayner index list 'an index' > out", [["doctor"], ["index", "list", "an index"]]),
        ("RAY_ADDRESS=... rayner serve C", [["serve", "C"]]),
        ("kubectl get secret rayner -o x  # then rayner nonsense", []),
    ],
)
def test_commands_are_found_in_a_line(line: str, found: list[list[str]]) -> None:
    assert list(commands_of(line)) == found


def validate(block: Block) -> None:
    """Check a block of YAML by the model of what it is.

    Raises:
        RaynerError: it has an unknown key, lacks one, or has a value that is none.
    """
    value = yaml.safe_load(block.text)
    if isinstance(value, list):
        for entry in value:
            parse_settings(TypeSettings, entry, block.where)
    elif "task" in value:
        if isinstance(value.get("types"), str):
            value = {**value, "types": [{"name": "A"}]}
        parse_recipe(value, block.where)
    elif set(value) == {"stages"}:
        for stage in value["stages"]:
            assert isinstance(stage["checkpoint"], str), block.where
            parse_settings(StageContexts, stage.get("context", {}), block.where)
        assert makes_a_pipeline(value["stages"]), f"{block.where}: no tasks have these options, in this order"
    elif "kinds" in value:
        parse_settings(PromptSettings, value, block.where)
    elif {"checkpoint", "knowledge_bases"} & set(value):
        parse_settings(ServeSettings, value, block.where)
    else:
        raise AssertionError(f"{block.where}: what is this YAML? keys {sorted(value)}")


def makes_a_pipeline(stages: list[dict[str, Any]]) -> bool:
    """Whether for each stage there is a task with all its options, the tasks in the order of a pipeline."""
    from rayner.tasks.registry import tasks
    from rayner.tasks.stages import ORDER

    places = [
        {
            ORDER.index(task.stage)
            for task in tasks().values()
            if task.stage and set(stage) - {"checkpoint", "context"} <= set(task.options.model_fields)
        }
        for stage in stages
    ]
    return any(list(chosen) == sorted(chosen) and 1 in chosen for chosen in product(*places))


@pytest.mark.parametrize(
    "wrong",
    [
        "[{checkpoint: a, shift: 0.1, index: b}]",
        "[{checkpoint: a, top_k: 3}, {checkpoint: b, overlap: flat}]",
        "[{checkpoint: a, index: b}]",
    ],
)
def test_a_pipeline_that_no_tasks_make_is_seen(wrong: str) -> None:
    with pytest.raises(AssertionError, match="no tasks have these options"):
        validate(Block(ROOT / "README.md", 1, "yaml", f"stages: {wrong}"))


def of_language(*names: str) -> list[Any]:
    # The parts of a file that other tests run.
    pages = [page for page in PAGES if page.name != "add_a_system.md"]
    found = (block for page in pages for block in blocks(page) if block.language in names)
    return [pytest.param(block, id=block.where) for block in found]


@pytest.mark.parametrize("block", of_language("yaml", "yml"))
def test_every_yaml_block_is_valid(block: Block) -> None:
    assert problem_of(block) is None


def problem_of(block: Block) -> str | None:
    try:
        validate(block)
    except RaynerError as error:
        return f"{block.where}: {error}"
    return None


@pytest.mark.parametrize("block", of_language("python", "py"))
def test_every_python_block_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads a run or a file of the reader's is compiled, and its imports done; all else is executed."""
    tree = ast.parse(block.text, block.where)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                of_module = f"{node.module}.{alias.name}"
                assert hasattr(module, alias.name) or importlib.import_module(of_module), of_module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
    if not re.search(r"runs/|RUN|load\(|jobs/|\.yaml", block.text):
        monkeypatch.chdir(tmp_path)
        exec(compile(tree, block.where, "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    broken = []
    for line, token in inline(page):
        target = str(token.attrGet({"link_open": "href", "image": "src"}.get(token.type, "")) or "")
        if not target or re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(f"{page.relative_to(ROOT)}:{line}: {target}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_every_file_of_the_repository_that_is_named_exists(page: Path) -> None:
    named = (
        (line, token.content.split(":")[0])
        for line, token in inline(page)
        if token.type == "code_inline"
        and re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w./-]+(?::\w+)?", token.content)
        and token.content not in NOT_THERE
    )
    missing = [
        f"{page.relative_to(ROOT)}:{line}: {name}" for line, name in named if not (ROOT / name).exists()
    ]
    assert not missing, "\n".join(missing)


def test_every_page_is_reached_from_the_readme() -> None:
    reached, left = set[Path](), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        targets = (str(token.attrGet("href") or "") for _, token in inline(page) if token.type == "link_open")
        left += [
            (page.parent / t.partition("#")[0]).resolve() for t in targets if not re.match(r"[a-z]+:|#", t)
        ]
    assert sorted(str(page.relative_to(ROOT)) for page in set(PAGES) - reached) == []
