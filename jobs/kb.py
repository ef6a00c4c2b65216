"""Convert or check a knowledge base: `python -m jobs.kb` takes the arguments of `rayner kb`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["kb", *sys.argv[1:]])
