"""What a caller may ask of a predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from rayner.config import Settings
from rayner.config.recipe_files import explain
from rayner.errors import InputError
from rayner.files.uris import without_file_scheme


class Options(Settings):
    """What a caller may ask of a predictor: each task has its own; without any there is nothing to ask."""

    @classmethod
    def of(cls, values: Mapping[str, Any], task: str) -> Options:
        """The options in plain values; those that are None were not asked for.

        Raises:
            InputError: an option that the task does not have, with the nearest that it has, or a value that
                is empty or of the wrong kind.
        """
        given = {name: value for name, value in values.items() if value is not None}
        # An empty path would be the working directory.
        for name, value in given.items():
            if isinstance(value, str) and not value:
                raise InputError(name, "is empty", "give a value, or leave it out")
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            found = explain(error, cls, "options")
            where = found.where.removeprefix("options: ")
            if found.what == "unknown key" and "." not in where:
                known = ", ".join(cls.model_fields)
                hint = f"its options are {known}" if known else "it has none: leave it out"
                raise InputError(where, f"is no option of a {task}", hint) from None
            raise InputError(where, found.what, found.hint) from None

    @property
    def asked_types(self) -> Sequence[Any] | None:
        """The option `types`: types or their names; None where none are asked for, or there is no such."""
        return getattr(self, "types", None)

    @property
    def asked_shift(self) -> float | None:
        """The option `shift`; None where there is no such."""
        return getattr(self, "shift", None)

    def paths(self) -> set[str]:
        """The names of the options that are files or folders."""
        return {name for name in type(self).model_fields if isinstance(getattr(self, name), Path)}

    def rooted(self, folder: Path) -> Self:
        """The options with paths that count from the folder as absolute ones."""
        given = {name: without_file_scheme(getattr(self, name)) for name in self.paths()}
        return self.model_copy(update={name: folder / path for name, path in given.items()})

    def versions(self) -> list[str]:
        """What tells the files that are named from any others, beside the checkpoint's version."""
        return []
