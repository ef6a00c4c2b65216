"""`python -m rayner` is the `rayner` command."""

from __future__ import annotations

from rayner.cli.app import main

if __name__ == "__main__":
    main()
