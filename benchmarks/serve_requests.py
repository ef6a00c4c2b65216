"""Requests to a service under measurement: their bodies, how they are sent, and what is told of them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serve_process import ROOT

Body = dict[str, Any]
Row = dict[str, Any]


def requests_of(corpus: str | None, sentences: int) -> list[Body]:
    """Bodies of so many sentences of a corpus; without one, of the quick start's."""
    from rayner.data.readers import read_corpus

    path = Path(corpus) if corpus else ROOT / "platform/rayner/examples/software"
    documents = list(read_corpus([path]).documents)
    texts = [text for d in documents for text in _sentences(d)]
    texts = (texts * (1 + 64 * sentences // len(texts)))[: max(64 * sentences, 64)]
    return [
        {"documents": [{"text": text} for text in texts[i : i + sentences]]}
        for i in range(0, len(texts) - sentences + 1, sentences)
    ]


def write(path: Path, bodies: Sequence[Body]) -> Path:
    """Write what `load` is to send."""
    path.write_text(json.dumps(bodies), "utf-8")
    return path


def replica(options: argparse.Namespace) -> dict[str, Any]:
    """Settings of a replica with one thread."""
    replicas = {"cpus": 0.5, "threads": 1, "ongoing": 256, "queued": -1}
    return {"replicas": replicas, "batching": {"tokens": options.tokens}, "limits": {"mentions": 1000}}


def rest(core: int) -> list[int]:
    """The other cores."""
    cores = sorted(os.sched_getaffinity(0) - {core})
    return cores or [core]


def load(
    address: str, path: str, bodies: Path, clients: int, options: argparse.Namespace, folder: Path
) -> Row:
    """Requests a second and percentiles in milliseconds under a number of clients that retry once."""
    times = folder / "times.json"
    variables = {
        "SERVE_BODIES": bodies,
        "SERVE_PATH": path,
        "SERVE_TIMES": times,
        "SERVE_WARM_UP": options.warm_up,
    }
    command = [sys.executable, "-m", "locust", "-f", str(ROOT / "benchmarks/serve_user.py"), "--headless"]
    command += ["--host", address, "-u", str(clients), "-r", str(clients)]
    command += ["-t", f"{options.seconds + options.warm_up:g}s", "--only-summary", "--loglevel", "ERROR"]
    times.unlink(missing_ok=True)
    done = subprocess.run(
        command,
        env=environment() | {name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, rest(options.core)),
        check=False,
    )
    if not times.exists():
        raise SystemExit(f"locust left no times: {done.stderr[-2000:]}")
    found = json.loads(times.read_text("utf-8"))
    return {
        **summary(found["milliseconds"], found["seconds"]),
        "retried": found["retried"],
        "failed": found["failed"],
    }


def summary(milliseconds: Sequence[float], seconds: float) -> Row:
    """Requests a second, and percentiles."""
    if not milliseconds or not seconds:
        return {"requests": 0, "requests_per_second": 0.0, "p50": 0.0, "p95": 0.0, "p99": 0.0}
    p50, p95, p99 = np.percentile(milliseconds, [50, 95, 99]).tolist()
    rate = len(milliseconds) / seconds
    return {"requests": len(milliseconds), "requests_per_second": rate, "p50": p50, "p95": p95, "p99": p99}


def environment() -> dict[str, str]:
    """Of a process with one thread that finds rayner and the benchmarks."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}"}


def shown(row: Row) -> Row:
    """The row, once it is printed for who waits."""
    line = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
    print(line, file=sys.stderr, flush=True)
    return row


def _sentences(document: Any) -> list[str]:
    spans = document.sentences or ((0, len(document.text)),)
    return [document.text[start:end] for start, end in spans if end - start > 1]
