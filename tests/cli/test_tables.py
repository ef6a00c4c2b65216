"""What a terminal shows of scores, and of texts with their mentions."""

from __future__ import annotations

import io
import logging
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rayner.cli.linking_tables import answers_table, proposals_table
from rayner.cli.marked import COLOURS, colours_of, label_of, marked_text
from rayner.cli.printing import logs_on_stderr, print_summary
from rayner.cli.tables import print_findings, print_metrics, print_training, scores_table
from rayner.data.schema import Document, Mention

EVIL = "\x1b[2J\u202ex"


def printed(*things) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(*things)
    return console.file.getvalue()


def plain(text, *mentions) -> str:
    return marked_text(Document("d", text, mentions), {}, lambda mention: mention.type).plain


def test_marked_text_keeps_every_character_and_names_the_types():
    marked = plain("Ana ran GNU Emacs.", Mention(8, 17, "APP"), Mention(0, 3, "PER"))
    assert marked == "[Ana](PER) ran [GNU Emacs](APP)."


def test_marked_text_shows_mentions_inside_others_and_of_two_types():
    nested = (Mention(0, 3, "ORG"), Mention(0, 9, "APP"), Mention(4, 9, "APP"), Mention(4, 9, "NAME"))
    assert plain("GNU Emacs 2", *nested) == "[[GNU](ORG) [[Emacs](NAME)](APP)](APP) 2"
    assert plain("ab cd", Mention(0, 2, "X"), Mention(2, 5, "Y")) == "[ab](X)[ cd](Y)"


def test_marked_text_has_crossing_mentions_after_the_text():
    assert plain("a b c.", Mention(0, 3, "X"), Mention(2, 5, "Y")) == "[a b](X) c. +[b c](Y)"


@given(st.text("ab ]\n", max_size=12), st.data())
def test_without_what_it_adds_marked_text_is_the_text(text, data):
    ends = st.integers(0, len(text))
    spans = data.draw(st.lists(st.tuples(ends, ends).filter(lambda span: span[0] < span[1]), max_size=5))
    marked = plain(text, *(Mention(start, end, "\u2020") for start, end in spans))
    shown, *crossing = marked.split(" +[")
    assert shown.count("](\u2020)") + len(crossing) == len(spans)
    assert shown.replace("](\u2020)", "").replace("[", "") == text


def test_a_mention_has_the_colour_of_its_type():
    colours = colours_of(["PER", "APP"])
    document = Document("d", "Emacs", (Mention(0, 5, "APP"),))
    text = marked_text(document, colours, lambda mention: mention.type)
    assert any(colours["APP"] in str(span.style) for span in text.spans)


def test_a_label_has_what_is_known_of_a_mention():
    mention = Mention(0, 5, "APP", "e1", score=0.875, types=(("editor", 0.5),), probability=0.25)
    mention = replace(mention, name="GNU Emacs")
    assert label_of(mention) == "APP: editor = e1 GNU Emacs"
    assert label_of(mention, scores=True) == "APP 0.88: editor 0.50 = e1 GNU Emacs 0.25"
    both = Mention(0, 5, "APP", "e1|e2", name="GNU Emacs | Vim")
    assert label_of(both) == "APP = e1|e2 GNU Emacs | Vim"
    unlinked = Mention(0, 5, "APP")
    assert label_of(unlinked, is_linked=True) == "APP = NIL"
    assert label_of(unlinked, scores=True) == "APP"


def test_no_escape_sequence_of_a_text_or_a_name_reaches_the_terminal():
    document = Document("d", "\x1b[31mE\x9b\u202ea\nb\t", (Mention(5, 6, "A\x1bB"),))
    marked = marked_text(document, {}, lambda mention: mention.type)
    assert marked.plain == "\\x1b[31m[E](A\\x1bB)\\x9b\\u202ea\nb\t"
    marked = marked_text(document, {}, lambda mention: mention.type, one_line=True)
    assert marked.plain.endswith("a\\nb\\t")


def test_there_are_colours_for_any_number_of_types():
    names = [f"t{i}" for i in range(3 * len(COLOURS))]
    assert list(colours_of(names)) == names


def test_square_brackets_in_names_are_no_markup():
    scores = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}
    assert "[bold]" in printed(scores_table({**scores, "per_type": {"[bold]": scores}}, "title"))


def test_no_escape_sequence_of_a_name_is_in_a_table_or_a_summary(capsys):
    scores = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}
    answer = {"line": 1, "mention": EVIL, "entity_id": EVIL, "name": EVIL, "score": 1.0, "probability": 0.5}
    proposal = {"name": EVIL, "aliases": [EVIL], "mentions": 1, "nearest": {"name": EVIL, "score": 0.5}}
    candidates = [{"name": EVIL, "entity_id": id_} for id_ in (EVIL, "2")]
    tables = (
        scores_table({**scores, "per_type": {EVIL: scores}}, "title"),
        answers_table([{**answer, "candidates": candidates, "reason": None}]),
        proposals_table([proposal]),
    )
    print_summary({"types": {EVIL: 1}, "chosen": EVIL})
    for said in (*map(printed, tables), capsys.readouterr().out):
        assert "\\x1b[2J" in said
        assert not {"\x1b", "\u202e"} & set(said)


def test_without_a_candidate_there_is_no_probability_that_it_is_right():
    answer = {"mention": "...", "entity_id": None, "name": None, "score": None, "probability": 0.0}
    said = printed(answers_table([{**answer, "candidates": [], "reason": "only punctuation"}]))
    assert "NIL: only punctuation" in said
    assert "0.00" not in said


def test_after_nil_comes_the_candidate_that_is_nearest() -> None:
    answer = {"mention": "x", "entity_id": None, "name": None, "score": 0.5, "probability": 0.5}
    candidates = [{"name": "nearest", "entity_id": "1"}, {"name": "second", "entity_id": "2"}]
    said = printed(answers_table([{**answer, "candidates": candidates, "reason": None}]))
    assert "nearest" in said
    assert "second" not in said


def test_after_an_answer_of_several_entities_comes_what_is_none_of_them() -> None:
    answer = {"mention": "x", "entity_id": "1|2", "name": "one | two", "score": 0.5, "probability": 0.5}
    names = {"1": "one", "2": "two", "3": "three"}
    candidates = [{"name": name, "entity_id": id_} for id_, name in names.items()]
    row = printed(answers_table([{**answer, "candidates": candidates, "reason": None}]))
    assert "three" in row
    assert row.count("two") == 1


@pytest.mark.parametrize(("unlisted", "said"), [({}, "all"), ({"unlisted": 5}, "more")])
def test_findings_say_whether_json_has_all_of_them(
    capsys: pytest.CaptureFixture[str], unlisted: dict[str, int], said: str
) -> None:
    finding = {"severity": "warning", "kind": "twice", "what": "occurs twice", "hint": ""}
    print_findings({"findings": [{**finding, "where": f"a:{line}"} for line in (1, 2)], **unlisted})
    assert f"and 1 more of this kind (twice): a:2; --json says {said}" in capsys.readouterr().out


def test_no_escape_sequence_of_a_name_is_in_a_log(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with logs_on_stderr():
        logging.getLogger("rayner.test").warning("mentions of %s", EVIL)
    assert "mentions of \\x1b[2J" in capsys.readouterr().err


def test_a_line_of_a_library_that_prints_it_itself_is_in_no_log(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "handlers", [logging.StreamHandler(sys.stderr)])
    with logs_on_stderr():
        logging.getLogger("huggingface_hub").warning("Retrying")
    assert capsys.readouterr().err == "Retrying\n"


def test_of_many_types_those_with_most_mentions_are_shown():
    scores = {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    per_type = {f"t{n}.": {**scores, "support": n} for n in range(10_000)}
    said = printed(scores_table({**scores, "support": 1, "per_type": per_type}, "title"))
    shown = re.findall(r"t\d+\.", said)
    assert shown == [f"t{n}." for n in range(9999, 9974, -1)]
    assert "9,975 others" in " ".join(said.split())
    few = dict(list(per_type.items())[:25])
    said = printed(scores_table({**scores, "support": 1, "per_type": few}, "title"))
    assert all(name in said for name in few)
    assert "others" not in said


def test_a_pretraining_on_chains_shows_the_metric_that_it_was_chosen_by(capsys):
    print_metrics({"mrr": 0.25, "mrr_other_stories": 0.5, "top1": 0.125, "mentions": 35}, "development set")
    said = capsys.readouterr().out
    assert all(name in said for name in ("mrr_other_stories", "50.0", "top1", "12.5"))
    assert "accuracy" not in said


def test_the_error_of_a_ranker_is_no_percentage(capsys):
    print_metrics({"f1": 0.5, "mse": 0.0625, "pairs": 8}, "development set")
    said = capsys.readouterr().out
    assert "50.0" in said
    assert "0.0625" in said


def test_a_training_without_a_development_set_says_so_in_place_of_scores(capsys):
    result = {"checkpoint": "run/best", "metrics": {}, "steps": 18, "compute_precision": "float32"}
    print_training(result, ["rayner report run"])
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "no development set: this is the model of the last step"
    assert [line.split(":")[0] for line in rest] == ["checkpoint", "steps", "next"]


def test_a_training_says_which_step_was_the_best(capsys):
    metrics = {"mse": 0.0625, "pairs": 8}
    result = {"checkpoint": "run/best", "metrics": metrics, "steps": 18, "best_step": 12}
    print_training({**result, "compute_precision": "float32"}, [])
    assert "steps:      18 (best: 12)\n" in capsys.readouterr().out
