"""Serve over HTTP: `python -m jobs.serve` takes the arguments of `rayner serve`.

As a job, it serves as long as the job runs, beside what else the cluster serves: `--name` and
`--route-prefix` tell two applications apart.
"""

from __future__ import annotations

import sys

from rayner.cli import main

if __name__ == "__main__":
    main(["serve", *sys.argv[1:]])
