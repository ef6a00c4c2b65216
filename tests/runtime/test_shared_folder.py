"""A node that does not see the folder of an annotation writes nothing there, and is named."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from rayner.files.places import place_of
from rayner.runtime.annotation.execution import _Actor
from rayner.runtime.annotation.missing_blocks import ToRead, read
from rayner.runtime.annotation.output_folder import Output
from rayner.runtime.shared_folder import NotSharedError, marker_file


def test_readers_and_actors_without_the_file_of_this_run_write_nothing(tmp_path: Path) -> None:
    with marker_file(tmp_path) as marker:
        pass
    output = Output(place_of(tmp_path / "out"))
    work = pickle.dumps(ToRead(0, (), 1, frozenset()))
    (answer,) = read(output, marker, pa.table({"work": [work]}))
    refused = [pickle.loads(answer["block"][0].as_py())]
    never: Any = partial(_fail)
    done = _Actor(never, 1, marker)(pa.table({"name": ["00000-00000"], "block": [pickle.dumps(None)]}))
    refused.append(pickle.loads(done["block"][0].as_py()))
    for error in refused:
        assert isinstance(error, NotSharedError)
        assert "does not see this folder" in str(error)
    assert not list(tmp_path.iterdir())


def _fail() -> None:
    raise AssertionError("the model is loaded")
