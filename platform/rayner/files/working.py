"""Where a command works that is given an `--out`: there, or here for a URI, where it is put in place."""

from __future__ import annotations

import _thread
import logging
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rayner.errors import InputError, RaynerError, StorageError
from rayner.files.fetching import Found, copy_some, storage_failure, what_is_at
from rayner.files.locks import LOCK, locked
from rayner.files.manifests import MANIFEST, OBJECTS
from rayner.files.places import place_of
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.uris import uri_of
from rayner.files.whole import text_file, told_of

_SHOWN = 5

log = logging.getLogger(__name__)


@contextmanager
def worked_on(
    out: Path,
    doing: str,
    fresh: bool = False,
    seconds: float = 0,
    keeps: bool = True,
    written: Collection[str] | None = None,
    takes_up: Callable[[str], bool] | None = None,
) -> Generator[tuple[Path, Publication | None]]:
    """The folder to work in for an `--out`, and what puts it in place where that is a URI.

    It is put in place when the work is done; who works for long puts it in place between times too.

    Args:
        doing: what a process does with it: `trains in this folder`.
        fresh: whether the work starts over, so that a file which is lost at the URI is no error.
        seconds: how long to wait for another process of this machine that works there.
        keeps: whether what is put in place stays on this machine, too.
        written: the names in `out` that the work writes; None is all. Where one of them lies at the URI that
            no command put in place, it would be hidden, and the place is refused.
        takes_up: which names are worked on, and put in place, instead, where they lie there so.

    Raises:
        InputError, StorageError: at a URI, as `check_no_file`; or of what would be hidden.
    """
    uri = uri_of(out)
    if uri is None:
        yield Path(out), None
        return
    publication = Publication(uri)
    plain = _plain_names(check_no_file(uri))
    if takes_up is None:
        _check_hidden(uri, plain, written)
    else:
        _check_hidden(uri, {name for name in plain if not takes_up(name)}, ())
    with named_by_uri(publication), locked(publication.folder.parent / LOCK, doing, seconds):
        if takes_up is not None and any(map(takes_up, plain)):
            _take_up(publication, takes_up)
        publication.open(fresh)
        try:
            yield publication.folder, publication
            publication.push()
        finally:
            if not keeps:
                shutil.rmtree(publication.folder, ignore_errors=True)


def _plain_names(found: Found | None) -> set[str]:
    """The names in a folder at a URI that no command put in place."""
    if found is None or found.write is not None:
        return set()
    # A folder below with a manifest of its own stays readable by it.
    apart = tuple(name.removesuffix(MANIFEST) for name in found.entries if name.endswith(f"/{MANIFEST}"))
    # What a writer has left that was killed before its first manifest is its own.
    return {name.partition("/")[0] for name in found.entries if not name.startswith(apart)} - {OBJECTS}


def _check_hidden(uri: str, plain: set[str], written: Collection[str] | None) -> None:
    hidden = plain if written is None else plain.intersection(written)
    if hidden:
        what = f"holds {min(hidden)!r}, which no command put in place there and this one would hide"
        raise InputError(uri, what, "name another folder, or move it away")
    if plain:
        names = ", ".join(sorted(plain)[:_SHOWN])
        log.warning("%s: what else lies there is read by its own name alone from now on: %s", uri, names)


def _take_up(publication: Publication, takes_up: Callable[[str], bool]) -> None:
    """Put in place what other tools put at a URI; their objects stay."""
    shutil.rmtree(publication.folder, ignore_errors=True)
    publication.folder.mkdir(parents=True)
    folder = publication.folder
    copy_some(publication.uri, folder, lambda name: takes_up(name.partition("/")[0]), passing_in=folder)
    publication.put_first(publication.folder)
    log.warning("%s: was put there by other tools; their objects are not read any more", publication.uri)


def check_no_file(uri: str) -> Found | None:
    """Refuse a URI for a folder where an object lies, which would be taken for the folder. Returns what else
    lies there.

    Raises:
        InputError: an object lies there.
        StorageError: the storage cannot be used.
    """
    found = what_is_at(place_of(uri))
    if found is not None and found.is_file:
        raise InputError(uri, "is a file", "name a folder")
    return found


def check_no_folder(out: Path) -> None:
    """Refuse an `--out` for a file where a folder lies, before the work.

    Raises:
        InputError: a folder lies there.
        StorageError: the storage cannot be used.
    """
    uri, found = uri_of(out), None
    # Who may write and not read is told nothing here; what is denied is said by the write.
    with suppress(InputError):
        found = what_is_at(place_of(uri)) if uri is not None else None
    if out.is_dir() or (found is not None and not found.is_file):
        raise InputError(f"--out {uri or out}", "is a folder", f"name a file in it, such as {out.name}/FILE")


@contextmanager
def named_by_uri(publication: Publication | None) -> Generator[None]:
    """What is wrong in the folder that is worked in is told of the URI, which the user knows."""
    try:
        yield
    except (InputError, StorageError) as error:
        if publication is None:
            raise
        told = list(error.__reduce__()[1])
        # Its lock lies beside it.
        for folder in (publication.folder, publication.folder.parent):
            told = [text.replace(str(folder), publication.uri) for text in told]
        if told != [*error.__reduce__()[1]]:
            raise type(error)(*told) from error
        raise


@contextmanager
def file_at(out: Path) -> Generator[Path]:
    """The file to write for an `--out`: there, or here for a URI, where it is put in place when it is whole.

    Raises:
        InputError: at the URI lies a folder.
        InputError, StorageError: the storage cannot be used.
    """
    uri = uri_of(out)
    if uri is None:
        yield Path(out)
        return
    check_no_folder(out)
    with TemporaryDirectory() as folder:
        path = Path(folder) / uri.rpartition("/")[2]
        yield path
        try:
            place_of(uri).copy_from(path)
        except OSError as error:
            raise storage_failure(uri, error, "cannot be written to") from None


def write_lines(out: Path, lines: Iterable[str]) -> int:
    """Write lines to the file of an `--out`, whole or not at all; how many.

    Raises:
        InputError: it cannot be written, or as `file_at`.
        Exception: whatever making the lines raises.
    """
    written = 0
    telling = partial(told_of, f"--out {out}", "name a file that can be")
    with ExitStack() as opened:
        with telling():
            file = opened.enter_context(text_file(opened.enter_context(file_at(out))))
        # What making a line raises is not of the output.
        for line in lines:
            try:
                with telling():
                    file.write(f"{line}\n")
            except InputError:
                # What is left in the file cannot be written either.
                with suppress(OSError):
                    opened.__exit__(*sys.exc_info())
                raise
            written += 1
        with telling():
            opened.close()
    return written


@contextmanager
def kept_in_place(
    out: Path, doing: str, seconds: float = 60, fresh: bool = False, written: Collection[str] | None = None
) -> Generator[tuple[Path, Publication | None]]:
    """As `worked_on`, for a folder that is written for long.

    Args:
        seconds: how often it is put in place meanwhile.
        fresh, written: as `worked_on`.

    Raises:
        TakenOverError: another process took the place over; the work was interrupted.
    """
    with (
        worked_on(out, doing, fresh, written=written) as (folder, publication),
        _interruptible() as interrupt,
    ):
        if publication is None:
            yield folder, None
            return
        over, lost = threading.Event(), list[TakenOverError]()

        def push_now_and_then() -> None:
            while not over.wait(seconds):
                try:
                    publication.push()
                except TakenOverError as error:
                    lost.append(error)
                    interrupt()
                    return
                except Exception as error:
                    # Whatever a library raises: without this thread nothing would be put in place any more.
                    log.warning("%s is not put in place now, but later (%s)", publication.uri, error)

        thread = threading.Thread(target=push_now_and_then, daemon=True)
        thread.start()
        try:
            yield folder, publication
            over.set()
            # The interruption may come when the work is done, and the thread is not.
            thread.join()
            if lost:
                raise lost[0]
        except BaseException as error:
            over.set()
            thread.join()
            if lost:
                raise lost[0] from None
            with suppress(RaynerError):
                publication.push()
            raise error


@contextmanager
def _interruptible() -> Generator[Callable[[], None]]:
    """What interrupts the work in the main thread, also of a process that ignores Ctrl-C, as those do which a
    script starts in the background."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):
        yield _thread.interrupt_main
        return
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR2, signal.default_int_handler)
    try:
        yield lambda: signal.pthread_kill(main, signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)


def shown_at(given: Path, folder: Path, value: Any) -> Any:
    """Plain values, in which paths of the folder that was worked in are those of the one that was given."""
    uri = uri_of(given)
    if uri is None:
        return value
    if isinstance(value, str):
        return value.replace(str(folder), uri) if value.startswith(str(folder)) else value
    if isinstance(value, Mapping):
        return {name: shown_at(given, folder, one) for name, one in value.items()}
    return [shown_at(given, folder, one) for one in value] if isinstance(value, list) else value
