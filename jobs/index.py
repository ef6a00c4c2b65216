"""Build, change or list an index: `python -m jobs.index` takes the arguments of `rayner index`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["index", *sys.argv[1:]])
