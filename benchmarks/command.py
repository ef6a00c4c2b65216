"""How a benchmark ends where the user can correct what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rayner.errors import RaynerError


def call_main(main: Callable[[], None]) -> None:
    """Call `main`; in place of a traceback, one line and the exit status of the `rayner` command."""
    try:
        main()
    except RaynerError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
