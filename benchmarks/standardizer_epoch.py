"""What an epoch of a standardizer costs beside its steps, by the number of names of the knowledge base.

    PYTHONPATH=platform python -m benchmarks.standardizer_epoch --names 100000 300000 --json
    PYTHONPATH=platform python -m benchmarks.standardizer_epoch --names 1000000 --neighbours 0 --json

Made-up entities of a name and an alias each, a small untrained encoder, and mentions that are aliases with an
edit. Each phase is timed once, in one process a size, with one thread: reading the names, the examples, the
n-grams, the table of hard neighbours, whose time grows with the square of the entities, the plan with it, and
two evaluations: what a development set of `--mentions` mentions takes after an epoch, and after the next one.
Peak resident set sizes; `held_mb` is what was resident when a phase began. Of each size, a hash of the
neighbours, the metrics and the answers goes to standard error.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.figures import add_out, measured, record
from benchmarks.meter import resident_mb
from benchmarks.synthetic_index import made_up_names
from rayner.runtime.training.dev_answers import score
from rayner.runtime.training.example_building import build_examples, find_units, read_all
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.standardizer.task import StandardizerTask

ENCODER = "random:32x1"
UNITS = {"seconds": "s", "held_mb": "MB", "peak_mb": "MB"}


def write_strings(folder: Path, names: int, mentions: int) -> None:
    """A knowledge base of so many names, and mentions of it."""
    texts = made_up_names(names)
    with (folder / "base.jsonl").open("w", encoding="utf-8") as file:
        for i in range(0, names - 1, 2):
            row = {"entity_id": f"e{i // 2}", "name": texts[i], "aliases": [texts[i + 1]]}
            file.write(json.dumps(row) + "\n")
    with (folder / "dev.jsonl").open("w", encoding="utf-8") as file:
        for i in range(mentions):
            entity = i * (names // 2) // mentions
            alias = texts[2 * entity + 1]
            row = {"mention": f"{alias[:3]}x{alias[3:]}", "entity_id": f"e{entity}"}
            file.write(json.dumps(row) + "\n")


def measure(folder: Path, neighbours: int) -> dict[str, Any]:
    """The phases of an epoch in this process, and a hash of what they found."""
    values = {
        "task": "standardizer",
        "encoder": ENCODER,
        "knowledge_base": {"paths": [str(folder / "base.jsonl")]},
        "mentions": {"dev": [str(folder / "dev.jsonl")]},
        "groups": {"neighbours": neighbours},
    }
    task = train_task(parse_recipe(values, "benchmark"))
    assert isinstance(task, StandardizerTask)
    torch.manual_seed(1)
    model = task.build().eval()
    rows: list[dict[str, Any]] = []

    def timed(phase: str, work: Callable[[], Any]) -> Any:
        held, begin = resident_mb("VmRSS", anew=True), time.perf_counter()
        found = work()
        seconds = time.perf_counter() - begin
        rows.append({"phase": phase, "seconds": seconds, "held_mb": held, "peak_mb": resident_mb("VmHWM")})
        print(f"{phase}: {seconds:.1f} s, {rows[-1]['peak_mb']:.0f} MB", file=sys.stderr, flush=True)
        return found

    timed("names", lambda: task.strings)
    examples = timed("examples", lambda: build_examples(task, folder / "cache"))
    dev = find_units(task, "dev", folder / "cache")
    sent = timed("n-grams", lambda: task.for_workers(dev))
    mentions = read_all(sent, dev)
    with torch.no_grad():
        state = timed("neighbours", lambda: sent.prepare_epoch(model, examples, 0)) if neighbours else None
        timed("plan", lambda: sent.plan(examples.lengths, examples.groups, 0, state))
        digest = hashlib.sha256(b"" if state is None else state["neighbours"].numpy().tobytes())
        for turn in ("first", "next"):
            timed(f"fit, {turn}", lambda: sent.fit(model, mentions))
            metrics, answers = timed(f"answers, {turn}", lambda: score(sent.scorer(model), mentions))
            digest.update(repr((metrics, answers)).encode())
    return {"rows": rows, "digest": digest.hexdigest()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--names", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--mentions", type=int, default=200)
    parser.add_argument("--neighbours", type=int, default=8, help="0: no table of them")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "standardizer_epoch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        print(json.dumps(measure(options.measure, options.neighbours)))
        return
    rows: list[dict[str, Any]] = []
    for names in options.names:
        with tempfile.TemporaryDirectory(prefix="standardizer-epoch-") as made:
            write_strings(Path(made), names, options.mentions)
            command = [sys.executable, "-m", "benchmarks.standardizer_epoch", "--measure", made]
            command += ["--neighbours", str(options.neighbours)]
            ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(ran.stdout.splitlines()[-1])
        print(f"{names} names: {found['digest']}", file=sys.stderr)
        rows += [{"names": names, **row} for row in found["rows"]]
    record(
        "standardizer_epoch",
        options.out,
        title="An epoch of a standardizer beside its steps",
        section="Linking",
        task="standardizer",
        conditions=f"Made-up entities of a name and an alias each, encoder {ENCODER}, {options.mentions} "
        f"mentions, {options.neighbours} neighbours. One process, one thread, wall time.",
        rows=measured(rows, UNITS),
    )
    for row in rows:
        print("  ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))
    if options.json:
        print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
