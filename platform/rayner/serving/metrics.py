"""What a replica counts: the names under which Prometheus finds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Meter:
    """Where counts go; this one counts nothing."""

    def answered(
        self, endpoint: str, model: str, items: int, windows: int, mentions: int, seconds: float
    ) -> None:
        """A request was answered: documents or mentions asked for, windows read, mentions found or linked.

        Args:
            model: the name of that which answered; empty where it has none.
        """

    def batch(self, windows: int, tokens: int, padded: int) -> None:
        """The model read a batch."""

    def waiting(self, windows: int) -> None:
        """Windows that wait for the model."""

    def swapped(self, versions: Mapping[str, str], *, failed: bool) -> None:
        """New models came in, or did not."""

    def answering(self, versions: Mapping[str, str]) -> None:
        """These models answer now; to be said again and again."""


_SECONDS: list[float] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120]
_TOKENS: list[float] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536]


class RayMeter(Meter):
    """Counts with Ray, beside Serve's own metrics; `ray_` is before each name on the metrics port."""

    def __init__(self) -> None:
        from ray.serve.metrics import Counter, Gauge, Histogram

        # Any, as Ray's annotation allows one key alone.
        of: Any = ("endpoint", "model")
        self._items = Counter("rayner_items", "documents or mentions asked for", of)
        self._windows = Counter("rayner_windows", "windows read for requests", of)
        self._mentions = Counter("rayner_mentions", "mentions found or linked", of)
        self._seconds = Histogram("rayner_seconds", "seconds to answer, in the replica", _SECONDS, of)
        self._tokens = Histogram("rayner_batch_tokens", "tokens a batch, without padding", _TOKENS)
        self._padding = Counter("rayner_padding_tokens", "tokens of padding")
        self._waiting = Gauge("rayner_waiting_windows", "windows that wait for the model")
        self._swaps = Counter("rayner_swaps", "swaps of models", ("outcome",))
        self._models = Gauge("rayner_model", "1 for a version that answers now", ("model", "version"))  # type: ignore[arg-type]
        self._versions: dict[str, str] = {}

    def answered(
        self, endpoint: str, model: str, items: int, windows: int, mentions: int, seconds: float
    ) -> None:
        """A request was answered."""
        tags = {"endpoint": endpoint, "model": model}
        for counter, value in ((self._items, items), (self._windows, windows), (self._mentions, mentions)):
            if value:
                counter.inc(value, tags)
        self._seconds.observe(seconds, tags)

    def batch(self, windows: int, tokens: int, padded: int) -> None:
        """The model read a batch."""
        self._tokens.observe(tokens)
        if padded > tokens:
            self._padding.inc(padded - tokens)

    def waiting(self, windows: int) -> None:
        """Windows that wait for the model."""
        self._waiting.set(windows)

    def swapped(self, versions: Mapping[str, str], *, failed: bool) -> None:
        """New models came in, or did not."""
        self._swaps.inc(1, {"outcome": "failed" if failed else "done"})
        for model, version in self._versions.items():
            self._models.set(0, {"model": model, "version": version})
        self.answering(versions)
        self._versions = dict(versions)

    def answering(self, versions: Mapping[str, str]) -> None:
        """These models answer now. Ray drops a gauge that was not set for some seconds."""
        for model, version in versions.items():
            self._models.set(1, {"model": model, "version": version})
