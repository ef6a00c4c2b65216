"""Convert, check, label, resolve a corpus: `python -m jobs.corpus` takes the arguments of `rayner corpus`."""

from __future__ import annotations

import sys

from rayner.cli import main

if __name__ == "__main__":
    main(["corpus", *sys.argv[1:]])
