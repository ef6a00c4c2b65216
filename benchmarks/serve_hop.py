"""What it costs that each stage is a deployment of its own: the same requests to a pipeline in one deployment
and to the same pipeline with `stages`, side by side in one Ray, in turn.

    PYTHONPATH=platform python -m benchmarks.serve_hop PIPELINE.yaml --json

Requests are of one client, so that none waits for another. On a machine that others use too, only the
difference says something: both have the same neighbours.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import time

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from benchmarks.serve_requests import Body, Row, requests_of, shown
from rayner.serving.application_settings import ModelSettings, ServeSettings
from rayner.serving.composition import composed_pipeline, stage_names
from rayner.serving.launch import Served

UNITS = {"one_deployment": "ms", "composed": "ms", "beyond": "ms", "beyond_a_stage": "ms", "requests": ""}


def main() -> None:
    """Measure and print the rows."""
    options = _options()
    names = stage_names(composed_pipeline(ModelSettings(checkpoint=options.pipeline)))
    bodies = {count: requests_of(options.corpus, count) for count in options.sentences}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    share = {"cpus": 0.1, "threads": 1, "memory": 0}
    values = {"checkpoint": options.pipeline, "replicas": share, "http": {"port": port}}
    plain, composed = Served("plain", "/plain"), Served("composed", "/composed")
    try:
        plain.deploy(ServeSettings.model_validate(values))
        stages = dict.fromkeys(names, share)
        composed.deploy(ServeSettings.model_validate({**values, "stages": stages}))
        rows = [_row(f"http://127.0.0.1:{port}", one, len(names), options.requests) for one in bodies.items()]
    finally:
        composed.stop()
        plain.stop()
    record(
        "serve_hop",
        options.out,
        title="A pipeline in one deployment and in one for each stage",
        section="Serving",
        task="serve",
        conditions=f"Requests of v1/annotate by one client, {len(names)} stages, replicas of one thread on "
        "the same cores; medians of requests that go to both in turn.",
        rows=measured(rows, UNITS),
    )
    if options.json:
        print(json.dumps({"rows": rows}))


def _row(address: str, given: tuple[int, list[Body]], stages: int, count: int) -> Row:
    import requests

    sentences, bodies = given
    times: dict[str, list[float]] = {"plain": [], "composed": []}
    with requests.Session() as session:
        for turn in range(count + 5):
            for name, own in times.items():
                began = time.perf_counter()
                reply = session.post(
                    f"{address}/{name}/v1/annotate", json=bodies[turn % len(bodies)], timeout=120
                )
                own.append(1000 * (time.perf_counter() - began))
                if reply.status_code != 200:
                    sys.exit(f"error: {name} answered {reply.status_code}: {reply.text[:500]}")
    one, other = (statistics.median(own[5:]) for own in times.values())
    beyond = statistics.median(b - a for a, b in zip(*(own[5:] for own in times.values()), strict=True))
    return shown(
        {
            "sentences": sentences,
            "one_deployment": one,
            "composed": other,
            "beyond": beyond,
            "beyond_a_stage": beyond / stages,
            "requests": count,
        }
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="a pipeline file of several stages")
    parser.add_argument("--corpus", help="sentences to send, in any format; by default the quick start's")
    parser.add_argument("--sentences", nargs="+", type=int, default=[1, 16], help="a request")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    add_out(parser, "serve_hop")
    return parser.parse_args()


if __name__ == "__main__":
    call_main(main)
