"""Write a run's report: `python -m jobs.report` takes the arguments of `rayner report`."""

from __future__ import annotations

import sys

from rayner.cli.job import main

if __name__ == "__main__":
    main(["report", *sys.argv[1:]])
