"""Show what is usable on a cluster: `python -m jobs.doctor` takes the arguments of `rayner doctor`."""

from __future__ import annotations

import sys

from rayner.cli import main

if __name__ == "__main__":
    main(["doctor", *sys.argv[1:]])
