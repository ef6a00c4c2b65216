"""A spaCy component: `nlp.add_pipe("rayner", config={"checkpoint": "RUN/best"})`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import filter_spans, minibatch

from rayner.data.schema import Document, Mention, mention_from_row, mention_to_row
from rayner.errors import InputError
from rayner.files.fetching import local
from rayner.files.folders import replace_folder

if TYPE_CHECKING:
    from rayner.tasks.stages import Pipeline, PipelineSettings

SETTINGS = "rayner.json"
ROWS = "rayner"
"""Where documents and their groups of spans have what is known of each mention."""


class RaynerComponent:
    """Finds mentions in spaCy documents, whose tokens are the words: mentions begin and end at tokens.

    `doc.spans[spans_key]` has all mentions, `doc.ents` those of which no two overlap, the longest and first,
    both with the entity as `kb_id_`. All that is known of each (scores, fine types, candidates) is in
    `doc.spans[spans_key].attrs["rayner"]`, in their order, and in `doc.user_data["rayner"]`, where the last
    such component puts its own. A model that reads other words than spaCy's tokens may find a part of one:
    its offsets are there, the whole token in the others. Entities that components before it have set stay,
    and no mention that overlaps one comes into `doc.ents`. A model that finds no mentions itself is given
    those of such a component before it, of the same `spans_key`, and the others of `doc.ents`.

    Args:
        checkpoint: a folder such as `RUN/best`, or a pipeline file; it is loaded when the first document
            comes.
        options: as for `rayner.load`.
        device: as for `rayner.load`.
        spans_key: where in `doc.spans`; None for nowhere.
        ents: whether `doc.ents` is set.
    """

    def __init__(
        self,
        checkpoint: str,
        options: Mapping[str, Any],
        device: str | None,
        spans_key: str | None,
        ents: bool,
    ) -> None:
        self.checkpoint, self.options, self.device = checkpoint, options, device
        self.spans_key, self.ents = spans_key, ents
        self._settings: PipelineSettings | None = None
        self._pipeline: Pipeline | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the models: each process of `nlp.pipe(n_process=2)` loads them when its first document
        comes."""
        return {**vars(self), "_pipeline": None}

    @property
    def settings(self) -> PipelineSettings:
        """The checkpoints and what is asked of them.

        Raises:
            CheckpointError: there is none.
            InputError: a checkpoint that takes no documents, or an option that its task does not have.
        """
        from rayner.tasks.stages import read_pipeline

        if self._settings is None:
            found = read_pipeline(self.checkpoint, self.options)
            if not found.answers_documents:
                hint = "name a recognizer, a tagger, a typer or a pipeline file"
                raise InputError(self.checkpoint, "takes no documents", hint)
            self._settings = found
        return self._settings

    def __call__(self, doc: Doc) -> Doc:
        """The document with its mentions."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """The documents with their mentions, in order; a batch is read together."""
        settings = self.settings
        self._pipeline = self._pipeline or settings.pipeline(self.device)
        for docs in minibatch(stream, batch_size):
            given = [self._document(str(number), doc) for number, doc in enumerate(docs)]
            for doc, found in zip(docs, self._pipeline.predict(given), strict=True):
                self._set(doc, found.mentions)
                yield doc

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Copy the checkpoints, and what options name, so that the folder can be moved."""
        from rayner.tasks.contexts.rankers import save_ranker

        settings = self.settings

        def write(folder: Path) -> None:
            stages = []
            for number, stage in enumerate(settings.stages):
                options = stage.options.model_dump(mode="json")
                sources = {name: getattr(stage.options, name) for name in stage.options.paths()}
                for name, source in {"checkpoint": stage.checkpoint, **sources}.items():
                    source = local(source)
                    # How a file is read may go by the end of its name.
                    options[name] = f"{number}-{name}{'' if source.is_dir() else source.suffix}"
                    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / options[name])
                if stage.context is not None:
                    options["context"] = stage.context.model_dump(mode="json")
                    if stage.context.place is not None:
                        options["context"]["ranker"] = f"{number}-ranker"
                        save_ranker(stage.context.place, folder / f"{number}-ranker")
                stages.append(options)
            content = {"is_file": settings.is_file, "stages": stages, "asked": self.options}
            (folder / SETTINGS).write_text(json.dumps(content, indent=1), encoding="utf-8")

        folder = Path(path).absolute()
        if folder.exists() and not (folder / SETTINGS).exists() and any(folder.iterdir()):
            raise InputError(str(folder), "holds something other than a component", "name another folder")
        replace_folder(folder, write)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> RaynerComponent:
        """Read what `to_disk` wrote.

        Raises:
            InputError: `spacy.load` was given other options than those that it was written with.
        """
        from rayner.tasks.checkpoint import read_recipe
        from rayner.tasks.registry import task_of
        from rayner.tasks.stage_contexts import read_stage_contexts
        from rayner.tasks.stage_settings import StageSettings
        from rayner.tasks.stages import PipelineSettings

        folder = Path(path).absolute()
        content = json.loads((folder / SETTINGS).read_text("utf-8"))
        asked = json.loads(json.dumps(self.options))
        if asked and asked != content.get("asked", asked):
            what = f"{json.dumps(asked)} are not the options that it was saved with"
            hint = 'leave them out, or add the component anew: `nlp.add_pipe("rayner", config={...})`'
            raise InputError(str(folder), what, hint)
        stages = []
        for number, values in enumerate(content["stages"]):
            checkpoint = folder / values.pop("checkpoint")
            recipe = read_recipe(checkpoint)
            given = values.pop("context", None)
            context = given and read_stage_contexts(given, "context", folder, recipe)
            options = task_of(recipe).options.of(values, recipe.task).rooted(folder)
            stages.append(
                StageSettings(checkpoint, options, context, f"{folder / SETTINGS}: stages.{number}")
            )
        self._settings, self._pipeline = PipelineSettings(tuple(stages), content["is_file"]), None
        return self

    def _document(self, document_id: str, doc: Doc) -> Document:
        """The spaCy document as ours; ids are only told apart within a batch."""
        words = tuple((t.idx, t.idx + len(t)) for t in doc if not t.is_space)
        sentences = None
        if doc.has_annotation("SENT_START"):
            sentences = tuple((sentence.start_char, sentence.end_char) for sentence in doc.sents)
        mentions = () if self.settings.finds_mentions else self._mentions_in(doc)
        return Document(document_id, doc.text, tuple(mentions), words, sentences, doc.lang_ or None)

    def _mentions_in(self, doc: Doc) -> list[Mention]:
        """Those that such a component has found, and the entities that are none of them."""
        key = self.spans_key
        group = doc.spans[key] if key is not None and key in doc.spans else ()
        kept = {*map(_place, group)}
        rows = group.attrs.get(ROWS, ()) if isinstance(group, SpanGroup) else ()
        placed = [(mention, _place(_span(doc, mention))) for mention in map(mention_from_row, rows)]
        found = [mention for mention, place in placed if place in kept]
        known = kept.intersection(place for _, place in placed)
        others = [entity for entity in doc.ents if _place(entity) not in known]
        found += [Mention(e.start_char, e.end_char, e.label_, e.kb_id_ or None) for e in others]
        return sorted(found, key=lambda mention: (mention.start, -mention.end))

    def _set(self, doc: Doc, mentions: Sequence[Mention]) -> None:
        spans = [_span(doc, mention) for mention in mentions]
        rows = [mention_to_row(mention) for mention in mentions]
        if self.spans_key is not None:
            doc.spans[self.spans_key] = SpanGroup(doc, name=self.spans_key, spans=spans, attrs={ROWS: rows})
        if self.ents:
            earlier = {*map(_place, doc.ents)}
            if not self.settings.finds_mentions and earlier:
                # With what each of them was given; a mention that was no entity is none now.
                doc.set_ents(filter_spans([span for span in spans if _place(span) in earlier]))
            else:
                # Mentions that do not overlap may, once they are widened to tokens.
                taken = {token for entity in doc.ents for token in range(entity.start, entity.end)}
                free = [one for one in spans if taken.isdisjoint(range(one.start, one.end))]
                doc.set_ents([*doc.ents, *filter_spans(free)])
        doc.user_data[ROWS] = rows


@Language.factory(
    "rayner",
    assigns=["doc.ents", "doc.spans"],
    default_config={"options": {}, "device": None, "spans_key": "sc", "ents": True},
)
def make(
    nlp: Language,
    name: str,
    checkpoint: str,
    options: dict[str, Any],
    device: str | None,
    spans_key: str | None,
    ents: bool,
) -> RaynerComponent:
    """The component, for spaCy's registry."""
    return RaynerComponent(checkpoint, options, device, spans_key, ents)


def _place(span: Span) -> tuple[int, int, str]:
    return span.start, span.end, span.label_


def _span(doc: Doc, mention: Mention) -> Span:
    kb_id = mention.entity_id or ""
    span = doc.char_span(mention.start, mention.end, mention.type, kb_id, alignment_mode="expand")
    assert span is not None
    return span
