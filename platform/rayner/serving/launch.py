"""`rayner serve`: the application on this machine's Ray, or on the cluster that RAY_ADDRESS names."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayner.errors import InputError, RaynerError
from rayner.runtime.cluster import ensure_ray
from rayner.runtime.elsewhere import waiting
from rayner.serving.application import NAME, application_of, stages_of
from rayner.serving.application_settings import ServeSettings, load_serve_settings
from rayner.serving.composition import composed_pipeline
from rayner.serving.deployment import failed_change_of
from rayner.serving.gate import api_keys
from rayner.serving.knowledge import versions_of
from rayner.serving.listening import checked_name, checked_prefix, own_port
from rayner.serving.models import base_settings, check_linked_types
from rayner.serving.replica_memory import deployments_of, memory_of_replicas, with_memory
from rayner.serving.room import check_room, has_room_beside
from rayner.serving.served_pipelines import pipeline_settings

if TYPE_CHECKING:
    from ray.serve import Application
    from ray.serve._private.client import ServeControllerClient

log = logging.getLogger(__name__)
_PAUSE = 0.25


def serve_forever(path: Path, name: str = NAME, route_prefix: str = "/") -> dict[str, Any]:
    """Serve what a YAML file describes until SIGINT or SIGTERM; SIGHUP reads the file again.

    A change of models, or of the files behind the same paths, is swapped in without a failed request; a
    change of anything else but `http` replaces the replicas, some at a time. A file that is wrong changes
    nothing. Other applications of a cluster stay as they are.

    Args:
        name: the application's, by which Serve knows it.
        route_prefix: where its paths begin; each application of a cluster has its own.

    Returns:
        `address`, `seconds` that it served.

    Raises:
        InputError: the file, or a checkpoint that it names, cannot be used, or another application has the
            name or the prefix.
        RaynerError: the application did not start.
    """
    served = Served(checked_name(name), checked_prefix(route_prefix))
    settings = checked(path)
    began = time.monotonic()
    with own_port(settings.http):
        address = _serve(served, settings, path)
    return {"address": address, "seconds": round(time.monotonic() - began, 1)}


def _serve(served: Served, settings: ServeSettings, path: Path) -> str:
    try:
        served.change(settings)
        address = served.address()
        # Not before: Ray puts handlers of its own in their place when it starts.
        with signals() as (stop, reload):
            log.info("answering at %s (try %s/docs); stop with Ctrl-C", address, address)
            log.info("metrics at %s", metrics_address())
            log.info("after a change of %s: kill -HUP %d", path, os.getpid())
            while not stop.wait(_PAUSE):
                if reload.is_set():
                    reload.clear()
                    _reload(served, path, lambda: stop.is_set() or reload.is_set())
        return address
    finally:
        served.stop()


def checked(path: Path) -> ServeSettings:
    """The settings of a file, its folders as absolute ones, its checkpoints and keys looked at.

    Raises:
        InputError: something in it cannot be used.
    """
    # Replicas on a cluster work in the folder where `ray start` ran.
    settings = load_serve_settings(path).rooted(Path.cwd())
    checkpoints = settings.checkpoints().values()
    pipelines = {one: pipeline_settings(one) for one in checkpoints if _is_here(one)}
    for checkpoint, pipeline in pipelines.items():
        log.info("%s has the version %s", checkpoint, pipeline.version)
    if all(one in pipelines for one in checkpoints):
        check_linked_types(pipelines.values(), settings.knowledge_bases)
    for name, base in settings.knowledge_bases.items():
        if _is_here(base.standardizer) and _is_here(base.index):
            versions_of(base_settings(name, base).stages[0])
    if settings.stages and (settings.checkpoint is None or _is_here(settings.checkpoint)):
        composed_pipeline(settings.answering(), settings.stages)
    # Replicas that lost the keys on the way must not let everybody in.
    guarded = bool(api_keys())
    return settings.model_copy(update={"require_key": settings.require_key or guarded})


@dataclass(slots=True)
class Served:
    """An application of this process, beside others that a cluster may have."""

    name: str = NAME
    route_prefix: str = "/"
    _started: bool = False
    _own_ray: bool = False
    _memory: Mapping[str, float] | None = None
    _names: Sequence[str] = ()
    _readings: int = 0
    _asked_for: ServeSettings | None = None
    """What Serve was told last, which a new replica loads."""
    _stages: Mapping[str, Application] = field(default_factory=dict)
    """Those that Serve was told last."""
    _in_force: ServeSettings | None = None

    def deploy(self, settings: ServeSettings, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Start the application, or bring the running one to these settings; returns when it runs.

        Args:
            interrupted: whether to wait no longer: replicas that nothing has room for never run.

        Returns:
            Whether it runs.

        Raises:
            InputError: an application that is not this one has its name or its prefix.
                Or no replica has answered for `RAYNER_WAIT_SECONDS`.
            RaynerError: it does not start.
        """
        import ray
        from ray import serve
        from ray.serve.schema import LoggingConfig

        if not ray.is_initialized():
            self._own_ray = not os.environ.get("RAY_ADDRESS")
            ensure_ray()
        http = settings.http
        options = {"host": http.host, "port": http.port, "request_timeout_s": http.timeout}
        # Of Serve's own processes and of its client here: what they do is told by `_wait`.
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        quiet = LoggingConfig(log_level="WARNING")
        serve.start(proxy_location="EveryNode", http_options=options, logging_config=quiet)
        if not self._started:
            self._check_free()
        self._started = True
        settings = self._placed(settings)
        check_room(settings)
        stages = stages_of(settings)
        leaving = self._leaving(settings, stages)
        self._asked_for = settings
        for beside in [leaving, {}] if leaving else [{}]:
            application = application_of(settings, stages, beside)
            self._stages = {**beside, **stages}
            # Not `deploy_apps`, which takes away every other application that was deployed from a file.
            target = serve.RunTarget(application, self.name, self.route_prefix)
            serve.run_many([target], wait_for_applications_running=False)
            if not _wait(self.name, interrupted):
                return False
        return True

    def change(self, settings: ServeSettings, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """`deploy` settings; where their models do not load, those before them again.

        Raises:
            InputError, RaynerError: as `deploy`, or the models do not load.
        """
        try:
            if not self.deploy(settings, interrupted):
                return False
        except RaynerError as error:
            self._go_back(str(error), interrupted)
            raise
        if failed := self._failed_change():
            self._go_back(failed, interrupted)
            raise RaynerError(failed)
        self._in_force = self._asked_for
        return True

    def _go_back(self, refused: str, interrupted: Callable[[], bool]) -> None:
        # Else each new replica would load what does not load.
        before = self._in_force
        if before is None or self._asked_for is before:
            return
        if not before.stages:
            # With stages it would replace their replicas, of which some have not changed yet.
            before = before.model_copy(update={"refused": refused})
        try:
            self.deploy(before, interrupted)
        except RaynerError as error:
            log.error("what ran does not start either: %s", error)
        self._asked_for = self._in_force

    def _failed_change(self) -> str | None:
        """Why the replicas have kept the models that they had; None where there is no replica to ask, as the
        first one loads what Serve was told last."""
        found = _client().get_serve_details()["applications"][self.name]["deployments"][NAME]["replicas"]
        return failed_change_of(self.name) if any(one["state"] == "RUNNING" for one in found) else None

    def address(self) -> str:
        """Where it answers once it is deployed: Serve listens as it was started, maybe by another file."""
        http = _client().http_config
        host = http.host or "127.0.0.1"
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{http.port}{self.route_prefix.rstrip('/')}"

    def read_again(self, settings: ServeSettings) -> ServeSettings:
        """The settings, with which replicas look at the same paths again: Serve would not tell them of
        settings that are as before."""
        self._readings += 1
        revision = f"{settings.revision} (reading {self._readings})".strip()
        return settings.model_copy(update={"revision": revision})

    def stop(self) -> None:
        """Take away what this process started, and nothing else."""
        import ray
        from ray import serve

        if not ray.is_initialized():
            return
        if self._started:
            log.info("stopping; requests in work are answered")
            try:
                serve.delete(self.name)
            except TimeoutError:
                # Replicas that nothing has room for are in no hurry to go.
                log.warning("Ray Serve has not removed the application %s in a minute", self.name)
        self._started = False
        if self._own_ray:
            ray.shutdown()

    def _leaving(self, settings: ServeSettings, stages: Mapping[str, Application]) -> dict[str, Application]:
        """The stages that run and are to go: replicas that answer by them wait for them, while Serve would
        take stages away before it has others that answer."""
        gone = {name: stage for name, stage in self._stages.items() if name not in stages}
        if gone:
            found = _client().get_serve_status(self.name).deployment_statuses
            running = {one.name for one in found if one.status in ("HEALTHY", "UPSCALING", "DOWNSCALING")}
            # What waits for one that does not run would wait for ever.
            gone = {name: stage for name, stage in gone.items() if name in running}
        if gone and not has_room_beside(settings):
            names = ", ".join(gone)
            log.warning("no room for new replicas beside stages that go (%s): requests may fail", names)
            return {}
        return gone

    def _placed(self, settings: ServeSettings) -> ServeSettings:
        """With the memory of replicas. It stays as it was at the start: another one would replace them. Where
        the file makes other deployments than before, they are replaced in any case."""
        names = deployments_of(settings, settings.answering())
        if self._memory is None or names != self._names:
            self._memory, self._names = memory_of_replicas(settings, settings.answering()), names
        return with_memory(settings, self._memory)

    def _check_free(self) -> None:
        for name, prefix in _applications().items():
            if name == self.name:
                what = "the cluster has an application of this name, which this command did not start"
                remove = f"remove that one (python -c 'from ray import serve; serve.delete(\"{name}\")')"
                raise InputError(f"--name {name}", what, f"name another, or {remove}")
            if prefix == self.route_prefix:
                what = f"is that of the application {name}"
                raise InputError(f"--route-prefix {prefix}", what, "name another, as /NAME")


def _client() -> ServeControllerClient:
    from ray.serve.context import _get_global_client

    client = _get_global_client()
    assert client is not None
    return client


def _applications() -> dict[str, str | None]:
    """The route prefixes of the cluster's applications, by name."""
    found = _client().get_serve_details()["applications"]
    return {name: details["route_prefix"] for name, details in found.items()}


def metrics_address() -> str:
    """Where Prometheus finds the metrics of this node."""
    import ray

    node = next(node for node in ray.nodes() if node["Alive"])
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def _wait(name: str, interrupted: Callable[[], bool]) -> bool:
    # Not `serve.status`, which takes a tenth of a second of CPU: it pickles each deployment's router.
    client, replicas = _client(), f"replicas of the application {name}"
    for pause in waiting(f"{replicas} that answer", f"no {replicas} have answered"):
        if interrupted():
            break
        found = client.get_serve_status(name)
        if found.app_status.status == "RUNNING":
            return True
        if found.app_status.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            messages = [found.app_status.message, *(d.message for d in found.deployment_statuses)]
            raise RaynerError(f"the application does not start: {_reason(messages)}")
        time.sleep(min(_PAUSE, pause))
    return False


def _reason(messages: list[str]) -> str:
    """The last line of the longest message, where tracebacks have their error."""
    longest = max(messages, key=len).strip()
    return longest.splitlines()[-1].strip() if longest else "no reason given"


def _reload(served: Served, path: Path, interrupted: Callable[[], bool]) -> None:
    try:
        if served.change(served.read_again(checked(path)), interrupted):
            log.info("%s is in force", path)
    except RaynerError as error:
        log.error("%s; what ran goes on", error)
    except Exception:
        # Whatever it was, the service goes on answering.
        log.exception("the change of %s failed; what ran goes on", path)


def _is_here(path: str) -> bool:
    """Whether the file is to be found from here: on a cluster, it may lie where only the replicas are."""
    return "://" not in path and (Path(path).exists() or not os.environ.get("RAY_ADDRESS"))


@contextmanager
def signals() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Events that SIGINT or SIGTERM (stop) and SIGHUP (read the files again) set; handlers are put back."""
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
