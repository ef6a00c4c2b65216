"""The pools of cluster.yaml, driven by Ray's autoscaler with nodes that are processes of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.own_ray import Head, environment_of_nodes, free_port, own_head
from tests.runtime.training.several_workers import toy_values

FAKE_HEAD = "ray.head.default"
"""What Ray's provider of fake nodes calls the head's type."""

FAKE_NODES = {
    "type": "fake_multinode",
    "use_node_id_as_ip": True,
    "disable_node_updaters": True,
    "disable_launch_config_check": True,
}
COMMANDS = (
    "cluster_synced_files",
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)
"""What the autoscaler expects to be there; fake nodes need none of it."""

DRIVER = """
import json, sys, time
import ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)

def pools():
    return sorted("gpu" if "GPU" in n["Resources"] else "cpu" for n in ray.nodes()
                  if n["Alive"] and n["Resources"].get("CPU"))

def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, pools()
        time.sleep(0.2)

@ray.remote(num_gpus=1, num_cpus=1)
def encode():
    return ray.get_runtime_context().get_assigned_resources()

seen = [pools()]
given = ray.get(encode.remote(), timeout=150)
seen.append(pools())
wait_for(lambda: not pools())
seen.append(pools())
print(json.dumps({"given": given, "seen": seen}))
"""


def with_fake_nodes(cluster: dict[str, Any], gcs: str) -> dict[str, Any]:
    pools = dict(cluster["available_node_types"])
    head = pools.pop(cluster["head_node_type"])
    kept = ("resources", "min_workers", "max_workers")
    fake = {
        name: {k: pool[k] for k in kept if k in pool} | {"node_config": {}} for name, pool in pools.items()
    }
    # Less to wait for: a node starts a process for each CPU.
    for pool in fake.values():
        pool["resources"] = pool["resources"] | {"CPU": 1}
    return {
        "cluster_name": cluster["cluster_name"],
        "max_workers": cluster["max_workers"],
        "upscaling_speed": cluster["upscaling_speed"],
        "idle_timeout_minutes": 0.1,
        "provider": FAKE_NODES | {"gcs_address": gcs},
        "auth": {},
        "docker": {},
        "head_node_type": FAKE_HEAD,
        "available_node_types": fake
        | {FAKE_HEAD: {"resources": head["resources"], "max_workers": 0, "node_config": {}}},
        "file_mounts": {},
        **{key: [] for key in COMMANDS},
    }


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_pools_grow_with_what_is_asked_of_them_and_idleness_empties_them(root: Path, tmp_path: Path) -> None:
    cluster = yaml.safe_load((root / "cluster.yaml").read_text(encoding="utf-8"))
    port = free_port()
    config = tmp_path / "fake.json"
    config.write_text(json.dumps(with_fake_nodes(cluster, f"127.0.0.1:{port}")))
    cpus = cluster["available_node_types"][cluster["head_node_type"]]["resources"]["CPU"]
    environment = environment_of_nodes() | {
        "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "AUTOSCALER_METRIC_PORT": str(free_port()),
    }
    options = [f"--autoscaling-config={config}", f"--num-cpus={cpus}"]
    with own_head(options=options, environment=environment, port=port) as head:
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, head.gcs],
            env=dict(head.environment),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        # On pools that are empty again.
        refused, grown = (sweep(head, tmp_path, *options) for options in ((), ("--max-concurrent", "1")))
        monitor = "\n".join(p.read_text() for p in head.folder.glob("session_latest/logs/monitor*"))
    assert done.returncode == 0, done.stderr[-3000:] + monitor[-9000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["seen"] == [[], ["gpu"], []]
    assert told["given"]["GPU"] == 1
    assert refused.returncode == 2, refused.stderr
    assert "there are 0 CPUs; add nodes, or give --max-concurrent" in refused.stderr
    assert grown.returncode == 0, grown.stderr[-3000:] + monitor[-9000:]
    assert json.loads(grown.stdout.splitlines()[-1])["trials"] == {"finished": 1}


def sweep(head: Head, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    values = toy_values(folder / "corpus", epochs=1)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(values))
    (folder / "space.py").write_text('def space(): return {"training.head_learning_rate": [1e-2]}')
    given = [*map(str, (folder / "space.py", folder / "recipe.yaml")), "--out", str(folder / "sweep")]
    return subprocess.run(
        [sys.executable, "-m", "rayner", "tune", *given, "--json", *options],
        env=dict(head.environment) | {"RAY_ADDRESS": head.gcs},
        cwd=folder,
        capture_output=True,
        text=True,
    )
