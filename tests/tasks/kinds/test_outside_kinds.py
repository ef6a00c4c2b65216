"""A kind of items of another package is treated by what it says of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rayner.data.schema import Document
from rayner.tasks.kinds.base import Kind
from rayner.tasks.registry import OWN, Task
from rayner.tasks.stages import Pipeline
from tests.toy import TOY


class Echo:
    forward_cost, tokens_per_batch, whole = 0, 64, True

    def prepare(self, item: Any) -> list[Any]:
        return []

    def finish(self, item: Any, windows: Any, scores: Any) -> Any:
        return item


def given(are_documents: bool) -> Any:
    kind: Any = type("Outside", (Kind,), {"name": "outside", "are_documents": are_documents})
    record = Task("own", TOY.recipe, TOY.learn, kind)
    settings: Any = SimpleNamespace(answers_documents=False, stages=[SimpleNamespace(record=record)])
    echo: Any = Echo()
    (item,) = Pipeline(settings, [], echo).predict(["Ada ran."])
    return item


def test_a_text_becomes_a_document_where_items_are_documents() -> None:
    assert isinstance(given(are_documents=True), Document)
    assert given(are_documents=False) == "Ada ran."


def test_of_the_own_kinds_documents_alone_have_types() -> None:
    kinds = {one.kind.name: one.kind for one in OWN}
    assert {name for name, kind in kinds.items() if kind.have_types} == {"documents"}
