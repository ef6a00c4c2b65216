"""The folder of a run: the one that a command fills, and where a run goes that names none."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote

from rayner.errors import CorpusError, InputError
from rayner.files.run_checkpoints import SWEEP
from rayner.files.uris import uri_of, written_to

TRIALS = "trials"
"""The trials of a sweep, in its folder."""
REPORT = "report.html"
"""The page of a run, an evaluation or a sweep, in its folder."""
STORAGE_VARIABLE = "RAYNER_STORAGE"
_JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"


def check_out(out: Path) -> None:
    """Find out before any work whether a command can fill this folder.

    Raises:
        InputError: it is a file, or lies below one.
    """
    for path in (out, *out.parents):
        if path.exists():
            if not path.is_dir():
                where = f"--out {out}"
                what = "is a file" if path == out else f"lies below {path}, which is a file"
                raise InputError(where, what, "name a folder")
            return


def check_writable(out: Path) -> None:
    """`check_out`, and that this process may write there.

    Raises:
        InputError: it may not, or as `check_out`.
    """
    check_out(out)
    above = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"--out {out}", f"{above} cannot be written", "name a folder that can be written")


def check_own(out: Path, marks: Iterable[Collection[str]], names: Iterable[str]) -> None:
    """Refuse a folder in which a run would write over, or remove, files of somebody else.

    Args:
        marks: files that together tell that an earlier run of the kind has had the folder.
        names: what a run of the kind writes there, or removes.

    Raises:
        InputError: it holds some of these, and no mark.
    """
    if any(all((out / name).exists() for name in mark) for mark in marks):
        return
    others = sorted(name for name in names if _holds_something(out / name))
    if others:
        what = f"holds files that no run of rayner left and one would replace: {', '.join(others)}"
        raise InputError(f"--out {out}", what, "name another folder")


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists() and path.stat().st_size > 0


def check_no_training(out: Path) -> None:
    """Refuse the folder of a training to a sweep: each has a `result.json` there. One that holds both stays.

    Raises:
        InputError: it holds the run of a training.
    """
    if _is_of_a_training(out) and not _is_of_a_sweep(out):
        raise InputError(f"--out {uri_of(out) or out}", "holds the run of a training", "name another folder")


def check_no_sweep(out: Path, at_uri: bool) -> None:
    """The same the other way round. The mark of a sweep that was refused before its first trial goes.

    Args:
        at_uri: whether the trials of a sweep would lie elsewhere.

    Raises:
        InputError: it holds a sweep.
    """
    if not _is_of_a_sweep(out) or _is_of_a_training(out):
        return
    if at_uri or any((out / TRIALS).glob("*")):
        raise InputError(f"--out {uri_of(out) or out}", "holds a sweep", "name another folder")
    (out / SWEEP).unlink()


# With these come pyarrow, and `rayner --help` imports this module.
def _is_of_a_training(out: Path) -> bool:
    from rayner.files.fetching import is_there
    from rayner.files.run_checkpoints import BEST, LAST, MANIFEST

    return is_there(out / LAST / MANIFEST) or is_there(out / BEST / MANIFEST)


def _is_of_a_sweep(out: Path) -> bool:
    from rayner.files.fetching import is_there

    return is_there(out / SWEEP) if uri_of(out) is not None else has_sweep(out)


def has_sweep(out: Path) -> bool:
    """Whether a folder has the mark of a sweep: other tools write a file of that name, too, yet no trials."""
    try:
        found = json.loads((out / SWEEP).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValueError:
        # One of ours that is damaged is told so.
        return True
    is_ours = isinstance(found, dict) and {"recipe", "settings"} <= found.keys()
    return is_ours or any((out / TRIALS).glob("*"))


def check_apart(inputs: Iterable[str | Path], out: str | Path, written: Iterable[str] | None = None) -> None:
    """Refuse an output among the inputs, or around one: a second run would read the first one's results.

    As they are written: nothing is fetched, and no storage is asked.

    Args:
        inputs, out: files and folders, or URIs.
        written: the names in `out` that are written to, and among which no input may be; None is all.

    Raises:
        CorpusError: `out` holds an input, or lies in one.
    """
    place, shown = comparable(out), f"--out {uri_of(out) or out}"
    places = [place] if written is None else [place / name for name in written]
    for given in inputs:
        what, other = uri_of(given) or given, comparable(given)
        if any(map(other.is_relative_to, places)):
            raise CorpusError(shown, f"holds the input {what}", "name another folder")
        if place.is_relative_to(other):
            raise CorpusError(shown, f"lies in the input {what}", "name a folder outside")


def comparable(path: str | Path) -> PurePath:
    """What can be compared: links are followed, names decoded, and both names of Google's storage are one."""
    uri = uri_of(path)
    if uri is None:
        return Path(path).resolve()
    scheme, _, rest = uri.partition("://")
    return PurePosixPath(f"{'gs' if scheme == 'gcs' else scheme}://{unquote(rest)}")


def run_folder(name: str) -> Path:
    """`runs/NAME` below the folder that RAYNER_STORAGE names, else below the current one.

    The current folder of a Ray job is a copy of what was submitted: each node has its own, and Ray removes
    it. A job without storage writes below `~/rayner`, which does for a cluster of one machine.
    """
    return Path(storage_folder()) / "runs" / name


def storage_folder() -> str:
    """What RAYNER_STORAGE names, else the current folder or, in a job, `~/rayner`.

    Raises:
        InputError: a URI at which nothing can be written.
    """
    if storage := written_to(STORAGE_VARIABLE):
        return storage
    return str(Path.home() / "rayner") if _JOB_VARIABLE in os.environ else "."
