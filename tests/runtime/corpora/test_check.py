"""What `corpus check` says of a corpus beside a recipe: what the task itself refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.data.schema import Document, Mention
from rayner.data.writers import write_parquet
from rayner.errors import RecipeError
from rayner.runtime.corpora.check import check
from rayner.tasks.registry import parse_recipe, train_task


def test_check_names_the_parents_that_a_list_of_types_lacks(tmp_path: Path) -> None:
    write_parquet([Document("a", "Ekeus", (Mention(0, 5, "/person"),))], tmp_path / "train.parquet")
    (tmp_path / "types.txt").write_text("/person\n/person/artist\n/place/city/port\n/place/city/old\n")
    values = {
        "task": "typer",
        "encoder": "random:8x1",
        "corpus": {"train": [str(tmp_path / "train.parquet")]},
        "type_list": str(tmp_path / "types.txt"),
    }
    found = check([], parse_recipe(values, "test"))
    assert (found["kinds"], found["warnings"]) == ({"type without a parent": 2}, 2)
    city, place = (finding["what"] for finding in found["findings"])
    assert city == "'/place/city', the parent of '/place/city/port' and of 1 more, is none of the types"
    assert place.startswith("'/place', the parent of '/place/city/port'")
    flat = check([], parse_recipe(values | {"decoding": {"hierarchy": "none"}}, "test"))
    assert not flat["findings"]


def test_check_finds_the_type_without_a_text_that_training_refuses(tmp_path: Path) -> None:
    mentions = (Mention(0, 3, "Pest"), Mention(4, 7, "Plant"))
    write_parquet([Document("a", "Rot Elm", mentions)], tmp_path / "train.parquet")
    types = [{"name": "Plant", "description": "plants"}, {"name": "Pest"}]
    corpus = {"train": [str(tmp_path / "train.parquet")]}
    recipe = parse_recipe(
        {"task": "recognizer", "encoder": "random:8x1", "corpus": corpus, "types": types}, "test"
    )
    with pytest.raises(RecipeError, match="types: Pest: has no description") as refused:
        train_task(recipe).units("train")
    (finding,) = check([], recipe, workers=0)["findings"]
    assert (finding["severity"], finding["kind"]) == ("error", "type without description")
    assert f"{finding['where']}: {finding['what']}; {finding['hint']}" == str(refused.value)
