"""The manifests for KubeRay, as far as they can be checked without a Kubernetes cluster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from rayner.runtime.run_folder import STORAGE_VARIABLE
from rayner.tasks.registry import load_recipe

# The keys of KubeRay's ray.io/v1 types that manifests here may use; a misspelt one is pruned in silence.
CLUSTER = {
    "rayVersion",
    "authOptions",
    "enableInTreeAutoscaling",
    "autoscalerOptions",
    "headGroupSpec",
    "workerGroupSpecs",
}
HEAD = {"serviceType", "rayStartParams", "template"}
WORKERS = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
JOB = {
    "entrypoint",
    "submissionMode",
    "shutdownAfterJobFinishes",
    "ttlSecondsAfterFinished",
    "backoffLimit",
    "rayClusterSpec",
}


@pytest.fixture(scope="module", params=["raycluster", "rayjob"])
def manifest(request, root) -> dict[str, Any]:
    text = (root / f"jobs/kuberay/{request.param}.yaml").read_text(encoding="utf-8")
    return next(iter(yaml.safe_load_all(text)))


@pytest.fixture(scope="module")
def cluster(manifest) -> dict[str, Any]:
    assert manifest["apiVersion"] == "ray.io/v1"
    return manifest["spec"] if manifest["kind"] == "RayCluster" else manifest["spec"]["rayClusterSpec"]


@pytest.fixture(scope="module")
def pins(root) -> dict[str, str]:
    return dict(line.split("==") for line in (root / "constraints.txt").read_text(encoding="utf-8").split())


def containers(cluster: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each pod's specification, and its Ray container."""
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        yield pod, pod["containers"][0]


def test_no_key_is_misspelt(manifest, cluster):
    assert not set(cluster) - CLUSTER
    assert not set(cluster["headGroupSpec"]) - HEAD
    assert all(not set(group) - WORKERS for group in cluster["workerGroupSpecs"])
    if manifest["kind"] == "RayJob":
        assert not set(manifest["spec"]) - JOB


def test_ray_is_the_pinned_one(cluster, pins, root):
    assert cluster["rayVersion"] == pins["ray"]
    image = (root / "jobs/kuberay/Dockerfile").read_text(encoding="utf-8")
    assert f"FROM rayproject/ray:{pins['ray']}-py311" in image


def test_it_asks_for_a_token_and_shows_itself_to_its_namespace_only(cluster):
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["serviceType"] == "ClusterIP"


def test_pools_start_from_zero(cluster):
    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"]


def test_every_pod_gets_what_it_asks_for_and_sees_the_storage(cluster):
    for pod, container in containers(cluster):
        assert container["resources"]["limits"] == container["resources"]["requests"]
        folder = next(v["value"] for v in container["env"] if v["name"] == STORAGE_VARIABLE)
        mount = next(m for m in container["volumeMounts"] if m["mountPath"] == folder)
        volume = next(v for v in pod["volumes"] if v["name"] == mount["name"])
        assert volume["persistentVolumeClaim"]["claimName"] == "rayner-storage"


def test_the_pools_are_those_of_ray_up(root):
    ours = yaml.safe_load((root / "cluster.yaml").read_text(encoding="utf-8"))["available_node_types"]
    text = (root / "jobs/kuberay/raycluster.yaml").read_text(encoding="utf-8")
    groups = next(iter(yaml.safe_load_all(text)))["spec"]["workerGroupSpecs"]
    assert {g["groupName"]: g["maxReplicas"] for g in groups} == {
        name: pool["max_workers"] for name, pool in ours.items() if name != "head"
    }
    for group in groups:
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        assert int(limits["cpu"]) == ours[group["groupName"]]["resources"]["CPU"]
        assert int(limits.get("nvidia.com/gpu", 0)) == ours[group["groupName"]]["resources"].get("GPU", 0)


def test_the_job_trains_a_recipe_that_fits_its_workers(root):
    text = (root / "jobs/kuberay/rayjob.yaml").read_text(encoding="utf-8")
    spec = yaml.safe_load(text)["spec"]
    words = shlex.split(spec["entrypoint"].split("&&")[1])
    assert words[:3] == ["python", "-m", "jobs.train"]
    overrides = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    scaling = load_recipe(root / words[3], overrides).scaling
    limits = spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]
    assert scaling.cpus_per_worker <= int(limits["limits"]["cpu"])
    assert scaling.gpus_per_worker <= int(limits["limits"]["nvidia.com/gpu"])
