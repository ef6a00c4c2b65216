"""docs/grafana: dashboards for what the package exports."""

from __future__ import annotations

import json
import re

from rayner.runtime.sweeps import gauges
from rayner.runtime.training.ray_workers import TRAINING, Gauges

EXPORTED = {gauges.TRIALS, gauges.BEST, gauges.FAILURES, TRAINING}
SERVED = "platform/rayner/serving/metrics.py"
ENDS = r"(?:_total|_bucket|_sum|_count)?"
"""What Prometheus puts behind the name of a counter or a histogram."""


def test_the_dashboard_shows_every_metric_that_there_is_and_no_other(root):
    dashboard = json.loads((root / "docs/grafana/rayner.json").read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    # Ray puts its own name before that of a metric.
    names = {name for one in shown for name in re.findall(rf"ray_(rayner_\w+?){ENDS}\b", one)}
    assert names == EXPORTED | {*re.findall(r'"(rayner_\w+)"', (root / SERVED).read_text(encoding="utf-8"))}
    assert len({panel["id"] for panel in panels}) == len(panels)
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {name for expression in shown for name in re.findall(r"\$(\w+)", expression)} <= names


def test_counts_are_not_drawn_beside_scores(monkeypatch):
    shown = {}

    class Gauge:
        def __init__(self, *described):
            pass

        def set(self, value, tags):
            shown[tags["metric"]] = value

    monkeypatch.setattr("ray.util.metrics.Gauge", Gauge)
    written = Gauges("run")
    written.write({"step": 3, "metrics": {"f1": 0.5, "support": 132, "per_type": {}}})
    written.write({"step": 3, "steps": 9, "loss": 2.0})
    assert shown == {"dev/f1": 0.5, "train/loss": 2.0}
