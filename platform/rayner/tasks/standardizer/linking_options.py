"""What a caller may ask of a standardizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from rayner.config.standardizer import NilShare
from rayner.retrieval.index_folder import version_of_index
from rayner.tasks.predictor_options import Options
from rayner.tasks.standardizer.predictor import TOP_K, NilChoice


def _name(value: Any) -> Any:
    # `--types` brings types with their descriptions, as one looks for them.
    if not isinstance(value, str):
        what = (
            "is no name of a type; a standardizer looks for no types, and links the mentions of those named"
        )
        raise ValueError(what)
    return value


class StandardizerOptions(Options):
    """What a caller may ask of a standardizer.

    `index`: the folder of the index to answer from; by default the recipe's knowledge base. `top_k`:
    candidates an answer. `operating_point`: when an answer is NIL; by default `accuracy` where the checkpoint
    has a calibration; `never` gives the first candidate however improbable. `nil_share`: how many of the
    mentions to come have no entity; by default as the recipe says. `types`: of the mentions of a document,
    those that are linked; by default all.
    """

    index: Path | None = None
    top_k: Annotated[int, Field(ge=1)] = TOP_K
    operating_point: NilChoice | None = None
    nil_share: NilShare | None = None
    types: Annotated[tuple[Annotated[str, BeforeValidator(_name)], ...], Field(min_length=1)] | None = None

    def versions(self) -> list[str]:
        """That of the index."""
        return [] if self.index is None else [f"index-{version_of_index(self.index)}"]
