"""One cluster for the tests on its nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rayner.files.fetching import LOCAL_VARIABLE
from tests.faults.own_ray import Nodes, environment_of_nodes, own_head
from tests.object_storage import Storage
from tests.object_storage import environment as reaching


@pytest.fixture(scope="session")
def nodes(s3_server: Storage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    # For a while after a loss the policy counts on the lost node, and waits for a worker there.
    environment = environment_of_nodes() | {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30"}
    environment |= reaching(s3_server.url) | {LOCAL_VARIABLE: str(tmp_path_factory.mktemp("nodes"))}
    with own_head(options=["--num-cpus", "0"], environment=environment) as head:
        started = Nodes(head)
        try:
            yield started
        finally:
            started.end_all()
