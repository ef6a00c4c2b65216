"""One cluster for the tests on its nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.own_ray import Nodes, environment_of_nodes, own_head


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    # For a while after a loss the policy counts on the lost node, and waits for a worker there.
    environment = environment_of_nodes() | {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30"}
    with own_head(options=["--num-cpus", "0"], environment=environment) as head:
        started = Nodes(head)
        try:
            yield started
        finally:
            started.end_all()
