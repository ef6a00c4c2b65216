"""The formats by name, in the order in which `--format auto` tries them: the more telling first."""

from __future__ import annotations

from functools import partial
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
from rayner.data.readers.files import each_file


def _format(module: ModuleType) -> Format:
    name = module.__name__.rpartition(".")[2]
    units = getattr(module, "units", partial(each_file, name))
    return Format(name, module.matches, units, module.read, getattr(module, "parts", None))


FORMATS: dict[str, Format] = {
    module.__name__.rpartition(".")[2]: _format(module)
    for module in (
        *(huggingface, parquet, docbin, bioc, ufet, figer, label_studio, prodigy, doccano, gliner),
        *(jsonl, brat, livingner, ontonotes_fet, pubtator),
        *(coreference, litbank, columns, text),
    )
}
