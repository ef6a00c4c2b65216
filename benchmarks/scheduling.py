"""What it costs to schedule a block, by the number of actors and of blocks; no block is worked on.

Nodes are raylets of this machine that claim CPUs, and the pipeline has the shape of `rayner annotate`: tasks
without a CPU stream blocks, a pool of actors takes them, counts come back. The actors predict nothing. On two
cores the wall time is that of the actors too; so what counts is the CPU time of the driver, where Ray Data's
scheduler runs, and of the head node's processes: on a cluster these are one machine's, whatever the number of
nodes. The fit is `fixed + blocks * (block + actors * actor + round / actors)` by least squares: the scheduler
looks at each actor in every round, and a round that few actors feed handles few blocks.

    PYTHONPATH=platform python -m benchmarks.scheduling --json
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psutil
import pyarrow as pa
from scipy import stats

from benchmarks.figures import add_out, measured, record

READERS = 4
EXTRAPOLATED = (64, 256, 1024)
"""Numbers of actors that the fit is read at."""


class Times(NamedTuple):
    """Seconds: of CPU in the driver and in the processes of the head node, and on the clock."""

    driver: float
    head: float
    wall: float


class NoModel:
    """A model that predicts nothing."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        return pa.table({"bytes": [batch.nbytes]})


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="ry", ignore_cleanup_errors=True) as folder:
        cluster = _cluster(folder, options.nodes, options.cpus)
        try:
            rows = [
                measure(cluster, actors, blocks, options)
                for actors in options.actors
                for blocks in options.blocks
            ]
        finally:
            _stop(cluster)
    fits = {name: fit(rows, f"{name}_seconds") for name in ("driver", "head")}
    for name, fitted in fits.items():
        print(f"{name}: {json.dumps(fitted)}", file=sys.stderr)
    record(
        "scheduling",
        options.out,
        title="What it costs to schedule a block",
        section="Annotation",
        task="annotate",
        conditions="A simulation: a head and raylets on one machine, a model that predicts nothing.",
        rows=measured(rows, {key: "ms" for key in rows[0] if key.endswith("ms_per_block")}),
        notes=(_sentence(fits["driver"]),),
    )
    if options.json:
        print(json.dumps({"rows": rows, "fits": fits}))


def _sentence(fitted: Mapping[str, Any]) -> str:
    """What a fit says, with its intervals."""
    terms = [
        f"{middle:.2f} ({low:.2f} to {high:.2f}) for {words}"
        for name, words in (("block_ms", "a block"), ("actor_ms", "an actor"), ("round_ms", "a round"))
        for middle, low, high in [fitted[name]]
    ]
    blocks = [
        f"{middle:.0f} ({max(0.0, low):.0f} to {high:.0f}) with {actors} actors"
        for actors, (middle, low, high) in fitted["ms_per_block_at"].items()
    ]
    of_terms = f"The driver's fit, in ms with 95 % intervals: {', '.join(terms)}"
    return f"{of_terms}; so a block takes {', '.join(blocks)}."


def measure(cluster: Any, actors: int, blocks: int, options: argparse.Namespace) -> dict[str, float]:
    """`blocks` blocks through `actors` actors, from the first count that comes back to the last."""
    import ray

    def read(batch: pa.Table) -> Iterator[pa.Table]:
        for _ in range(batch["blocks"][0].as_py()):
            yield pa.table({"block": pa.array([bytes(options.block_bytes)], pa.large_binary())})

    shares = [{"blocks": int(part)} for part in np.diff(np.linspace(0, blocks, READERS + 1).astype(int))]
    counts = (
        ray.data.from_items(shares, override_num_blocks=READERS)
        .map_batches(
            read,
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=0,
            compute=ray.data.TaskPoolStrategy(size=READERS),
        )
        .map_batches(
            NoModel,
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
        )
        .iter_rows()
    )
    results = iter(counts)
    next(results)
    begin = _now(cluster)
    seen = 1 + sum(1 for _ in results)
    spent = Times(*(after - before for after, before in zip(_now(cluster), begin, strict=True)))
    assert seen == blocks, f"{seen} of {blocks} blocks came back"
    row = {
        "actors": actors,
        "blocks": blocks,
        "driver_seconds": round(spent.driver, 3),
        "head_seconds": round(spent.head, 3),
        "driver_ms_per_block": round(1000 * spent.driver / blocks, 3),
        "head_ms_per_block": round(1000 * spent.head / blocks, 3),
        "wall_ms_per_block": round(1000 * spent.wall / blocks, 3),
    }
    print("  ".join(f"{k} {v:g}" for k, v in row.items()), file=sys.stderr, flush=True)
    return row


def fit(rows: Sequence[Mapping[str, float]], key: str) -> dict[str, Any]:
    """The terms of the fit with 95 % intervals, and the milliseconds of a block at more actors."""
    design = np.array([[1.0, *(row["blocks"] * part for part in _of_block(row["actors"]))] for row in rows])
    seconds = np.array([row[key] for row in rows])
    # Long passes scatter more: the error is taken to grow with the number of blocks.
    weights = 1 / np.array([row["blocks"] for row in rows])
    scaled, target = design * weights[:, None], seconds * weights
    solution, *_ = np.linalg.lstsq(scaled, target, rcond=None)
    freedom = len(rows) - design.shape[1]
    variance = float(np.sum((target - scaled @ solution) ** 2)) / max(1, freedom)
    covariance = variance * np.linalg.inv(scaled.T @ scaled)
    reach = float(stats.t.ppf(0.975, max(1, freedom)))

    def per_block(actors: int) -> list[float]:
        at = np.array([0.0, *_of_block(actors)])
        middle, spread = float(at @ solution), reach * float(np.sqrt(at @ covariance @ at + variance))
        return [round(1000 * value, 3) for value in (middle, middle - spread, middle + spread)]

    names = ("fixed_seconds", "block_ms", "actor_ms", "round_ms")
    errors = reach * np.sqrt(np.diag(covariance))
    found = {
        name: [
            round(scale * float(v), 4)
            for v in (solution[i], solution[i] - errors[i], solution[i] + errors[i])
        ]
        for i, (name, scale) in enumerate(zip(names, (1, 1000, 1000, 1000), strict=True))
    }
    return found | {"ms_per_block_at": {str(actors): per_block(actors) for actors in EXTRAPOLATED}}


def _of_block(actors: float) -> tuple[float, float, float]:
    return 1.0, actors, 1 / actors


def _now(cluster: Any) -> Times:
    processes = [info.process.pid for infos in cluster.head_node.all_processes.values() for info in infos]
    times = [psutil.Process(pid).cpu_times() for pid in processes]
    return Times(time.process_time(), sum(t.user + t.system for t in times), time.perf_counter())


def _cluster(folder: str, nodes: int, cpus: int) -> Any:
    import ray
    from ray.cluster_utils import Cluster

    store = 200 * 2**20
    head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": folder, "object_store_memory": store}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(nodes):
        cluster.add_node(num_cpus=cpus, object_store_memory=store)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.target_max_block_size, context.enable_progress_bars = 1, False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return cluster


def _stop(cluster: Any) -> None:
    import ray

    ray.shutdown()
    cluster.shutdown()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--blocks", type=int, nargs="+", default=[200, 800])
    parser.add_argument("--nodes", type=int, default=4, help="beside the head")
    parser.add_argument("--cpus", type=int, default=8, help="that a node claims")
    parser.add_argument("--block-bytes", type=int, default=256 * 2**10)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "scheduling")
    options = parser.parse_args()
    cpus = options.nodes * options.cpus
    if max(options.actors) > cpus:
        parser.error(f"--actors: the nodes have {cpus} CPUs")
    if len(set(options.actors)) < 3 or len(set(options.blocks)) < 2:
        parser.error("the fit needs three numbers of actors and two of blocks")
    return options


if __name__ == "__main__":
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    main()
