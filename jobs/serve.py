"""Serve over HTTP: `python -m jobs.serve` takes the arguments of `rayner serve`."""

from __future__ import annotations

import sys

from rayner.cli import main

if __name__ == "__main__":
    main(["serve", *sys.argv[1:]])
