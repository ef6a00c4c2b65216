"""One cluster for the tests of trainings and of jobs on its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.faults.own_ray import Nodes, environment_of_nodes, own_head


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    # For a while after a loss the policy counts on the lost node, and waits for a worker there.
    environment = environment_of_nodes() | {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30"}
    with ExitStack() as stack:
        head = stack.enter_context(own_head(options=["--num-cpus", "0"], environment=environment))
        yield Nodes(head, stack)
