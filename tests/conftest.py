"""What the tests share: the corpora, one Ray cluster, one thread a process."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.object_storage import Storage

# Before torch and Ray are imported: a process with as many threads as cores slows the others down.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = Path(__file__).resolve().parent.parent

# Tasks of another package, which the processes that a test starts find too; those begin with tests/startup.
os.environ["RAYNER_TASKS"] = "tests.toy:TOY,tests.gated:GATED"
STARTUP = ROOT / "tests/startup"
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (*map(str, (STARTUP, ROOT / "platform", ROOT)), os.environ.get("PYTHONPATH")))
)

# The same examples each time, so that a change fails for what it does and never by chance; by hand,
# RAYNER_HYPOTHESIS=thorough looks for new ones. A loaded machine is slow, which is no failure.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("RAYNER_HYPOTHESIS") or "default")

# A tenth of the time of the tests goes into looking for garbage among modules and tests that stay.
gc.set_threshold(50_000, 20, 50)

# No test cuts the power; those of what is written when put their own in its place.
os.fsync = lambda fd: None

# As of a cluster that rayner starts on one machine: one process less, and an end noticed at once.
os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
os.environ.setdefault("RAY_TRAIN_ENABLE_STATE_TRACKING", "0")
# Tests report to nobody, and what counts for that is an actor a cluster.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# A question to Ray where none runs would start one, dashboard and all, that runs until the tests are over.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"


QUIET_RAY = {
    "LOG_NAME_UPDATE_INTERVAL_S": "3600",
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
    "REPORTER_UPDATE_INTERVAL_MS": "3600000",
    "RAY_num_workers_soft_limit": "12",
    "RAY_idle_worker_killing_time_threshold_ms": "60000",
}
"""Nobody reads the load of the node or the logs of workers, whose files Ray lists ten times a second. A
worker that is idle for a second is left for the next test, which would start one."""
MOST_DRAWN = 16
"""Untrained encoders that are remembered: mostly 4 MB each."""
NICENESS = 10
"""Of processes with tests without Ray."""
GROUPS = ("a cluster of nodes", "the common cluster", "own clusters", "workers without Ray")
FORKS = re.compile(r'\bspawn\(|\bassert_two_equal_one\(|"forkserver"')
"""What starts workers from a process that has imported what takes seconds to import."""


@cache
def group_of(file: str) -> str:
    """Which tests stay together where several processes share them: the files with tests on the common
    cluster, those on the nodes of a cluster, those that start clusters of their own, those whose workers are
    forked from one process, and else a file, as its fixtures are not divided."""
    path = Path(file)
    source = (ROOT / path).read_text("utf-8")
    if "ray_cluster" in source:
        return GROUPS[1]
    if path.parent.name == "faults":
        return GROUPS[0 if "Nodes" in source else 2]
    return GROUPS[3] if FORKS.search(source) else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    order = {group: place for place, group in enumerate(GROUPS)}
    items.sort(key=lambda item: order.get(group_of(item.nodeid.split("::")[0]), len(order)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let what takes longest go first where cores are few: tests without Ray fill the gaps that it leaves."""
    if "PYTEST_XDIST_WORKER" in os.environ and group_of(item.nodeid.split("::")[0]) not in GROUPS[:3]:
        os.nice(max(0, NICENESS - os.nice(0)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the common cluster after the last test on it: without work it takes a fifth of a core."""
    yield
    if "PYTEST_XDIST_WORKER" in os.environ and nextitem is not None:
        groups = [group_of(one.nodeid.split("::")[0]) for one in (item, nextitem)]
        if groups[0] == GROUPS[1] != groups[1] and (ray := sys.modules.get("ray")):
            ray.shutdown()


def pytest_collection_finish() -> None:
    """Leave out of the search for garbage what was imported and collected."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the tests out by `group_of` (the groups of pytest-xdist 3.8 do not work with pytest 9.2)."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.split("::")[0])

    return ByGroup(config, log)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of public corpora; the test is skipped where there is none."""
    if "RAYNER_DATA" not in os.environ:
        pytest.skip("the environment variable RAYNER_DATA names no folder of corpora")
    return Path(os.environ["RAYNER_DATA"]).resolve()


@pytest.fixture(scope="session")
def ray_cluster(s3_server: Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One local cluster for all tests of a process. Its workers find the package as the test process does,
    and the S3 server.

    By its environment: workers with a runtime environment are not those that Ray starts ahead.
    """
    import ray

    from tests.object_storage import environment

    with pytest.MonkeyPatch.context() as patch:
        local = str(tmp_path_factory.mktemp("workers"))
        for name, value in {**QUIET_RAY, **environment(s3_server.url), "RAYNER_LOCAL": local}.items():
            patch.setenv(name, value)
        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def joining(ray_cluster: None) -> dict[str, str]:
    """The environment of a process that works on the common cluster: one that is killed does it no harm."""
    import ray

    return os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; the test is skipped where there is none."""
    from tests.browser import chromium, started

    path = chromium()
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium-headless-shell, or name one with RAYNER_CHROMIUM")
    with started(path) as running:
        yield running


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Storage]:
    """One S3 server for the whole run."""
    from tests.object_storage import serving

    with serving() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def _drawn_once() -> Iterator[None]:
    """Untrained encoders are drawn once for each state of the generator: most tests begin with one of a few,
    and to draw a vector for each word of the vocabulary takes most of the time of a small encoder."""
    import torch

    from rayner.models import encoder

    draw = encoder._random
    drawn: dict[tuple[tuple[int, int], bytes], tuple[dict[str, torch.Tensor], torch.Tensor]] = {}

    def remembered(source: encoder.Source) -> encoder.Encoder:
        key = (source.shape, torch.get_rng_state().numpy().tobytes())
        if found := drawn.get(key):
            with encoder._NoDraws():
                again = draw(source)
            again.model.load_state_dict(found[0])
            torch.set_rng_state(found[1])
            return again
        if len(drawn) == MOST_DRAWN:
            del drawn[next(iter(drawn))]
        made = draw(source)
        weights = {name: value.clone() for name, value in made.model.state_dict().items()}
        drawn[key] = (weights, torch.get_rng_state())
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "_random", remembered)
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made up to their drawing, which takes matplotlib most of the time of a report."""
    from matplotlib.figure import Figure

    def put_in_place(figure: Figure, file: TextIO, **_options: Any) -> None:
        file.write("<svg></svg>")

    monkeypatch.setattr(Figure, "savefig", put_in_place)
    monkeypatch.setattr(Figure, "draw_without_rendering", lambda figure: None)


@pytest.fixture
def storage(s3_server: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """The S3 server without faults, in the environment of a test on a machine that has fetched nothing."""
    from rayner.files import tries
    from tests.object_storage import environment

    for name, value in {**environment(s3_server.url), "RAYNER_LOCAL": str(tmp_path / "machine")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tries, "PAUSE", 0.01)
    s3_server.works()
    yield s3_server
    s3_server.works()
