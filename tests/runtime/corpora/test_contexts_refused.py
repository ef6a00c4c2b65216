"""`corpus contexts` and `corpus rank`: why nothing is asked about mentions, what is left out, and stages that
are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rayner.data.schema import UNKNOWN, Document, Mention
from rayner.data.writers import write_jsonl
from rayner.errors import CorpusError, RecipeError
from rayner.runtime.corpora import context_pairs, labelled_contexts
from rayner.runtime.corpora.context_pairs import Generated, Labelled, contexts
from rayner.runtime.corpora.rank import rank
from rayner.supervision.context_rows import read_context_rows
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.context_gains import Gain
from tests.tasks.small import built, marked, tagger


@pytest.mark.parametrize(
    ("mentions", "reason"),
    [
        ((Mention(0, 9, "PER"),), "mentions 1, none whole in a sentence; name a corpus whose `sentences`"),
        ((Mention(0, 3, UNKNOWN),), r"mentions 1, those .* of type \?, which may be none; .* have types"),
        ((Mention(0, 9, "PER"), Mention(0, 3, UNKNOWN)), r"mentions 2, those whole in a sentence of type \?"),
    ],
)
def test_mentions_that_nothing_is_asked_about_have_their_reason(
    tmp_path: Path, mentions: tuple[Mention, ...], reason: str
) -> None:
    write_jsonl(
        [Document("a", "Ada. Love left.", mentions, sentences=((0, 4), (5, 15)))], tmp_path / "a.jsonl"
    )
    with pytest.raises(CorpusError, match=reason):
        contexts([tmp_path / "a.jsonl"], tmp_path / "out", Generated())


def test_a_stage_with_contexts_of_its_own_labels_none(tmp_path: Path) -> None:
    task = tagger(windows={"length": 60, "overlap": 8, "context": 30})
    save_checkpoint(tmp_path / "best", task, built(task), {})
    write_jsonl([Document("a", "Ada left.")], tmp_path / "a.jsonl")
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("stages: [{checkpoint: best, context: {methods: [after]}}]")
    with pytest.raises(RecipeError, match=r"stages\.0\.context: is not read .* checkpoint itself, .*best"):
        contexts([tmp_path / "a.jsonl"], tmp_path / "out", Labelled(pipeline))
    with pytest.raises(RecipeError, match=r"stages\.0\.context: is not read"):
        rank([tmp_path / "a.jsonl"], pipeline)


def test_texts_that_are_left_out_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [marked("[PER:Ada] left. It rained.", "a"), marked("[PER:Bob] ran. It poured.", "b")]
    write_jsonl(asked, tmp_path / "a.jsonl")
    write_jsonl([Document("other", "Bob ran.")], tmp_path / "other.jsonl")
    read: list[object] = []
    read_unit = context_pairs.read_unit
    monkeypatch.setattr(context_pairs, "read_unit", lambda unit: read.append(unit) or read_unit(unit))
    leave_out = [tmp_path / "other.jsonl"]
    counts = contexts([tmp_path / "a.jsonl"], tmp_path / "out", Generated(), leave_out=leave_out)
    assert (counts["left_out"], counts["rows"], len(read)) == (1, 2, 1)


@pytest.fixture
def labelled(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Rows of a text of which an extractor gives these gains, by contexts."""
    task = tagger(windows={"length": 60, "overlap": 8, "context": 30})
    save_checkpoint(tmp_path / "best", task, built(task), {})
    write_jsonl([marked("[PER:Ada] left. It rained.", "a")], tmp_path / "a.jsonl")

    def labelled(gains: Sequence[tuple[str, float]], leave_out: Sequence[Path] = ()) -> dict[str, Any]:
        found = [Gain("Ada left.", context, gain, (), "g") for context, gain in gains]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(labelled_contexts, "context_gains", lambda *_: found)
            source = Labelled(tmp_path / "best")
            return contexts([tmp_path / "a.jsonl"], tmp_path / "out", source, leave_out)

    return labelled


def relevant_in(out: Path) -> list[tuple[str, bool]]:
    return sorted((row.context, row.relevant) for row in read_context_rows(out / "rows.jsonl").rows)


def test_contexts_that_are_left_out_take_no_place_of_others(tmp_path: Path, labelled: Any) -> None:
    write_jsonl([Document("other", "It rained. It poured. It hailed.")], tmp_path / "other.jsonl")
    gains = [("Ada is a poet.", 1.0), *((f"It {x}.", 0.0) for x in ("rained", "poured", "hailed", "snowed"))]
    result = labelled(gains, [tmp_path / "other.jsonl"])
    assert relevant_in(tmp_path / "out") == [("Ada is a poet.", True), ("It snowed.", False)]
    assert result["left_out"] == 3
    counts = {"contexts": 5, "not relevant": 1, "not relevant left out": 3, "relevant": 1}
    assert result["counts"] == counts
    assert json.loads((tmp_path / "out/counts.json").read_text())["left_out_by_text"] == {"other": 3}


@pytest.mark.parametrize(
    ("gain", "hint"), [(0.0, "learns from contexts of both kinds"), (1.0, "--leave-out has what would make")]
)
def test_leave_out_is_to_blame_only_where_it_took_all_of_a_kind(
    tmp_path: Path, labelled: Any, gain: float, hint: str
) -> None:
    write_jsonl([Document("other", "It rained.")], tmp_path / "other.jsonl")
    with pytest.raises(CorpusError, match=hint):
        labelled([("It rained.", gain), ("It snowed.", 0.0)], [tmp_path / "other.jsonl"])
    assert not (tmp_path / "out/rows.jsonl").exists()


def test_what_a_text_repeats_is_no_row_of_both_kinds(tmp_path: Path, labelled: Any) -> None:
    gains = [("It rained.", 0.5), ("Nobody came.", -0.1), ("It rained.", -0.1), ("Nobody came.", -0.1)]
    assert labelled(gains)["counts"] == {"contexts": 2, "not relevant": 1, "relevant": 1}
    assert relevant_in(tmp_path / "out") == [("It rained.", True), ("Nobody came.", False)]


def test_made_contexts_that_are_left_out_are_counted(tmp_path: Path) -> None:
    write_jsonl([marked("[PER:Ada] left. It rained.", "a")], tmp_path / "a.jsonl")
    kinds = (
        "kinds: [{name: who, prompt: 'Who is {entity}?', templates: ['{entity} is a poet.'], types: [PER]}]"
    )
    (tmp_path / "prompts.yaml").write_text(kinds)
    write_jsonl([marked("[PER:Bob] ran. It poured.", "b")], tmp_path / "b.jsonl")
    write_jsonl([Document("other", "He said: Ada is a poet. So be it.")], tmp_path / "other.jsonl")
    paths, source = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], Generated(prompts=tmp_path / "prompts.yaml")
    result = contexts(paths, tmp_path / "out", source, leave_out=[tmp_path / "other.jsonl"])
    assert (result["relevant"], result["left_out"], result["counts"]["contexts left out"]) == (1, 1, 1)
    assert json.loads((tmp_path / "out/counts.json").read_text())["left_out_by_text"] == {"other": 1}
    with pytest.raises(CorpusError, match=r"contexts left out 1.*; --leave-out has what would make rows"):
        contexts(paths[:1], tmp_path / "none", source, leave_out=[tmp_path / "other.jsonl"])
