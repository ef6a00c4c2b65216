"""Where a command works that is given an `--out`: there, or here for a URI, where it is put in place."""

from __future__ import annotations

import _thread
import logging
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rayner.errors import InputError, RaynerError, StorageError
from rayner.files.fetching import storage_failure, what_is_at
from rayner.files.locks import LOCK, locked
from rayner.files.places import place_of
from rayner.files.publishing import Publication, TakenOverError
from rayner.files.uris import uri_of

log = logging.getLogger(__name__)


@contextmanager
def worked_on(
    out: Path, doing: str, fresh: bool = False, seconds: float = 0, keeps: bool = True
) -> Generator[tuple[Path, Publication | None]]:
    """The folder to work in for an `--out`, and what puts it in place where that is a URI.

    It is put in place when the work is done; who works for long puts it in place between times too.

    Args:
        doing: what a process does with it: `trains in this folder`.
        fresh: whether the work starts over, so that a file which is lost at the URI is no error.
        seconds: how long to wait for another process of this machine that works there.
        keeps: whether what is put in place stays on this machine, too.

    Raises:
        InputError, StorageError: at a URI, as `check_no_file`.
    """
    uri = uri_of(out)
    if uri is None:
        yield Path(out), None
        return
    publication = Publication(uri)
    check_no_file(uri)
    with named_by_uri(publication), locked(publication.folder.parent / LOCK, doing, seconds):
        publication.open(fresh)
        try:
            yield publication.folder, publication
            publication.push()
        finally:
            if not keeps:
                shutil.rmtree(publication.folder, ignore_errors=True)


def check_no_file(uri: str) -> None:
    """Refuse a URI for a folder where an object lies, which would be taken for the folder.

    Raises:
        InputError: an object lies there.
        StorageError: the storage cannot be used.
    """
    found = what_is_at(place_of(uri))
    if found is not None and found.is_file:
        raise InputError(uri, "is a file", "name a folder")


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


@contextmanager
def kept_in_place(
    out: Path, doing: str, seconds: float = 60, fresh: bool = False
) -> Generator[tuple[Path, Publication | None]]:
    """As `worked_on`, for a folder that is written for long.

    Args:
        seconds: how often it is put in place meanwhile.
        fresh: as `worked_on`.

    Raises:
        TakenOverError: another process took the place over; the work was interrupted.
    """
    with worked_on(out, doing, fresh) as (folder, publication), _interruptible() as interrupt:
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
