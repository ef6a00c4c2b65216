"""The formats by name, in the order in which `--format auto` tries them: the more telling first."""

from __future__ import annotations

from types import ModuleType

from rayner.data.readers import (
    bioc,
    brat,
    columns,
    coreference,
    docbin,
    doccano,
    figer,
    gliner,
    huggingface,
    jsonl,
    label_studio,
    litbank,
    livingner,
    ontonotes_fet,
    parquet,
    prodigy,
    pubtator,
    text,
    ufet,
)
from rayner.data.readers.base import Format


def _format(module: ModuleType) -> Format:
    name = module.__name__.rpartition(".")[2]
    return Format(name, module.matches, module.units, module.read, getattr(module, "parts", None))


FORMATS: dict[str, Format] = {
    module.__name__.rpartition(".")[2]: _format(module)
    for module in (
        *(huggingface, parquet, docbin, bioc, ufet, figer, label_studio, prodigy, doccano, gliner),
        *(jsonl, brat, livingner, ontonotes_fet, pubtator),
        *(coreference, litbank, columns, text),
    )
}
