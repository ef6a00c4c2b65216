"""cluster.yaml, by Ray's own validator and by what that does not look at."""

from __future__ import annotations

import copy

import pytest
import yaml


@pytest.fixture(scope="module")
def cluster(root):
    return yaml.safe_load((root / "cluster.yaml").read_text(encoding="utf-8"))


def test_ray_accepts_it(cluster):
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(copy.deepcopy(cluster))
    validate_config(prepared)
    assert prepared["available_node_types"].keys() == cluster["available_node_types"].keys()


def test_ray_would_reject_an_unknown_key(cluster):
    from ray.autoscaler._private.util import prepare_config, validate_config

    with pytest.raises(Exception, match="hed_node_type"):
        validate_config(prepare_config(copy.deepcopy(cluster) | {"hed_node_type": "head"}))


def test_pools_are_sane(cluster):
    pools = cluster["available_node_types"]
    assert cluster["head_node_type"] in pools
    assert any(pool["resources"].get("GPU") for pool in pools.values())
    for name, pool in pools.items():
        least, most = pool.get("min_workers", 0), pool.get("max_workers", 0)
        assert 0 <= least <= most <= cluster["max_workers"], name


def test_every_node_asks_for_the_token(cluster):
    assert any("RAY_AUTH_MODE=token" in option for option in cluster["docker"]["run_options"])
    assert any(path.endswith("/.ray/auth_token") for path in cluster["file_mounts"])


def test_the_image_has_the_pinned_ray(cluster, root):
    pins = dict(line.split("==") for line in (root / "constraints.txt").read_text(encoding="utf-8").split())
    assert f":{pins['ray']}-" in cluster["docker"]["image"]
