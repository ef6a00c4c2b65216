"""cluster.yaml, by Ray's own validator and by what that does not look at."""

from __future__ import annotations

import copy
import re

import pytest
import yaml


@pytest.fixture(scope="module")
def cluster(root):
    return yaml.safe_load((root / "cluster.yaml").read_text(encoding="utf-8"))


def permissions(root):
    """What the page says of the two profiles."""
    page = (root / "docs/operate.md").read_text(encoding="utf-8")
    (rights,) = (item for item in page.split("\n- ") if item.startswith("**Permissions.**"))
    return rights


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


def test_pools_start_from_zero_and_can_be_full_together(cluster):
    pools = {k: v for k, v in cluster["available_node_types"].items() if k != cluster["head_node_type"]}
    assert all(pool["min_workers"] == 0 for pool in pools.values())
    assert sum(pool["max_workers"] for pool in pools.values()) == cluster["max_workers"]
    assert 0 < cluster["idle_timeout_minutes"] <= 30


def test_no_work_lands_on_the_head(cluster):
    head = cluster["available_node_types"][cluster["head_node_type"]]
    assert head["resources"]["CPU"] == 0
    assert head["max_workers"] == 0


def test_disks_hold_the_image_and_what_is_fetched(cluster):
    for name, pool in cluster["available_node_types"].items():
        (disk,) = pool["node_config"]["BlockDeviceMappings"]
        assert disk["DeviceName"] == "/dev/sda1", name
        assert disk["Ebs"]["VolumeSize"] >= 200, name
        assert disk["Ebs"]["Encrypted"] is True, name


def test_no_port_is_open_to_the_world(cluster):
    # For a pool without a security group Ray makes one that opens port 22 to every address.
    assert cluster["provider"]["use_internal_ips"] is True
    for pool in cluster["available_node_types"].values():
        assert pool["node_config"]["SecurityGroupIds"]
        assert pool["node_config"]["SubnetIds"]
    assert "0.0.0.0" not in yaml.safe_dump(cluster)
    assert any("--dashboard-host=127.0.0.1" in command for command in cluster["head_start_ray_commands"])


def test_all_nodes_see_one_storage_that_the_user_of_the_container_can_write_to(cluster):
    from rayner.runtime.run_folder import STORAGE_VARIABLE

    options, commands = cluster["docker"]["run_options"], cluster["initialization_commands"]
    folder = next(o.split("=")[1] for o in options if o.startswith(f"--env {STORAGE_VARIABLE}="))
    assert f"--volume {folder}:{folder}" in options
    mounted = next(c.split("$STORAGE ")[1].rstrip(")") for c in commands if "mount -t nfs4" in c)
    assert folder.startswith(f"{mounted}/")
    # A request without an answer waits: a soft mount would give up on it, and lose what was written.
    (options,) = (c.split("OPTIONS=")[1].split(";")[0] for c in commands if "-o $OPTIONS $STORAGE" in c)
    assert {"hard", "noresvport"} <= set(options.split(","))
    # A machine that has just started may still install packages of its own.
    (install,) = (c for c in commands if "apt-get" in c)
    assert install.startswith("cloud-init status --wait;")
    # `ray` in Ray's images. It comes after the mount, which would hide it.
    assert commands[-1] == f"sudo install -d -o 1000 -g 100 {folder}"


def test_each_node_may_pull_the_image_and_is_of_one_region(cluster, root):
    region = cluster["provider"]["region"]
    registry = cluster["docker"]["image"].partition("/")[0]
    login = next(c for c in cluster["initialization_commands"] if "docker login" in c)
    assert login.startswith(f"aws ecr get-login-password --region {region} | ")
    assert login.endswith(f" --password-stdin {registry}")
    assert f"--env AWS_REGION={region}" in cluster["docker"]["run_options"]
    places = set(re.findall(r"\b[a-z]{2}-[a-z]+-\d\b", (root / "cluster.yaml").read_text(encoding="utf-8")))
    assert places == {region}
    rights = permissions(root)
    for right in ("ecr:GetAuthorizationToken", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"):
        assert f"`{right}`" in rights.partition("The head's")[0]


def test_nodes_install_nothing_and_take_one_image(cluster, root):
    from ray.autoscaler._private.util import prepare_config

    merged = prepare_config(copy.deepcopy(cluster))
    assert merged["setup_commands"] == merged["head_setup_commands"] == merged["worker_setup_commands"] == []
    image = (root / "Dockerfile").read_text(encoding="utf-8")
    assert f"import ray.autoscaler._private.{cluster['provider']['type']}.node_provider" in image
    assert "boto3==" in (root / "constraints.txt").read_text(encoding="utf-8")
    settings = [cluster["docker"], *(p.get("docker", {}) for p in cluster["available_node_types"].values())]
    assert not any({"head_image", "worker_image"} & one.keys() for one in settings)
    name = cluster["docker"]["image"].rpartition("/")[2]
    service = (root / "serve/rayservice.yaml").read_text(encoding="utf-8")
    assert f"image: {name}\n" in service


def test_containers_see_the_gpus_of_their_node(cluster):
    # Ray's image for CPUs, on which ours is built, names none.
    for name, pool in cluster["available_node_types"].items():
        options = pool.get("docker", {}).get("worker_run_options", [])
        assert ("--env NVIDIA_VISIBLE_DEVICES=all" in options) == ("GPU" in pool["resources"]), name


def test_workers_have_a_profile_of_their_own(cluster):
    pools = cluster["available_node_types"]
    profiles = {name: pool["node_config"]["IamInstanceProfile"]["Arn"] for name, pool in pools.items()}
    head = profiles.pop(cluster["head_node_type"])
    assert len(set(profiles.values())) == 1
    assert head not in profiles.values()
    assert all(
        pool["node_config"]["MetadataOptions"] == {"HttpTokens": "required"} for pool in pools.values()
    )


def test_the_head_may_read_recipes_in_the_bucket(root):
    """It reads them before it chooses a node."""
    head = permissions(root).partition("(`rayner-head`)")[2]
    assert {"s3:ListBucket", "s3:GetObject"} <= set(re.findall("`([^`]*)`", head))


def test_every_node_asks_for_the_token(cluster):
    assert any("RAY_AUTH_MODE=token" in option for option in cluster["docker"]["run_options"])
    assert any(path.endswith("/.ray/auth_token") for path in cluster["file_mounts"])


def test_work_takes_the_threads_of_its_cpus(cluster):
    """Ray runs commands with variables of its own, which all work on a node would inherit."""
    from ray.autoscaler._private.command_runner import _with_interactive

    (line,) = _with_interactive("ray start")[-1:]
    set_by_ray = re.findall(r"(\w+)=", line)
    assert "OMP_NUM_THREADS" in set_by_ray
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        (start,) = (command for command in cluster[key] if "ray start" in command)
        assert start.startswith(f"unset {' '.join(set_by_ray)}; ray start "), key
