"""`rayner serve`: the application on this machine's Ray, or on the cluster that RAY_ADDRESS names."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rayner.errors import CheckpointError, InputError, RaynerError
from rayner.retrieval.index_folder import version_of_index
from rayner.runtime.cluster import ensure_ray
from rayner.serving.application import NAME, declared
from rayner.serving.gate import api_keys
from rayner.serving.settings import HttpSettings, ServeSettings, load_serve_settings
from rayner.tasks.checkpoint import read_recipe, version_of
from rayner.tasks.registry import task_of

log = logging.getLogger(__name__)
_PAUSE = 0.25


def serve_forever(path: Path) -> dict[str, Any]:
    """Serve what a YAML file describes until SIGINT or SIGTERM; SIGHUP reads the file again.

    A change of models is swapped in without a failed request; a change of anything else but `http` replaces
    the replicas, some at a time. A file that is wrong changes nothing.

    Returns:
        `address`, `seconds` that it served.

    Raises:
        InputError: the file, or a checkpoint that it names, cannot be used.
        RaynerError: the application did not start.
    """
    settings = checked(path)
    check_port(settings.http)
    began = time.monotonic()
    address = f"http://{settings.http.host}:{settings.http.port}"
    try:
        deploy(settings)
        # Not before: Ray puts handlers of its own in their place when it starts.
        with _signals() as (stop, reload):
            log.info("answering at %s (try %s/docs); stop with Ctrl-C", address, address)
            log.info("metrics at %s", metrics_address())
            log.info("after a change of %s: kill -HUP %d", path, os.getpid())
            while not stop.wait(_PAUSE):
                if reload.is_set():
                    reload.clear()
                    _reload(path, lambda: stop.is_set() or reload.is_set())
    finally:
        _stop()
    return {"address": address, "seconds": round(time.monotonic() - began, 1)}


def checked(path: Path) -> ServeSettings:
    """The settings of a file, its checkpoints and keys looked at.

    Raises:
        InputError: something in it cannot be used.
    """
    settings = load_serve_settings(path)
    checkpoints = [settings.recognizer, *(kb.standardizer for kb in settings.knowledge_bases.values())]
    for checkpoint in checkpoints:
        if checkpoint is not None and _is_here(checkpoint):
            version_of(Path(checkpoint))
    if settings.recognizer is not None and _is_here(settings.recognizer):
        record = task_of(read_recipe(Path(settings.recognizer)))
        if record.stage != "mentions":
            what, hint = (
                f"a {record.name} does not find mentions in documents",
                "name a recognizer or a tagger",
            )
            raise CheckpointError(settings.recognizer, what, hint)
    for served in settings.knowledge_bases.values():
        if _is_here(served.index):
            version_of_index(Path(served.index))
    # Replicas that lost the keys on the way must not let everybody in.
    guarded = bool(api_keys())
    return settings.model_copy(update={"require_key": settings.require_key or guarded})


def check_port(http: HttpSettings) -> None:
    """Find out before Ray starts whether the proxy can listen; on a cluster that is for its nodes to know.

    Raises:
        InputError: it cannot.
    """
    if os.environ.get("RAY_ADDRESS"):
        return
    try:
        (family, *_, address), *_ = socket.getaddrinfo(http.host, http.port, type=socket.SOCK_STREAM)
        with socket.socket(family) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        what = f"nothing can listen at {http.host}:{http.port} ({error.strerror or error})"
        raise InputError("http", what, "name another host or port, or stop what listens there") from None


def deploy(settings: ServeSettings, interrupted: Callable[[], bool] = lambda: False) -> bool:
    """Start the application, or bring a running one to these settings; returns when it runs.

    Args:
        interrupted: whether to wait no longer: replicas that nothing has room for never run.

    Returns:
        Whether it runs.

    Raises:
        RaynerError: it does not start.
    """
    from ray.serve._private.api import serve_start
    from ray.serve.schema import ServeDeploySchema

    ensure_ray()
    schema = ServeDeploySchema.model_validate(declared(settings))
    # What `serve run` does with a file: only a declared application swaps models in place.
    client = serve_start(http_options=schema.http_options.model_dump(), proxy_location=schema.proxy_location)
    client.deploy_apps(schema)
    return _wait(interrupted)


def metrics_address() -> str:
    """Where Prometheus finds the metrics of this node."""
    import ray

    node = next(node for node in ray.nodes() if node["Alive"])
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def _wait(interrupted: Callable[[], bool]) -> bool:
    from ray import serve

    while not interrupted():
        application = serve.status().applications.get(NAME)
        if application is not None and application.status == "RUNNING":
            return True
        if application is not None and application.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            messages = [application.message, *(d.message for d in application.deployments.values())]
            raise RaynerError(f"the application does not start: {_reason(messages)}")
        time.sleep(_PAUSE)
    return False


def _reason(messages: list[str]) -> str:
    """The last line of the longest message, where tracebacks have their error."""
    longest = max(messages, key=len).strip()
    return longest.splitlines()[-1].strip() if longest else "no reason given"


def _reload(path: Path, interrupted: Callable[[], bool]) -> None:
    try:
        if deploy(checked(path), interrupted):
            log.info("%s is in force", path)
    except (InputError, RaynerError) as error:
        log.error("%s; what ran goes on", error)


def _stop() -> None:
    import ray
    from ray import serve

    if not ray.is_initialized():
        return
    log.info("stopping; requests in work are answered")
    serve.delete(NAME)
    if not os.environ.get("RAY_ADDRESS"):
        serve.shutdown()
        ray.shutdown()


def _is_here(path: str) -> bool:
    """Whether the file is to be found from here: on a cluster, it may lie where only the replicas are."""
    return "://" not in path and (Path(path).exists() or not os.environ.get("RAY_ADDRESS"))


@contextmanager
def _signals() -> Iterator[tuple[threading.Event, threading.Event]]:
    stop, reload = threading.Event(), threading.Event()
    handlers = {signal.SIGINT: stop, signal.SIGTERM: stop, signal.SIGHUP: reload}
    before = {number: signal.getsignal(number) for number in handlers}
    for number, event in handlers.items():
        signal.signal(number, lambda *_, event=event: event.set())
    try:
        yield stop, reload
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
