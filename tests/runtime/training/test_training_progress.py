"""What people see of a training."""

from __future__ import annotations

import io
import sys

import pytest

from rayner.runtime.training.training_progress import Bar, Lines, line_of, watcher
from rayner.tasks.base import Metric

STEP = {
    "step": 3,
    "steps": 10,
    "epoch": 1,
    "loss": 0.5,
    "parts": {"span": 0.25},
    "learning_rate": 1e-3,
    "words_per_second": 1234.0,
    "padding": 0.1,
    "eta": 61.0,
}


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("metric", "shown"), [(Metric("f1"), "50.0"), (Metric("loss", "min"), "0.5000")])
def test_a_terminal_shows_one_bar(metric, shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    watch = watcher(metric)
    assert isinstance(watch, Bar)
    assert not terminal.getvalue()
    watch.write(STEP)
    watch.write({"step": 3, "epoch": 1, "metrics": {metric.name: 0.5, "other": 0.75}})
    watch.close()
    text = terminal.getvalue()
    assert f"epoch 1  loss 0.5000  dev {metric.name} {shown}  1,234 words/s  0:01:01 left" in text
    assert "span" not in text
    assert "other" not in text


def test_elsewhere_records_are_lines_with_the_parts_of_the_loss(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    watch = watcher(Metric("f1"))
    assert isinstance(watch, Lines)
    with caplog.at_level("INFO", "rayner"):
        watch.write(STEP)
    assert "loss 0.5000 (span 0.2500)" in caplog.text


def test_what_is_no_fraction_is_no_percentage():
    """As in the table at the end of the training."""
    line = line_of({"step": 3, "epoch": 1, "metrics": {"f1": 0.4615, "mse": 0.23368}})
    assert line.endswith("dev  f1 46.15  mse 0.2337")
