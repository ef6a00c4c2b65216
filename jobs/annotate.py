"""Annotate whole corpora: `python -m jobs.annotate` takes the arguments of `rayner annotate`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["annotate", *sys.argv[1:]])
