"""The manifests for KubeRay, as far as they can be checked without a Kubernetes cluster."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
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
    "gcsFaultToleranceOptions",
    "headGroupSpec",
    "workerGroupSpecs",
}
HEAD = {"serviceType", "rayStartParams", "template"}
FAULT_TOLERANCE = {"redisAddress", "redisPassword"}
WORKERS = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
SERVICE = {"serveConfigV2", "rayClusterConfig"}
FILES = {
    "raycluster": "jobs/kuberay/raycluster.yaml",
    "rayjob": "jobs/kuberay/rayjob.yaml",
    "rayservice": "serve/rayservice.yaml",
}
JOB = {
    "entrypoint",
    "submissionMode",
    "shutdownAfterJobFinishes",
    "ttlSecondsAfterFinished",
    "backoffLimit",
    "rayClusterSpec",
}


def documents_of(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def cluster_of(manifest: dict[str, Any]) -> dict[str, Any]:
    assert manifest["apiVersion"] == "ray.io/v1"
    keys = {"RayCluster": None, "RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
    key = keys[manifest["kind"]]
    return manifest["spec"] if key is None else manifest["spec"][key]


@pytest.fixture(scope="module", params=FILES)
def file(request, root) -> list[dict[str, Any]]:
    """The manifests of each file."""
    return documents_of(root / FILES[request.param])


@pytest.fixture(scope="module", params=["raycluster", "rayjob"])
def manifest(request, root) -> dict[str, Any]:
    return documents_of(root / FILES[request.param])[0]


@pytest.fixture(scope="module")
def cluster(manifest) -> dict[str, Any]:
    return cluster_of(manifest)


@pytest.fixture(scope="module")
def pins(root) -> dict[str, str]:
    return dict(line.split("==") for line in (root / "constraints.txt").read_text(encoding="utf-8").split())


def containers(cluster: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each pod's specification, and its Ray container."""
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        yield pod, pod["containers"][0]


def test_no_key_is_misspelt(file):
    manifest, cluster = file[0], cluster_of(file[0])
    assert not set(cluster) - CLUSTER
    assert not set(cluster["headGroupSpec"]) - HEAD
    assert all(not set(group) - WORKERS for group in cluster["workerGroupSpecs"])
    assert set(cluster["gcsFaultToleranceOptions"]) == FAULT_TOLERANCE
    known = {"RayJob": JOB, "RayService": SERVICE, "RayCluster": CLUSTER}[manifest["kind"]]
    assert not set(manifest["spec"]) - known


def test_every_key_of_kubernetes_is_known(file, root):
    """In pods, which KubeRay's types take as they are, and in all else that is no type of KubeRay's."""
    validate = pytest.importorskip("kubernetes_validate").validate
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod}
        for pod, _ in containers(cluster_of(file[0]))
    ]
    others = [*file[1:], *documents_of(root / "jobs/kuberay/redis.yaml")]
    for manifest in [*pods, *others]:
        validate(manifest, "1.33", strict=True)
    with pytest.raises(Exception, match="fsgroup"):
        validate({**pods[0], "spec": {**pods[0]["spec"], "fsgroup": 1}}, "1.33", strict=True)


def test_a_head_that_is_lost_finds_what_it_knew(file, root):
    service, store, policy = documents_of(root / "jobs/kuberay/redis.yaml")
    options = cluster_of(file[0])["gcsFaultToleranceOptions"]
    (port,) = service["spec"]["ports"]
    assert options["redisAddress"] == f"{service['metadata']['name']}:{port['port']}"
    (container,) = store["spec"]["template"]["spec"]["containers"]
    secret = next(v["valueFrom"] for v in container["env"] if v["name"] == "PASSWORD")
    assert options["redisPassword"]["valueFrom"] == secret
    labels = store["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels


def test_pods_are_closed_to_other_namespaces(file):
    ray, policy = file
    chosen = policy["spec"]["podSelector"]["matchLabels"]
    own = {"ray.io/cluster": ray["metadata"].get("name")}
    cluster = cluster_of(ray)
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        labels = group["template"].get("metadata", {}).get("labels", {}) | own
        assert chosen.items() <= labels.items()
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_the_page_names_the_namespace_that_gets_in(file, root):
    page = (root / "docs/operate.md").read_text(encoding="utf-8")
    sources = [source for rule in file[1]["spec"]["ingress"] for source in rule.get("from", ())]
    (other,) = (s["namespaceSelector"]["matchLabels"] for s in sources if "namespaceSelector" in s)
    assert f"`{other['kubernetes.io/metadata.name']}` alone" in page


def test_gpus_are_there_for_those_who_ask_and_volumes_can_be_written_to(file):
    cluster = cluster_of(file[0])
    for pod, container in containers(cluster):
        assert pod["securityContext"] == {"fsGroup": 100, "fsGroupChangePolicy": "OnRootMismatch"}
        has_gpu = "nvidia.com/gpu" in container["resources"]["limits"]
        tolerated = [t["key"] for t in pod.get("tolerations", ())]
        assert tolerated == (["nvidia.com/gpu"] if has_gpu else [])
    gpus = [g for g in cluster["workerGroupSpecs"] if g["groupName"] == "gpu"]
    assert [group["minReplicas"] for group in gpus] == [0]


def test_the_image_is_linted(root):
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed (the extra dev)")
    done = subprocess.run([hadolint, root / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_ray_is_the_pinned_one(cluster, pins, root):
    assert cluster["rayVersion"] == pins["ray"]
    image = (root / "Dockerfile").read_text(encoding="utf-8")
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
    files = (documents_of(root / file)[0] for file in FILES.values())
    for group in (group for file in files for group in cluster_of(file)["workerGroupSpecs"]):
        if (node := ours.get(group["groupName"], {}).get("resources")) is None:
            continue
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        # The kubelet keeps a part of each node: a pod of the size of a node fits none.
        assert 3 / 4 * node["CPU"] <= int(limits["cpu"]) < node["CPU"]
        assert int(limits.get("nvidia.com/gpu", 0)) == node.get("GPU", 0)


def test_no_two_have_one_name(root):
    """KubeRay names services by it: of two with one name in a namespace, the one takes the other's."""
    files = [*FILES.values(), "jobs/kuberay/redis.yaml"]
    manifests = [manifest for file in files for manifest in documents_of(root / file)]
    kinds = [m["kind"] for m in manifests]
    metadata = [m["metadata"] for m in manifests]
    names = [m.get("name", m.get("generateName")) for m in metadata]
    clusters = [name for kind, name in zip(kinds, names, strict=True) if kind.startswith("Ray")]
    assert len(clusters) == len(set(clusters)) == len(FILES)
    assert len({*zip(kinds, names, strict=True)}) == len(manifests)


def what_ray_gets(entrypoint: str) -> list[str]:
    """The command of the job, where the submitting pod runs the line that KubeRay makes of an entrypoint."""
    stubs = """
        ray() { [ "$2" != submit ] || printf '%s\\n' "$@"; [ "$2" != status ]; }
        python() { echo "the submitting pod runs python $*"; }
    """
    line = (
        "if ! ray job status --address A job >/dev/null 2>&1 ; "
        f"then ray job submit --address A --no-wait --submission-id job -- {entrypoint.strip()} ; fi ; "
        "ray job logs --address A --follow job"
    )
    run = ["bash", "-ce", stubs + line]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    return printed[printed.index("--") + 1 :]


def test_the_whole_entrypoint_gets_to_ray():
    assert what_ray_gets("cd here && python work")[-1] == "the submitting pod runs python work"
    assert what_ray_gets('bash -c "cd here && python work"') == ["bash", "-c", "cd here && python work"]


def test_the_job_trains_a_recipe_that_fits_its_workers(root):
    spec = documents_of(root / FILES["rayjob"])[0]["spec"]
    shell, option, command = what_ray_gets(spec["entrypoint"])
    assert (shell, option) == ("bash", "-c")
    folder, command = command.split(" && ")
    assert f"WORKDIR {folder.removeprefix('cd ')}\n" in (root / "Dockerfile").read_text(encoding="utf-8")
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "jobs.train"]
    overrides = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    scaling = load_recipe(root / words[3], overrides).scaling
    limits = spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]
    assert scaling.cpus_per_worker <= int(limits["limits"]["cpu"])
    assert scaling.gpus_per_worker <= int(limits["limits"]["nvidia.com/gpu"])
