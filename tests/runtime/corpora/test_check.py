"""What `corpus check` says of a corpus beside a recipe that does not find mentions."""

from __future__ import annotations

from pathlib import Path

from rayner.data.schema import Document, Mention
from rayner.data.writers import write_parquet
from rayner.runtime.corpora.check import check
from rayner.tasks.registry import parse_recipe


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
