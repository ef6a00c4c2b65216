"""The reference pages are made from the code, and the code describes all that they show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from docs.generate import FOLDER, PAGES
from rayner.tasks.registry import OWN


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_command_makes(name: str) -> None:
    assert (FOLDER / f"{name}.md").read_text("utf-8") == PAGES[name](), "run python -m docs.generate"


def parts(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models within an annotation, and those within them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from parts(field.annotation)
    for inner in getattr(annotation, "__args__", ()):
        yield from parts(inner)


@pytest.mark.parametrize("task", OWN, ids=lambda task: task.name)
def test_every_key_of_a_recipe_is_described(task: Any) -> None:
    bare = {
        f"{model.__name__}.{name}"
        for model in parts(task.recipe)
        for name, field in model.model_fields.items()
        if not field.description and name != "task" and not list(parts(field.annotation))
    }
    assert not bare, "write a docstring below the field"
    assert all(model.__doc__ for model in parts(task.recipe))


def test_a_key_of_every_depth_is_on_the_page() -> None:
    page = PAGES["recipes"]()
    for key in ("seed", "corpus.labels.case", "loss.mining", "windows.context", "types[].prototypes"):
        assert f"| `{key}` |" in page
    assert "| `windows.length` | integer, at least 8 | `384` |" in page.split("## coreference")[1]


def test_a_part_that_a_recipe_may_leave_out_says_so() -> None:
    recognizer = PAGES["recipes"]().split("\n## recognizer")[1].split("\n## ")[0]
    added, checkpoint = (recognizer.index(f"| `{key}` |") for key in ("added", "added.checkpoint"))
    assert added < checkpoint
    assert "| `self_training` | its keys or null | `null` | With it, a second stage" in recognizer


def test_what_python_takes_by_name_alone_is_told() -> None:
    page = PAGES["python"]()
    assert "    Type(\n        *,\n        name: str,\n" in page
    assert "    Mention(\n        start: int,\n" in page


def test_annotations_are_shown_without_their_quotes() -> None:
    page = PAGES["python"]()
    assert "    precision: Literal['float32', 'bfloat16', 'float16', 'auto'] | None = None,\n" in page
    assert "predict(items: str | Document | Iterable[Any], tokens_per_batch: int | None = None)" in page


def test_an_argument_of_several_and_what_must_be_given_are_told() -> None:
    page = PAGES["commands"]()
    assert "    rayner evaluate CHECKPOINT CORPUS... [OPTIONS]\n" in page
    annotate = page.split("## annotate")[1].split("\n## ")[0]
    assert "| `--out` | `DIR`, required |" in annotate
    assert annotate.count("required") == 1


def test_every_field_of_the_http_interface_has_a_meaning() -> None:
    bodies = PAGES["http"]().split("\n## Bodies\n")[1]
    assert not [line for line in bodies.splitlines() if line.endswith("|  |")], (
        "write a docstring below the field"
    )
