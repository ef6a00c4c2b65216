"""The checks of `rayner doctor`, each where it finds something and where it finds nothing."""

from __future__ import annotations

import importlib
import socket
import sys
import tomllib
from collections import namedtuple
from importlib.metadata import PackageNotFoundError

import pytest

from rayner.retrieval import faiss_library
from rayner.runtime.doctor import doctor
from rayner.runtime.ray_address import fault_of

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def no_ray(monkeypatch, tmp_path):
    """No Ray cluster named and no token anywhere."""
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_examine_puts_every_check_under_its_name(tmp_path, no_ray):
    found = doctor.examine(str(tmp_path))
    assert found["usable"] is (found["errors"] == 0)
    assert found["errors"] + found["warnings"] == len(found["findings"])
    assert found["memory"]["total_bytes"] >= found["memory"]["available_bytes"] > 0
    assert found["cpu"]["cores"] >= 1


def test_a_check_that_fails_leaves_the_others(monkeypatch, tmp_path, no_ray):
    monkeypatch.setattr(doctor, "gpus", lambda: 1 / 0)
    found = doctor.examine(str(tmp_path))
    assert found["gpus"] is None
    assert [f["where"] for f in found["findings"] if f["severity"] == "error"] == ["gpus"]
    assert found["storage"]["writable"] is True


def test_a_package_that_cannot_be_imported_is_an_error(monkeypatch):
    def import_module(name):
        if name == "ray":
            raise ImportError("libstdc++.so.6:\n version not found")
        return importlib.import_module(name)

    monkeypatch.setattr(doctor, "import_module", import_module)
    facts, (finding,) = doctor.versions()
    assert facts["ray"] is None
    assert facts["torch"]
    assert (finding.severity, finding.where) == ("error", "ray")
    assert "libstdc++.so.6: version not found" in finding.what


def test_extras_are_those_of_the_project(root):
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, packages in doctor.EXTRAS.items():
        declared = project["optional-dependencies"][extra]
        assert all(any(line.startswith(package) for line in declared) for package in packages)
        assert len(declared) == len(packages)
    assert project["optional-dependencies"].keys() - doctor.EXTRAS.keys() == {"bench", "test", "dev"}


@pytest.mark.parametrize(
    ("builds", "severities"),
    [(("faiss-cpu",), []), (("faiss-cpu", "faiss-gpu"), ["error"]), ((), ["warning"])],
)
def test_exactly_one_build_of_faiss(monkeypatch, builds, severities):
    def version(package):
        if package in builds:
            return "1.15"
        raise PackageNotFoundError(package)

    monkeypatch.setattr(faiss_library, "version", version)
    monkeypatch.setattr(doctor, "version", version)
    if not builds:
        monkeypatch.setitem(sys.modules, "faiss", None)
    facts, findings = doctor.faiss_build()
    assert tuple(facts) == builds
    assert [finding.severity for finding in findings] == severities


def test_precision_is_that_of_the_faster_product():
    facts, findings = doctor.precision()
    assert findings == []
    assert facts["faster"] == min(("float32", "bfloat16"), key=lambda name: facts[f"{name}_seconds"])
    assert facts["float32_seconds"] > 0


@pytest.mark.parametrize(("total", "warned"), [(64 << 20, True), (8 << 30, False)])
def test_little_shared_memory_is_a_warning(monkeypatch, tmp_path, total, warned):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: Usage(total, 0, total))
    facts, findings = doctor.shared_memory(tmp_path)
    assert facts["total_bytes"] == total
    assert [finding.severity for finding in findings] == ["warning"] * warned
    assert doctor.shared_memory(tmp_path / "none") == (None, [])


def test_storage_is_tried_and_left_as_it_was(tmp_path):
    facts, findings = doctor.storage(str(tmp_path / "a" / "b"))
    assert (facts["writable"], findings) == (True, [])
    facts, findings = doctor.storage("memory://bucket/folder")
    assert (facts["writable"], findings) == (True, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["nowhere://bucket/folder", "/proc/rayner/out"])
def test_storage_that_cannot_be_written_to_is_an_error(out):
    facts, (finding,) = doctor.storage(out)
    assert (facts["writable"], finding.severity, finding.where) == (False, "error", out)


@pytest.mark.parametrize(
    ("variable", "place", "where"),
    [
        ("RAYNER_CACHE", "/proc/rayner/examples", "RAYNER_CACHE=/proc/rayner/examples"),
        ("RAYNER_CACHE", "nowhere://bucket/folder", "RAYNER_CACHE=nowhere://bucket/folder"),
        ("RAYNER_LOCAL", "/proc/rayner", "RAYNER_LOCAL=/proc/rayner"),
        ("RAYNER_LOCAL", "s3://bucket/folder", "RAYNER_LOCAL=s3://bucket/folder"),
    ],
)
def test_places_that_variables_name_are_tried_too(monkeypatch, tmp_path, variable, place, where):
    monkeypatch.setenv(variable, str(tmp_path / "a"))
    assert doctor.storage(str(tmp_path))[1] == []
    monkeypatch.setenv(variable, place)
    facts, (finding,) = doctor.storage(str(tmp_path))
    assert (facts["writable"], finding.severity, finding.where) == (True, "error", where)


def test_ray_needs_a_token_where_its_mode_says_so(monkeypatch, tmp_path, no_ray):
    assert doctor.ray_cluster() == ({"address": None, "authentication": None, "token": None}, [])
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    (finding,) = doctor.ray_cluster()[1]
    assert (finding.severity, "no token" in finding.what) == ("error", True)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("\n")
    assert doctor.ray_cluster()[0]["token"] is None
    (tmp_path / ".ray" / "auth_token").write_text("secret")
    assert doctor.ray_cluster()[0]["token"] == str(tmp_path / ".ray" / "auth_token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    facts, findings = doctor.ray_cluster()
    assert (facts["token"], findings) == ("RAY_AUTH_TOKEN", [])
    assert "secret" not in str(facts)


@pytest.fixture
def known(monkeypatch):
    """Sets the address that Ray has for its last cluster on this machine."""
    from ray._private import services

    def set_to(address):
        monkeypatch.setattr(services, "find_gcs_addresses", set)
        monkeypatch.setattr(services, "find_bootstrap_address", lambda _: address)

    return set_to


def test_an_address_where_nothing_answers_is_an_error(monkeypatch, no_ray, known):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        known(f"127.0.0.1:{port}")
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "auto", "local"):
            assert fault_of(address) is None
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    (finding,) = doctor.ray_cluster()[1]
    assert (finding.severity, "cannot be reached" in finding.what) == ("error", True)
    monkeypatch.setenv("RAY_ADDRESS", "host:port")
    assert "is no address" in doctor.ray_cluster()[1][0].what
    monkeypatch.setenv("RAY_ADDRESS", "host")
    assert doctor.ray_cluster()[1][0].what == "is no HOST:PORT"


def test_a_cluster_of_another_version_is_an_error(monkeypatch, joining):
    import ray

    monkeypatch.setenv("RAY_ADDRESS", joining["RAY_ADDRESS"])
    assert doctor.ray_cluster()[1] == []
    monkeypatch.setattr(ray, "__version__", "2.1.0")
    (finding,) = doctor.ray_cluster()[1]
    assert "cannot be joined (Version mismatch: The cluster was started with: Ray: " in finding.what
    assert "the cluster's versions of Ray and Python" in finding.hint


def test_a_dashboard_is_no_cluster(monkeypatch, no_ray):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"http://127.0.0.1:{server.getsockname()[1]}")
        (finding,) = doctor.ray_cluster()[1]
    assert (finding.severity, "HOST:6379" in finding.hint) == ("error", True)


def test_auto_needs_a_ray_that_runs(monkeypatch, no_ray, known):
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    known(None)
    assert doctor.ray_cluster()[1][0].what == "no Ray runs on this machine"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    known(f"127.0.0.1:{port}")
    assert "cannot be reached" in doctor.ray_cluster()[1][0].what
