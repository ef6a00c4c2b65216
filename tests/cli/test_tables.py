"""What a terminal shows of scores, and of texts with their mentions."""

from __future__ import annotations

import io

from rich.console import Console

from rayner.cli.marked import COLOURS, colours_of, marked_text
from rayner.cli.tables import scores_table
from rayner.data.schema import Document, Mention


def printed(*things) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(*things)
    return console.file.getvalue()


def test_marked_text_keeps_every_character_and_names_the_types():
    document = Document("d", "Ana ran GNU Emacs.", (Mention(8, 17, "APP"), Mention(0, 3, "PER")))
    assert marked_text(document, {}).plain == "Ana [PER] ran GNU Emacs [APP]."


def test_marked_text_shows_the_longest_of_nested_mentions_once():
    document = Document("d", "GNU Emacs", (Mention(0, 3, "ORG"), Mention(0, 9, "APP"), Mention(4, 9, "APP")))
    assert marked_text(document, {}).plain == "GNU Emacs [APP]"


def test_a_mention_has_the_colour_of_its_type():
    colours = colours_of(["PER", "APP"])
    text = marked_text(Document("d", "Emacs", (Mention(0, 5, "APP"),)), colours)
    assert any(colours["APP"] in str(span.style) for span in text.spans)


def test_there_are_colours_for_any_number_of_types():
    names = [f"t{i}" for i in range(3 * len(COLOURS))]
    assert list(colours_of(names)) == names


def test_square_brackets_in_names_are_no_markup():
    scores = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}
    assert "[bold]" in printed(scores_table({**scores, "per_type": {"[bold]": scores}}, "title"))
