"""A driver to kill: `annotate_driver.py INPUT OUT PIDS GATE WORKERS`."""

from __future__ import annotations

import sys
from pathlib import Path

import ray

from rayner.runtime.annotation import input_shards
from rayner.runtime.annotation.annotate import annotate
from tests.runtime.annotation.annotate_model import Capitals

if __name__ == "__main__":
    given, out, pids, gate, workers = sys.argv[1:]
    ray.init()
    # As the fixture `small_blocks`.
    input_shards.LEAST_BLOCK = 2**12
    # Two blocks and a half of 21.
    model = Capitals(gate=Path(gate), pids=Path(pids), batches=20)
    least, _, most = workers.partition("-")
    pool = {"max_workers": int(most)} if most else {"workers": int(least)}
    print(annotate(model, [given], out, cpus=1.0, **pool))
