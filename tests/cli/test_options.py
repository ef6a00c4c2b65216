"""The choices of options, which are spelled out to keep the help fast, are those of the code."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin

import pytest
from typer import BadParameter
from typer.main import get_command

from rayner.cli.app import app
from rayner.cli.options import CorpusFormatName, KnowledgeBaseFormat, OperatingPoint, ScoredFormat, share
from rayner.data import knowledge_bases, readers
from rayner.data.mention_readers import READERS
from rayner.tasks.standardizer.predictor import NilChoice


def choices(option: Any) -> tuple[str, ...]:
    """The strings of the literals in an annotated type."""
    if isinstance(option, str):
        return (option,)
    parts = get_args(option)[:1] if get_origin(option) is Annotated else get_args(option)
    return tuple(choice for part in parts for choice in choices(part))


def test_formats_are_those_that_can_be_read():
    assert choices(CorpusFormatName) == ("auto", *readers.FORMATS)
    assert choices(ScoredFormat) == ("auto", *readers.FORMATS, *READERS)
    assert choices(KnowledgeBaseFormat) == ("auto", *knowledge_bases.FORMATS)


def test_operating_points_are_those_of_a_standardizer():
    assert set(choices(OperatingPoint)) == set(choices(NilChoice))


@pytest.mark.parametrize("text", ["nan", "1.01", "-0.1", "inf", "a tenth", ""])
def test_what_is_no_share_is_refused(text: str):
    assert [share(value) for value in ("0", "1", "0.25")] == [0, 1, 0.25]
    with pytest.raises(BadParameter, match="is no share: a number between 0 and 1"):
        share(text)


@pytest.mark.parametrize(
    ("command", "unset"),
    [
        ("train", "as the recipe says"),
        *((f"corpus {name}", "Ray where the input is large") for name in ("convert", "check", "label")),
        ("corpus resolve", "Ray where the input is large"),
        ("corpus contexts", "0, and 1 with --vllm"),
        *((command, "0") for command in ("evaluate", "corpus rank", "index build")),
    ],
)
def test_each_command_says_what_it_does_without_workers(command: str, unset: str, run):
    told = " ".join(run(*command.split(), "--help")[1].split())
    assert f"Number of Ray workers; 0: this process. If unset, {unset}. [x>=0]" in told


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("tune", "trials search scheduler metric workers max_concurrent out"),
        ("annotate", "types workers tokens_per_batch precision"),
        ("predict", "types top_k precision"),
        ("corpus rank", "precision"),
        ("kb check", "id_column name_column alias_column type_column description_column"),
    ],
)
def test_an_option_without_a_default_says_what_holds_if_it_is_unset(command: str, options: str):
    found: Any = get_command(app)
    for name in command.split():
        found = found.commands[name]
    told = {param.name: param.help for param in found.params}
    assert [name for name in options.split() if "if unset" not in told[name].lower()] == []
