"""Link the mentions of a file: `python -m jobs.standardize` takes the arguments of `rayner standardize`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["standardize", *sys.argv[1:]])
