"""The files under serve/ and the settings of `rayner serve`."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray._private import ray_constants
from ray.serve._private import constants
from ray.serve.schema import ServeDeploySchema

from rayner.errors import InputError, RecipeError
from rayner.serving.application import NAME, application_of, build, deployment_options
from rayner.serving.application_settings import (
    ApplicationSettings,
    HttpSettings,
    ModelSettings,
    ReplicaSettings,
    ServeSettings,
    load_serve_settings,
    parse_settings,
)
from rayner.serving.gate import KEYS_VARIABLE, api_keys
from rayner.serving.launch import Served, _wait, checked, serve_forever
from rayner.serving.listening import checked_prefix, own_port
from tests.serving.checkpoints import recognizer_folder


def ray_service(root: Path) -> list[dict[str, Any]]:
    """The service and its network policy."""
    return list(yaml.safe_load_all((root / "serve/rayservice.yaml").read_text("utf-8")))


def deployments(root: Path) -> dict[str, dict[str, Any]]:
    plain = yaml.safe_load((root / "serve/rayner.yaml").read_text("utf-8"))
    service, _ = ray_service(root)
    return {"rayner.yaml": plain, "rayservice.yaml": yaml.safe_load(service["spec"]["serveConfigV2"])}


@pytest.mark.parametrize("name", ["rayner.yaml", "rayservice.yaml"])
def test_serve_accepts_them_and_so_do_we(root: Path, name: str) -> None:
    values = deployments(root)[name]
    schema = ServeDeploySchema.model_validate(values)
    (application,) = schema.applications
    assert application.import_path == "rayner.serving.application:build"
    settings = parse_settings(ApplicationSettings, application.args, name)
    assert settings.require_key
    (deployment,) = application.deployments
    assert deployment.name == NAME
    assert isinstance(deployment.user_config, dict)
    assert parse_settings(ModelSettings, deployment.user_config, name).checkpoint
    build(application.args)


def test_replicas_of_a_pod_that_ends_are_drained_before_it_is_killed(root: Path) -> None:
    variable = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
    assert hasattr(ray_constants, variable)
    service, _ = ray_service(root)
    for group in service["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        pod = group["template"]["spec"]
        (seconds,) = (float(e["value"]) for e in pod["containers"][0]["env"] if e["name"] == variable)
        assert ReplicaSettings().drain < seconds < pod["terminationGracePeriodSeconds"]


def test_the_ray_service_keeps_its_secrets(root: Path) -> None:
    service, policy = ray_service(root)
    cluster = service["spec"]["rayClusterConfig"]
    assert cluster["authOptions"] == {"mode": "token"}
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (container,) = group["template"]["spec"]["containers"]
        (key,) = [e for e in container["env"] if e["name"] == KEYS_VARIABLE]
        assert "secretKeyRef" in key["valueFrom"]
        assert "value" not in key
        assert group["template"]["metadata"]["labels"] == policy["spec"]["podSelector"]["matchLabels"]
    # The operator, which deploys through the dashboard, is a pod of its own.
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    to_all, to_some = policy["spec"]["ingress"]
    assert to_all == {"ports": [{"port": 8000}]}
    assert to_some["from"]


def test_the_page_closes_every_port_that_haproxy_brings(root: Path) -> None:
    ports = (
        constants.RAY_SERVE_HAPROXY_STATS_PORT,
        constants.RAY_SERVE_HAPROXY_METRICS_PORT,
        constants.RAY_SERVE_FALLBACK_PROXY_HTTP_PORT,
        constants.RAY_SERVE_FALLBACK_PROXY_GRPC_PORT,
    )
    page = (root / "docs/serve.md").read_text("utf-8")
    (closed,) = re.findall(r"--dports (\S+) -j DROP", page)
    assert {str(port) for port in ports} <= set(closed.split(","))
    assert all(name in vars(constants) for name in re.findall("`(RAY_SERVE_FALLBACK_[A-Z_]+)`", page))


def test_the_local_file_is_one_of_ours(root: Path) -> None:
    settings = load_serve_settings(root / "serve/local.yaml")
    assert settings.http.host == "127.0.0.1"
    application_of(settings, {}, {})


def test_models_stand_apart_from_what_restarts_replicas() -> None:
    one = ServeSettings.model_validate({"checkpoint": "a"})
    other = ServeSettings.model_validate({"checkpoint": "b", "models": {"c": "c"}, "revision": "2"})
    more = ServeSettings.model_validate({"checkpoint": "a", "replicas": {"max": 2, "gpus": 0.25}})
    first, second, third = (application_of(x, {}, {})._bound_deployment for x in (one, other, more))
    assert third.ray_actor_options is not None
    assert third.ray_actor_options["num_gpus"] == 0.25
    assert first.version == second.version
    assert first.user_config != second.user_config
    assert first.version != third.version


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checkpoint: a\nreplicas: {maximum: 3}", "replicas.maximum.*max"),
        ("checkpiont: a", "checkpiont.*checkpoint"),
        ("http: {port: 8000}", "neither a checkpoint nor a model nor a knowledge base"),
        ("models: {a: ''}", "models.a"),
        ("models: {'': a}", "models"),
        ("models: [a]", "models"),
        ("checkpoint: a\nreplicas: {gpus: 1.5}", "replicas.*gpus 1.5"),
        ("checkpoint: a\nhttp: {port: 99999}", "http.port"),
        ("checkpoint: a\nreplicas: {min: 3, max: 2}", "max 2 is below min 3"),
        ("checkpoint: a\nreplicas: {queued: 0}", "replicas.*queued 0"),
        ("checkpoint: a\nstages: {mentions: {cpus: 1.0e-5}}", "stages.mentions.*cpus 1e-05"),
        ("- checkpoint", "not a mapping"),
        ("checkpoint: [", "YAML"),
    ],
)
def test_a_wrong_file_is_told_by_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message) as error:
        load_serve_settings(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("key", ["checkpoint: {0}", "checkpoint: {1}\nmodels: {{a: {1}, b: {0}}}"])
def test_a_checkpoint_that_is_none_is_told_before_ray_starts(tmp_path: Path, key: str) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(key.format(f"{tmp_path}/nowhere", recognizer_folder(tmp_path / "best", 1)))
    with pytest.raises(InputError, match="nowhere"):
        checked(path)


def test_an_address_that_cannot_be_had_is_told_before_ray_starts(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    recognizer_folder(tmp_path / "best")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for http, what in (
            (f"{{port: {taken.getsockname()[1]}}}", "Address already in use"),
            ("{host: no.such.host.invalid}", "nothing can listen at no.such.host.invalid:8000"),
        ):
            path.write_text(f"checkpoint: {tmp_path}/best\nhttp: {http}")
            with pytest.raises(InputError, match=what):
                serve_forever(path)


def test_of_two_services_that_start_at_once_one_is_told_that_the_other_has_the_port(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path.write_text(f"checkpoint: {recognizer_folder(tmp_path / 'best')}\nhttp: {{port: {port}}}")
    with own_port(HttpSettings(port=port)):
        with own_port(HttpSettings(port=port, host="localhost")):
            pass
        with pytest.raises(InputError, match=f"another rayner serve is about to listen at 127.0.0.1:{port}"):
            serve_forever(path)
    with own_port(HttpSettings(port=port)):
        pass


@pytest.mark.parametrize("runtime", ["runtime", "gone"])
def test_the_lock_of_a_port_is_in_a_folder_of_the_user_and_follows_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / runtime))
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "local"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        http = HttpSettings(port=free.getsockname()[1])
    with own_port(http):
        [lock] = tmp_path.glob("*/*.lock")
    assert lock.parent.name == ("runtime" if runtime == "runtime" else "local")
    assert lock.stat().st_mode & 0o777 == 0o600
    lock.unlink()
    lock.symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match=rf"{lock}: cannot be opened .*; remove it"), own_port(http):
        pass
    assert not (tmp_path / "other").exists()


def test_waiting_for_replicas_without_room_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def status(name: str) -> SimpleNamespace:
        assert name == NAME
        asked.append(1)
        return SimpleNamespace(app_status=SimpleNamespace(status="DEPLOYING"))

    client = SimpleNamespace(get_serve_status=status)
    monkeypatch.setattr("rayner.serving.launch._client", lambda: client)
    assert not _wait(NAME, lambda: len(asked) > 2)


def test_folders_count_from_where_the_command_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas on a cluster work in another one."""
    path = tmp_path / "serve.yaml"
    path.write_text(
        "checkpoint: best\nmodels: {far: 's3://bucket/best', near: near}\n"
        "knowledge_bases: {kb: {index: index, standardizer: /runs/best}}"
    )
    (tmp_path / "near").symlink_to(recognizer_folder(tmp_path / "best"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.5:6379")
    settings = checked(path)
    assert settings.checkpoints() == {
        "": f"{tmp_path}/best",
        "far": "s3://bucket/best",
        "near": f"{tmp_path}/near",
    }
    base = settings.knowledge_bases["kb"]
    assert (base.index, base.standardizer) == (f"{tmp_path}/index", "/runs/best")


@pytest.mark.parametrize(
    ("host", "address"),
    [("10.0.0.5", "http://10.0.0.5:7000/genes"), ("::1", "http://[::1]:7000/genes")],
)
def test_it_answers_where_serve_was_started(monkeypatch: pytest.MonkeyPatch, host: str, address: str) -> None:
    client = SimpleNamespace(http_config=SimpleNamespace(host=host, port=7000))
    monkeypatch.setattr("rayner.serving.launch._client", lambda: client)
    assert Served("genes", "/genes").address() == address


def test_keys_of_the_driver_are_asked_of_the_replicas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(f"checkpoint: {recognizer_folder(tmp_path / 'best')}")
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)
    assert not checked(path).require_key
    monkeypatch.setenv(KEYS_VARIABLE, "s3cret")
    assert checked(path).require_key
    assert "s3cret" not in checked(path).model_dump_json()


def test_keys_that_are_lost_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, "one, two,")
    assert api_keys() == ("one", "two")
    for none in (" , ", ""):
        monkeypatch.setenv(KEYS_VARIABLE, none)
        with pytest.raises(InputError, match="holds no key"):
            api_keys()
    monkeypatch.setenv(KEYS_VARIABLE, "good,b\udcff")
    with pytest.raises(InputError, match="RAYNER_API_KEYS: is not UTF-8"):
        api_keys()
    monkeypatch.delenv(KEYS_VARIABLE)
    assert api_keys() == ()
    with pytest.raises(InputError, match=KEYS_VARIABLE):
        api_keys(required=True)


def test_replicas_scale_between_two_numbers_or_stay_at_one() -> None:
    fixed = deployment_options(ReplicaSettings(min=2, max=2))
    assert fixed["num_replicas"] == 2
    assert "autoscaling_config" not in fixed
    scaled = deployment_options(ReplicaSettings(min=1, max=4, target=2))
    assert scaled["autoscaling_config"]["target_ongoing_requests"] == 2
    assert "num_replicas" not in scaled


def test_each_setting_of_replicas_is_an_option_of_serve() -> None:
    settings = ReplicaSettings(
        min=2,
        max=5,
        target=3,
        cpus=1.5,
        gpus=0.25,
        memory=2.5,
        accelerator_type="A100",
        ongoing=11,
        queued=12,
        retry_after=13,
        upscale_delay=4,
        downscale_delay=15,
        health_period=16,
        health_timeout=17,
        drain=0.5,
        surge=18,
    )
    assert deployment_options(settings) == {
        "ray_actor_options": {
            "num_cpus": 1.5,
            "num_gpus": 0.25,
            "memory": 5 * 2**29,
            "accelerator_type": "A100",
        },
        "max_ongoing_requests": 11,
        "max_queued_requests": 12,
        "backpressure_config": {"status_code": 503, "retry_after_s": 13},
        "graceful_shutdown_timeout_s": 0.5,
        "graceful_shutdown_wait_loop_s": 0.5,
        "health_check_period_s": 16,
        "health_check_timeout_s": 17,
        "max_surge_percent": 18,
        "max_constructor_retry_count": 3,
        "logging_config": {"enable_access_log": False},
        "autoscaling_config": {
            "min_replicas": 2,
            "max_replicas": 5,
            "target_ongoing_requests": 3,
            "upscale_delay_s": 4,
            "downscale_delay_s": 15,
            "metrics_interval_s": 2,
            "look_back_period_s": 4,
        },
    }


@pytest.mark.parametrize(
    "prefix", ["genes", "/genes/", "/{genes}", "/a?b", "/a b", "//a", "", "/-/x", "/a/../b", "/a\0"]
)
def test_a_prefix_that_is_none_is_told_before_ray_starts(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InputError, match="--route-prefix"):
        serve_forever(tmp_path / "serve.yaml", route_prefix=prefix)


@pytest.mark.parametrize("prefix", ["/", "/genes-2", "/a/b", "/genes:v1", "/gènes", "/..a"])
def test_a_prefix_may_hold_what_a_path_may(prefix: str) -> None:
    assert checked_prefix(prefix) == prefix


def test_a_name_that_is_none_is_told_before_ray_starts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--name: is empty"):
        serve_forever(tmp_path / "serve.yaml", "")
