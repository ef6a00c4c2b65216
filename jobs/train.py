"""Train a recipe: `python -m jobs.train` takes the arguments of `rayner train`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
