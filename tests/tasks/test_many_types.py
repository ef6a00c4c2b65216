"""Work and memory grow with the types that occur, not with documents times types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.config.recipe_files import load_types
from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.models.bi_encoder import BiEncoder
from rayner.tasks.document_windows import known_rows, known_types
from rayner.tasks.recognizer import dev_spans, predictor
from rayner.tasks.recognizer.dev_spans import span_tables, tuned_thresholds
from rayner.tasks.recognizer.task import RecognizerOptions
from rayner.tasks.registry import parse_recipe
from rayner.tasks.typer.task import TyperOptions
from tests.tasks.small import TYPES, built, corpus, recognizer, tagger

MANY = 2_000


def types(count: int) -> list[Any]:
    return [*TYPES, *({"name": f"T{n}", "description": f"things {n}"} for n in range(count - len(TYPES)))]


class CountingNames(list[str]):
    """Names that count how many of them were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[str]:
        self.looked_at += len(self)
        return super().__iter__()

    def index(self, *args: Any) -> int:
        found = super().index(*args)
        self.looked_at += found + 1
        return found


class CountingIndex(dict[str, int]):
    """Numbers of names that count how often they were asked, and how often all were gone through."""

    asked = 0

    def __getitem__(self, name: str) -> int:
        self.asked += 1
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self.asked += len(self)
        return super().__iter__()


@given(st.lists(st.one_of(st.none(), st.lists(st.sampled_from("abcdeXY")))))
def test_known_types_are_those_of_the_annotation(annotated: list[list[str] | None]) -> None:
    names = list("abcde")
    type_index = {name: number for number, name in enumerate(names)}
    documents = [Document("d", "", annotated_types=None if a is None else tuple(a)) for a in annotated]
    expected = [[a is None or name in a for name in names] for a in annotated]
    found = known_rows([known_types(document, type_index) for document in documents], len(names))
    np.testing.assert_array_equal(found, np.array(expected, bool).reshape(-1, len(names)))


def test_a_document_is_asked_for_its_own_types_alone() -> None:
    index = CountingIndex({f"T{n}": n for n in range(MANY)})
    found = known_types(Document("d", "", annotated_types=("T7", "other", "T5")), index)
    assert found is not None
    assert found.tolist() == [5, 7]
    assert index.asked <= 6
    assert known_types(Document("d", ""), index) is None
    assert index.asked <= 6


@pytest.mark.parametrize("make", [recognizer, tagger])
@pytest.mark.parametrize("annotated", [None, ("PER",)])
def test_examples_are_as_large_with_many_types(make: Any, annotated: tuple[str, ...] | None) -> None:
    documents = [replace(document, annotated_types=annotated) for document in corpus()]

    def rows(count: int) -> list[dict[str, Any]]:
        found = make(types=types(count)).examples(documents)
        return [{name: np.asarray(value).tolist() for name, value in row.items()} for row in found]

    assert rows(3) == rows(MANY)


def test_thresholds_of_many_types_are_tuned_in_a_few_passes() -> None:
    documents = corpus()
    task = recognizer(model={"threshold": "tuned"}, types=types(300))
    model = built(task).eval()
    predictor = task.predictor(model)
    task.names = names = CountingNames(
        # Every type has a mention, so that every type has a threshold of its own.
        [t.name for t in task.recipe.types]
    )
    mention = next(m for d in documents for m in d.mentions if m.type == "PER")
    document = next(d for d in documents if mention in d.mentions)
    everything = replace(document, mentions=tuple(replace(mention, type=name) for name in list(names)))
    names.looked_at = 0
    thresholds = tuned_thresholds(task, predictor, [everything])
    assert thresholds[:, 2].isfinite().all()
    assert len(set(thresholds[:, 2].tolist())) > 100
    assert names.looked_at <= 20 * len(names)


@pytest.mark.parametrize(
    "read",
    [
        lambda given: RecognizerOptions.of({"types": given}, "recognizer"),
        lambda given: TyperOptions.of({"types": given}, "typer"),
        lambda given: parse_recipe({"task": "recognizer", "corpus": {"train": ["x"]}, "types": given}, ""),
        lambda given: parse_recipe({"task": "tagger", "corpus": {"train": ["x"]}, "types": given}, ""),
        lambda given: parse_recipe({"task": "typer", "corpus": {"train": ["x"]}, "types": given}, ""),
    ],
    ids=["options of a recognizer", "options of a typer", "recognizer", "tagger", "typer"],
)
def test_two_equal_types_of_many_are_named_at_once(read: Callable[[Any], Any]) -> None:
    with pytest.raises(InputError) as error:
        read([*types(100_000), {"name": "T7"}])
    assert "the type 'T7' occurs twice, as entries 11 and 100001" in str(error.value)
    assert "\n" not in str(error.value)


def test_two_equal_types_of_a_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "types.yaml"
    # JSON is YAML.
    file.write_text(json.dumps([{"name": "PER"}, {"name": "LOC"}, {"name": "PER", "description": "people"}]))
    with pytest.raises(InputError) as error:
        load_types(file)
    assert str(error.value) == f"{file}: the type 'PER' occurs twice, as entries 1 and 3"


def test_what_is_no_list_of_types_is_told_how_one_looks(tmp_path: Path) -> None:
    (tmp_path / "types.yaml").write_text("PER: people\n")
    with pytest.raises(InputError, match=r"no list of types; write a line `- name: PER`, below it `  desc"):
        load_types(tmp_path / "types.yaml")


def test_a_file_names_no_unknown_type(tmp_path: Path) -> None:
    file = tmp_path / "types.yaml"
    file.write_text('[{name: PER}, {name: "?"}]')
    with pytest.raises(InputError, match=r"types\.yaml: '\?' is no type: .*; name another$"):
        load_types(file)


def test_the_table_of_spans_holds_as_many_of_few_types_as_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1 << 14
    noted: list[int] = []
    score = BiEncoder.score

    def noting(self: BiEncoder, *args: Any) -> Any:
        scores = score(self, *args)
        noted.append(scores.span.numel())
        return scores

    documents = corpus()
    mentions = sum(len(set(d.mentions)) for d in documents)
    rows = {}
    for count in (30, 300):
        task = recognizer(types=types(count))
        recognizing = task.predictor(built(task).eval())
        everything = span_tables(task, recognizing, documents, 1)["candidates"].to_pandas()
        with monkeypatch.context() as changed:
            changed.setattr(BiEncoder, "score", noting)
            changed.setattr(predictor, "_CELLS_AT_ONCE", most)
            changed.setattr(dev_spans, "OTHERS", 50)
            changed.setattr(dev_spans, "ROWS_AT_ONCE", 500)
            found = span_tables(task, recognizing, documents, 1)["candidates"].to_pandas()
        rows[count] = len(found)
        assert found.gold.sum() == mentions
        margins = found[~found.gold].margin.sort_values().to_numpy()
        best = everything[~everything.gold].margin.sort_values().to_numpy()[-50:]
        np.testing.assert_allclose(margins, best, rtol=0, atol=1e-5)
    assert rows == {30: mentions + 50, 300: mentions + 50}
    assert max(noted) <= most


def test_thresholds_are_tuned_on_the_spans_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    task = recognizer(model={"threshold": "tuned"}, types=types(60))
    model = built(task).eval()
    recognizing = task.predictor(model)
    thresholds = tuned_thresholds(task, recognizing, corpus())
    monkeypatch.setattr(dev_spans, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(predictor, "_CELLS_AT_ONCE", 1 << 12)
    gathered: list[int] = []
    best = dev_spans._best

    def noting(*args: Any) -> Any:
        found = best(*args)
        gathered.append(len(found.type))
        assert set(found.type[~found.gold]) <= {0, 1, 2}
        return found

    monkeypatch.setattr(dev_spans, "_best", noting)
    torch.testing.assert_close(tuned_thresholds(task, recognizing, corpus()), thresholds)
    assert len(gathered) > 3
