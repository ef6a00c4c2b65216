"""Answers to texts: in colour on a terminal, as plain lines elsewhere, or as rows of JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.text import Text

from rayner.cli.marked import COLOURS, NIL, label_of, marked_text
from rayner.cli.printing import visible

if TYPE_CHECKING:
    from rayner.data.schema import Context, Document
    from rayner.tasks.stages import Pipeline
    from rayner.tasks.standardizer.predictor import Answer


class Lines:
    """Prints to an output; `are_plain` where it is no terminal, or one without colours."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._console = Console(file=output, highlight=False)
        self.are_plain = not self._console.is_terminal or self._console.no_color

    def print(self, line: Text) -> None:
        """Print a line, or several on a terminal."""
        if self.are_plain:
            print(line.plain, file=self._output)
        else:
            self._console.print(line, soft_wrap=True)


class ShownDocuments:
    """Texts with their mentions.

    Args:
        scores: show scores, which rows have anyway.
        contexts: show the contexts that were chosen for each sentence, also in rows.
    """

    def __init__(self, output: TextIO, pipeline: Pipeline, scores: bool, contexts: bool) -> None:
        self._lines = Lines(output)
        self._pipeline, self._scores, self._contexts = pipeline, scores, contexts
        self._is_linked = pipeline.settings.links
        self._colours: dict[str, str] = {}
        self._types: Counter[str] = Counter()
        self._documents = self._linked = 0

    @property
    def counts(self) -> dict[str, Any]:
        """Of all rows so far."""
        return {
            "documents": self._documents,
            "mentions": self._types.total(),
            "linked": self._linked,
            "types": dict(self._types.most_common()),
        }

    def row(self, document: Document) -> dict[str, Any]:
        """The document as `annotate --jsonl` writes it."""
        from rayner.data.writers.jsonl import json_row

        self._documents += 1
        self._types.update(mention.type for mention in document.mentions)
        self._linked += sum(mention.entity_id is not None for mention in document.mentions)
        if self._contexts:
            return json_row(self._pipeline.with_contexts(document))
        return json_row(replace(document, sentence_contexts=None))

    def show(self, document: Document) -> None:
        """Print the text with its mentions, and below it the contexts that were chosen for its sentences."""
        from rayner.tasks.base import type_names

        for name in [*type_names(self._pipeline.predictor), *(m.type for m in document.mentions)]:
            self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
        self._lines.print(
            marked_text(
                document,
                self._colours,
                lambda mention: label_of(mention, self._is_linked(mention.type), self._scores),
                self._lines.are_plain,
            )
        )
        for (start, end), contexts in self._read(document) if self._contexts else ():
            if contexts:
                self._lines.print(Text(f"  chosen for {visible(document.text[start:end], True)!r}", "dim"))
            for context in contexts:
                score = "" if context.score is None else f" {context.score:.2f}"
                place = "before" if context.before else "after"
                self._lines.print(Text(f"    {place}{score}: {visible(context.text, True)}", "dim"))

    def _read(self, document: Document) -> list[tuple[tuple[int, int], tuple[Context, ...]]]:
        read = self._pipeline.with_contexts(document)
        return list(zip(read.sentences or (), read.sentence_contexts or (), strict=False))


class ShownNames:
    """Texts that are each the name of an entity.

    Args:
        scores: show probabilities and scores, which rows have anyway.
        candidates: show those of each text, too.
    """

    def __init__(self, output: TextIO, scores: bool, candidates: bool) -> None:
        self._lines = Lines(output)
        self._scores, self._candidates = scores, candidates
        self._mentions = self._linked = 0

    @property
    def counts(self) -> dict[str, Any]:
        """Of all rows so far."""
        return {"mentions": self._mentions, "linked": self._linked}

    def row(self, answer: Answer) -> dict[str, Any]:
        """The answer as `rayner standardize` writes it."""
        self._mentions += 1
        self._linked += answer.entity_id is not None
        return answer.to_row()

    def show(self, answer: Answer) -> None:
        """Print the text and its entity, and below it the candidates."""
        row = answer.to_row()
        entity = NIL if answer.entity_id is None else f"{answer.entity_id} {row['name']}"
        if self._scores and answer.probability is not None:
            entity += f" {answer.probability:.2f}"
        text = Text(f"[{visible(answer.text, True)}](", f"bold {COLOURS[0]}")
        self._lines.print(text.append(f"{visible(entity, True)})"))
        for candidate in answer.candidates if self._candidates else ():
            score = f"{candidate.score:.2f} " if self._scores else ""
            shown = visible(f"{candidate.entity_id} {candidate.name}", True)
            self._lines.print(Text(f"  {score}{shown}", "dim"))
