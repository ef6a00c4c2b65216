"""What RAY_ADDRESS names, and why no cluster can be joined there."""

from __future__ import annotations

import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from rayner.errors import InputError, one_line

_SECONDS_TO_CONNECT = 3
_CORRECT = "start the cluster, correct RAY_ADDRESS, or unset it for a Ray of this machine"
_SAME_VERSIONS = "run this with the cluster's versions of Ray and Python"
_NO_DASHBOARD = "set RAY_ADDRESS=HOST:6379; only `ray job --address` takes the one with 8265"
_NONE_RUNS = "start one (ray start --head), or unset RAY_ADDRESS for a Ray of this machine"


class Fault(NamedTuple):
    """What is wrong with an address, and a `hint` what to do about it; `passing`: it may be over soon."""

    what: str
    hint: str
    passing: bool = False


def fault_of(address: str) -> Fault | None:
    """Why no cluster can be joined at the address; None where something answers, or only Ray can tell.

    `auto` is what Ray finds on this machine. Waits for an answer for 3 s.
    """
    if address.lower().startswith(("http://", "https://")):
        return Fault("is the address of a dashboard, not of a cluster", _NO_DASHBOARD)
    if address == "auto":
        found = _found_here()
        if found is None:
            return Fault("no Ray runs on this machine", _NONE_RUNS)
        address = found
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return Fault(f"is no address ({error})", _CORRECT)
    if not host or not port:
        only_ray_knows = "://" in address or address == "local"
        return None if only_ray_knows else Fault("is no HOST:PORT", _CORRECT)
    try:
        socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT).close()
    except OSError as error:
        return Fault(f"cannot be reached ({error.strerror or one_line(error)})", _CORRECT, passing=True)
    return None


def error_of(address: str, fault: Fault) -> InputError:
    """The error in a line."""
    return InputError(f"RAY_ADDRESS={address}", fault.what, fault.hint)


def cannot_join(address: str, error: Exception) -> InputError:
    """The error of a cluster that Ray could not join, in a line: what is wrong with its address, else why Ray
    did not, as where the cluster has another version of Ray or Python."""
    return error_of(address, fault_of(address) or _refusal(error))


def refusal_of(address: str) -> Fault | None:
    """Why the cluster at an address that answers would refuse this process; None where that is not known.

    It asks for the versions, without joining. Where no cluster answers but something else, that takes 40 s.
    """
    from ray._common.usage.usage_lib import get_cluster_metadata
    from ray._private.utils import check_version_info
    from ray._raylet import GcsClient  # pyright: ignore[reportAttributeAccessIssue]
    from ray.exceptions import RayError

    of_cluster = _found_here() if address == "auto" else address
    if not of_cluster or "://" in of_cluster or of_cluster == "local":
        return None
    try:
        if known := get_cluster_metadata(GcsClient(address=of_cluster)):
            check_version_info(known, "this process")
    except (RayError, RuntimeError) as error:
        return _refusal(error)
    return None


def _refusal(error: Exception) -> Fault:
    why = one_line(error.__cause__ or error)
    hint = _SAME_VERSIONS if why.startswith("Version mismatch") else _CORRECT
    return Fault(f"cannot be joined ({why})", hint)


def _found_here() -> str | None:
    """The address of the cluster that Ray takes for `auto`; None without any."""
    from ray._private import services

    try:
        return services.get_ray_address_from_environment("auto", None)
    except ConnectionError:
        return None
