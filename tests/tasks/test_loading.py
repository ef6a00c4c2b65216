"""What `rayner.load` may be asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rayner
from rayner.data.schema import Document, Mention
from rayner.errors import InputError
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.standardizer.linking_options import StandardizerOptions
from tests.tasks.small import built, recognizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    task: Any = recognizer()
    save_checkpoint(folder, task, built(task), {})
    return folder


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"precision": "int8"}, "precision: 'int8' is none; one of float32, bfloat16, float16, auto"),
        ({"device": 0}, "device: 0 is no name of one; write cpu, or cuda:0 for the first GPU"),
        ({"device": ""}, "device: '' is none; cpu, cuda"),
        ({"device": "gpu"}, "device: 'gpu' is none; cpu, cuda"),
        ({"device": "cuda:99"}, "device: 'cuda:99' is not here: torch sees"),
        ({"device": "mps"}, "device: torch here cannot compute on 'mps'"),
        ({"device": "xpu"}, "device: torch here cannot compute on 'xpu'"),
        ({"device": "meta"}, "device: torch here cannot compute on 'meta'"),
    ],
)
def test_a_device_or_a_precision_that_there_is_not(folder: Path, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        rayner.load(folder, **asked)
    assert str(raised.value).startswith(message)
    assert rayner.load(folder, device=torch.device("cpu")).precision == "float32"  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", None])
def test_what_names_no_checkpoint_is_refused(path: Any) -> None:
    with pytest.raises(InputError, match=f"^checkpoint: {path!r} names none; give a folder such as RUN/best"):
        rayner.load(path)


def test_a_pipeline_is_a_key_and_is_shown_by_its_settings_alone(folder: Path) -> None:
    loaded, other = rayner.load(folder, device="cpu"), rayner.load(folder, device="cpu")
    assert len({loaded, loaded, other}) == 2
    assert repr(loaded) == f"Pipeline(settings={loaded.settings!r})"


def test_an_operating_point_that_there_is_not_is_told_all_that_there_are() -> None:
    with pytest.raises(InputError) as raised:
        StandardizerOptions.of({"operating_point": "sure"}, "standardizer")
    assert raised.value.where == "operating_point"
    assert "'accuracy', 'high_precision', 'high_recall' or 'never'" in raised.value.what


def test_an_empty_option_is_not_the_working_directory() -> None:
    with pytest.raises(InputError, match=r"^index: is empty; give a value, or leave it out"):
        StandardizerOptions.of({"index": ""}, "standardizer")


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ({"mentions": (Mention(0, 300, "PER"),)}, r"the mention \[0, 300\) is no part of its text"),
        ({"mentions": (Mention(-3, 3, "PER"),)}, r"the mention \[-3, 3\) is no part of its text"),
        ({"mentions": (Mention(3, 3, "PER"),)}, r"the mention \[3, 3\) is no part of its text"),
        ({"mentions": (Mention("0", "3", "PER"),)}, "mention offsets '0' '3' are not integers"),
        ({"mentions": ({"start": 0, "end": 3},)}, "its mentions, words, sentences or contexts are not such"),
        ({"contexts": ("Ada slept.",)}, "its mentions, words, sentences or contexts are not such"),
        ({"words": ((0, 3), (4, 99))}, r"words hold \[4, 99\), outside the text; offsets are Python's int"),
        (
            {"words": (np.array([0, 3]),)},
            r"words hold \[np.int64.*which are not integers; offsets are Python's",
        ),
        (
            {"mentions": (Mention(0, 2, "PER", score=np.float32(0.5)),)},  # type: ignore[arg-type]
            r"score np.float32\(0.5\) is not a number, or no finite one; numbers are Python's int and float",
        ),
        ({"sentences": ((0, 99),)}, r"sentences hold \[0, 99\), outside the text"),
    ],
)
def test_a_document_with_spans_outside_its_text_is_told_by_its_place(
    folder: Path, parts: dict[str, Any], what: str
) -> None:
    good = Document("a", "Ada ran.", (Mention(0, 3, "PER"),), ((0, 3), (4, 7)))
    loaded = rayner.load(folder, device="cpu")
    with pytest.raises(InputError, match=rf"^items\[1\]: {what}"):
        loaded.predict([good, replace(Document("b", "Bo slept."), **parts)])
    assert len(loaded.predict([good])) == 1
