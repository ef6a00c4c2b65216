"""Score a checkpoint: `python -m jobs.evaluate` takes the arguments of `rayner evaluate`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["evaluate", *sys.argv[1:]])
