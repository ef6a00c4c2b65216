"""What HTTP costs: requests a second and latency of `rayner serve`, beside a process that calls the model.

The replica has one thread and a core of its own; locust, the proxy and the rest of Ray have the other cores.
The process beside it has the same core, one thread and the same requests, one after another, while no server
runs.

    PYTHONPATH=platform python -m benchmarks.serve_load RUN/best --corpus PATH --json
    PYTHONPATH=platform python -m benchmarks.serve_load --standardizer RUN/best --names 1000 100000 1000000
    PYTHONPATH=platform python -m benchmarks.serve_load RUN/best --standardizer RUN/best --changes

Needs the extra `bench`. Figures of a busy machine mean little: see the row `idle` for what the others used.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from benchmarks.serve_changes import changes
from benchmarks.serve_process import ROOT, served
from benchmarks.serve_requests import (
    Row,
    environment,
    load,
    replica,
    requests_of,
    rest,
    shown,
    summary,
    write,
)
from benchmarks.synthetic_index import write_synthetic_index

UNITS = {
    "percent": "",
    "requests_per_second": "requests/s",
    "of_process": "ratio",
    **dict.fromkeys(("p50", "p95", "p99", "p50_beyond_process"), "ms"),
    "requests": "",
    "retried": "",
    "failed": "",
    "change_seconds": "s",
}


def main() -> None:
    """Measure and print the rows."""
    options = _options()
    # So that a server which was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.floor:
        print(json.dumps(floor(Path(options.checkpoint), Path(options.floor), options.core, options.seconds)))
        return
    rows: list[Row] = [{"what": "idle", "percent": 100 - psutil.cpu_percent(3)}]
    with tempfile.TemporaryDirectory() as folder:
        if options.changes:
            rows += changes(options, Path(folder))
        elif options.checkpoint:
            for sentences in options.sentences:
                rows += recognition(options, sentences, Path(folder))
        for names in options.names if options.standardizer and not options.changes else ():
            rows += standardization(options, names, Path(folder))
    title, conditions = _about(options)
    record(
        "serve_load",
        options.out,
        title=title,
        section="Serving",
        task="serve",
        conditions=f"{conditions}; the row idle is how much of the machine was free before.",
        rows=measured(rows, UNITS),
    )
    if options.json:
        print(json.dumps({"rows": rows}))


def _about(options: argparse.Namespace) -> tuple[str, str]:
    """The title and the conditions of what is measured."""
    if options.changes:
        return "Changes of a service under load", (
            "Two replicas and 16 clients, who try once more after an error, while a replica is killed, an "
            "index swapped and all replicas replaced; a retry is counted within its request's time"
        )
    if not options.checkpoint:
        return "What linking costs over HTTP", (
            "One client; a replica with one thread and a core of its own, over indexes of random vectors and "
            "names"
        )
    return "What HTTP costs", (
        "A replica with one thread and a core of its own, beside a process on that core that calls the model"
    )


def recognition(options: argparse.Namespace, sentences: int, folder: Path) -> list[Row]:
    """Rows of `/v1/recognize` with so many sentences a request."""
    bodies = write(folder / "bodies.json", requests_of(options.corpus, sentences))
    command = [sys.executable, "-m", "benchmarks.serve_load", options.checkpoint, "--floor", str(bodies)]
    command += ["--core", str(options.core), "--seconds", str(options.seconds)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    alone = {"what": "process", "sentences": sentences, **json.loads(done.stdout.splitlines()[-1])}
    rows = [shown(alone)]
    settings = {"checkpoint": str(Path(options.checkpoint).resolve()), **replica(options)}
    with served(settings, folder, options.core, rest(options.core)) as server:
        for clients in options.clients:
            row = load(server.address, "/v1/recognize", bodies, clients, options, folder)
            row = {"what": "recognize", "sentences": sentences, "clients": clients, **row}
            row["of_process"] = row["requests_per_second"] / alone["requests_per_second"]
            row["p50_beyond_process"] = row["p50"] - alone["p50"]
            rows.append(shown(row))
    return rows


def standardization(options: argparse.Namespace, names: int, folder: Path) -> list[Row]:
    """Rows of `/v1/standardize` over an index of so many names, whose vectors are random."""
    checkpoint = Path(options.standardizer).resolve()
    index, known = write_synthetic_index(checkpoint, folder / f"index-{names}", names)
    settings = {
        "knowledge_bases": {"names": {"index": str(index), "standardizer": str(checkpoint)}},
        **replica(options),
    }
    rows = []
    with served(settings, folder, options.core, rest(options.core)) as server:
        for mentions in (1, 100):
            texts = [known[i : i + mentions] for i in range(0, len(known) - mentions + 1, mentions)][:200]
            bodies = write(folder / "mentions.json", [{"mentions": list(text)} for text in texts])
            row = load(server.address, "/v1/standardize", bodies, 1, options, folder)
            rows.append(shown({"what": "standardize", "names": names, "mentions": mentions, **row}))
    return rows


def floor(checkpoint: Path, bodies: Path, core: int, seconds: float) -> Row:
    """The same of this process, which calls the model on one core."""
    os.sched_setaffinity(0, [core])
    import torch

    import rayner

    torch.set_num_threads(1)
    loaded = rayner.load(checkpoint, "cpu")
    texts = [[d["text"] for d in body["documents"]] for body in json.loads(bodies.read_text("utf-8"))]
    predictor = loaded.predictor

    def call(turn: int) -> None:
        _predict(predictor, texts[turn % len(texts)])

    return _timed(call, seconds)


def _timed(call: Callable[[int], None], seconds: float) -> Row:
    for turn in range(3):
        call(turn)
    times, began, turn = [], time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call(turn)
        times.append(1000 * (time.perf_counter() - start))
        turn += 1
    return summary(times, time.perf_counter() - began)


def _predict(predictor: Any, texts: Sequence[str]) -> list[Any]:
    from rayner.data.schema import Document
    from rayner.tasks.predict import predict

    return list(predict(predictor, [Document(str(i), text) for i, text in enumerate(texts)]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", nargs="?", help="a recognizer")
    parser.add_argument("--standardizer", help="a standardizer's checkpoint")
    parser.add_argument("--corpus", help="sentences to send, in any format")
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--sentences", nargs="+", type=int, default=[16, 1])
    parser.add_argument("--names", nargs="+", type=int, default=[10**3, 10**5, 10**6])
    parser.add_argument("--tokens", type=int, default=2048, help="padded tokens a batch")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm-up", type=float, default=3)
    parser.add_argument("--changes", action="store_true", help="only: what a change of the service costs")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--floor", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    add_out(parser, "serve_load")
    options = parser.parse_args()
    if options.changes and not options.checkpoint:
        parser.error("--changes needs a recognizer")
    return options


if __name__ == "__main__":
    call_main(main)
