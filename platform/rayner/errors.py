"""The errors that a user can act on: each says where, what, and what to do."""

from __future__ import annotations


class RaynerError(Exception):
    """Anything that rayner itself reports. The CLI prints it as one line and exits with `exit_status`."""

    exit_status = 1


class InputError(RaynerError):
    """Something that the user gave and can mend.

    Args:
        where: the place: `file:line`, a field, a row.
        what: what is wrong there.
        cure: what to do about it.
    """

    exit_status = 2

    def __init__(self, where: str, what: str, cure: str = "") -> None:
        self.where, self.what, self.cure = where, what, cure
        super().__init__(f"{where}: {what}" + (f"; {cure}" if cure else ""))

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (self.where, self.what, self.cure)


class RecipeError(InputError):
    """A recipe, or a recipe beside the run that it is to resume."""


class CorpusError(InputError):
    """A corpus or a document of it."""


class FileError(InputError):
    """A file that cannot be read, whatever is in it: no fault of a document, and never a reject."""


class CheckpointError(InputError):
    """A checkpoint folder that cannot be used as it is."""


class KnowledgeBaseError(InputError):
    """A knowledge base or an entity of it."""


class DivergedError(InputError):
    """A training whose loss is no finite number any more."""


class IndexFolderError(InputError):
    """An index folder that cannot be used as it is."""
