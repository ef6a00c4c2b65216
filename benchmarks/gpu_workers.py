"""What `benchmarks.gpu` runs where Ray is installed: a worker, a sweep and a replica on a GPU or on parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks.gpu_material import recipes

Row = dict[str, Any]


def on_workers(folder: Path, encoder: Path, items: int, on_gpu: bool) -> Row:
    """A training on a worker, a sweep of two trials on halves of a GPU, and a replica."""
    whole, half = (1, 0.5) if on_gpu else (0, 0)
    training = {"epochs": 2, "tokens_per_step": 2048, "log_every": 1}
    values = {**recipes(folder, encoder, items)["recognizer"](), "training": training}
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(values), "utf-8")
    space = folder / "space.py"
    space.write_text('def space():\n    return {"training.learning_rate": [1e-4, 2e-4]}\n', "utf-8")
    given = ["train", str(recipe), "--out", str(folder / "run"), "--workers", "1"]
    trained = _rayner(*given, "--set", f"scaling.gpus_per_worker={whole}")
    given = ["tune", str(space), str(recipe), "--out", str(folder / "sweep"), "--max-concurrent", "2"]
    swept = _rayner(*given, "--set", f"scaling.gpus_per_worker={half}")
    checkpoint = trained.get("result", {}).get("checkpoint")
    asked = replica(folder, checkpoint, half) if checkpoint else {"skipped": "nothing was trained"}
    return {"training": trained, "sweep": swept, "replica": asked}


def replica(folder: Path, checkpoint: str, gpus: float) -> Row:
    """A service of one replica, and what a request takes once it is warm."""
    from benchmarks.serve_process import served

    cores = sorted(os.sched_getaffinity(0))
    settings = {"checkpoint": checkpoint, "replicas": {"gpus": gpus, "cpus": 0.5, "threads": 1}}
    body = json.dumps({"documents": [{"text": "Banako Cofedu went to Feginaso."}]}).encode()
    begin = time.perf_counter()
    with served(settings, folder, cores[0], cores) as server:
        started, seconds, answer = time.perf_counter() - begin, [], {}
        for _ in range(20):
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{server.address}/v1/recognize", body, headers)
            begin = time.perf_counter()
            with urllib.request.urlopen(request, timeout=60) as reply:
                answer = json.loads(reply.read())
            seconds.append(time.perf_counter() - begin)
    return {"start_seconds": started, "median_seconds": median(seconds), "versions": answer.get("versions")}


def _rayner(*arguments: str) -> Row:
    begin = time.perf_counter()
    command = [sys.executable, "-m", "rayner", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told: Row = {"status": done.returncode, "seconds": time.perf_counter() - begin}
    if done.returncode:
        return told | {"error": done.stderr[-2000:]}
    return told | {"result": json.loads(done.stdout.splitlines()[-1])}
