"""docs/add_a_system.md shows the toy task of the tests, whole and as it is."""

from __future__ import annotations

import yaml

from rayner.tasks.registry import parse_recipe
from tests.docs.pages import ROOT, blocks
from tests.toy import ToyRecipe

PAGE = ROOT / "docs/add_a_system.md"
TOY = ROOT / "tests/toy.py"


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_the_page_shows_the_whole_file() -> None:
    shown = "".join(block.text for block in blocks(PAGE) if block.language == "python")
    assert lines(shown) == lines(TOY.read_text("utf-8"))


def test_the_example_is_short() -> None:
    assert len(TOY.read_text("utf-8").splitlines()) < 150


def test_its_recipe_is_one_of_the_task() -> None:
    (shown,) = (block.text for block in blocks(PAGE) if block.language == "yaml")
    assert isinstance(parse_recipe(yaml.safe_load(shown), "toy.yaml"), ToyRecipe)
