"""Search settings: `python -m jobs.tune` takes the arguments of `rayner tune`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["tune", *sys.argv[1:]])
