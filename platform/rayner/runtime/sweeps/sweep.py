"""Sweeps: many trainings of one recipe with other settings, and the recipe of the best."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rayner.config import BaseRecipe
from rayner.config.named_paths import named_paths
from rayner.counted import counted
from rayner.errors import InputError
from rayner.files.locks import LOCK, locked
from rayner.files.publishing import Publication
from rayner.files.uris import uri_of
from rayner.files.whole import write_json
from rayner.files.working import kept_in_place, shown_at, worked_on
from rayner.runtime.run_folder import check_apart, check_no_training
from rayner.runtime.shared_folder import check_nodes, marker_file
from rayner.runtime.sweeps.corpora import FOLDER as CORPORA
from rayner.runtime.sweeps.corpora import Corpora, cut_corpora
from rayner.runtime.sweeps.domains import extremes
from rayner.runtime.sweeps.folder import (
    OWN,
    WRITTEN,
    add_seconds,
    check_data,
    check_own_sweep,
    claim_folder,
    make_writable,
    remove_parts,
)
from rayner.runtime.sweeps.halving import successive_halving
from rayner.runtime.sweeps.plan import Plan, run_names, sweep_config
from rayner.runtime.sweeps.ray_tune import (
    TrialResources,
    launch,
    most_epochs,
    trial_resources,
    tune_environment,
)
from rayner.runtime.sweeps.sampling import DEFAULT_TRIALS, key_of, planned_settings, ranges, single_values
from rayner.runtime.sweeps.space import Space, check_space
from rayner.runtime.sweeps.sweep_settings import SweepSettings, resolve_settings
from rayner.runtime.sweeps.sweep_tracking import log_result, mlflow_sweep
from rayner.runtime.sweeps.trials import read_object, read_trials, restart_failed
from rayner.runtime.sweeps.winner import BEST_RECIPE, conclude_sweep
from rayner.runtime.tracking import check_mlflow
from rayner.runtime.training.example_building import build_examples, cache_folder, find_units
from rayner.runtime.training.run_state import key_of_data
from rayner.tasks.registry import train_task

RESULT = "result.json"
DOING = "runs a sweep in this folder"

log = logging.getLogger(__name__)


def sweep(
    space: Space,
    recipe: BaseRecipe,
    out: Path,
    settings: SweepSettings | None = None,
    fresh: bool = False,
    resume_errored: bool = False,
) -> dict[str, Any]:
    """Search a space, or resume the sweep in `out`: trials that are over are kept, others continue.

    Args:
        out: the folder of the sweep, which all nodes must see, or its URI.
        settings: more `trials` than before add to the sweep that is there; None for those that the space
            recommends.
        fresh: remove what an earlier sweep left in `out`.
        resume_errored: run again all trials that failed. Those whose process, node or storage failed are run
            again in any case.

    Returns:
        `best` (the path of a recipe), `settings`, `score` and `spread` of the best trial, the 95 % `interval`
        of its first objective and how many other trials lie `within_interval` (None for several runs),
        `trials` (counts by state), `winner` (the run of the best recipe with another seed), `pareto`,
        `seconds` (of all launches but those that were killed).

    Raises:
        InputError: the space, the recipe or the folder cannot be used; nothing was started, or a node that
            joined later does not see the folder.
        RaynerError: no trial finished.
    """
    begin = time.perf_counter()
    settings = resolve_settings(space, recipe) if settings is None else settings
    check_space(space, recipe, cut=bool(settings.folds or settings.held_out))
    planned = planned_settings(space, settings)
    config = sweep_config(space, recipe, settings)
    # Before the place is opened, which takes it over from a training that runs there.
    check_no_training(Path(out))
    searched = [(key, value) for key, domain in space.domains.items() for value in extremes(domain)]
    check_apart(named_paths(recipe, searched), out, WRITTEN)
    if uri_of(out) is None:
        check_own_sweep(Path(out))
    with kept_in_place(out, DOING, fresh=fresh, written=OWN) as (folder, publication):
        folder = folder.absolute()
        make_writable(folder)
        resources = trial_resources(recipe, settings.workers, settings.max_concurrent)
        if fresh:
            _check_before_removing(recipe, settings)
        with _claimed(folder, publication, config, fresh) as place:
            corpora = _corpora(recipe, settings, place)
            with mlflow_sweep(recipe, folder, _parameters(config)) as mlflow_run:
                plan = _plan(space, recipe, settings, place, corpora, mlflow_run)
                with _timed(folder, begin):
                    _prepare(plan)
                    _run(plan, space, planned, resources, resume_errored)
                    result = conclude_sweep(plan, corpora, read_trials(plan), resources)
                result["seconds"] = _seconds(folder, begin)
                result = shown_at(out, folder, result)
                write_json(folder / RESULT, result)
                log_result(mlflow_run, result["score"], [folder / BEST_RECIPE])
    return result


def _check_before_removing(recipe: BaseRecipe, settings: SweepSettings) -> None:
    """What a sweep would be refused for removes no other: its corpus, how that is cut, and MLflow."""
    check_mlflow(recipe)
    task = train_task(recipe)
    with TemporaryDirectory(prefix="rayner-scans-") as folder:
        cut_corpora(recipe, Path(folder, CORPORA), settings.folds, settings.held_out)
        for split in ("train", "dev", "calibration"):
            find_units(task, split, Path(folder))


@contextmanager
def _timed(folder: Path, begin: float) -> Iterator[None]:
    """Count the seconds of a launch that is interrupted, as far as it can be."""
    try:
        yield
    except BaseException:
        with suppress(OSError, InputError):
            add_seconds(folder, time.perf_counter() - begin)
        raise


def _seconds(folder: Path, begin: float) -> float:
    """Of all launches; one that had nothing left to run, whose result is there already, is none of them."""
    known = read_object(folder / RESULT)
    return add_seconds(folder, time.perf_counter() - begin) if known is None else known["seconds"]


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder of a sweep while its driver alone works in it; `marker`, `uri`, `begun` and `owner` as those
    of its plan."""

    folder: Path
    marker: Path | None
    uri: str | None
    begun: str
    owner: str


@contextmanager
def _claimed(
    out: Path, publication: Publication | None, config: Mapping[str, Any], fresh: bool
) -> Iterator[_Place]:
    uri, owner = (None, "") if publication is None else (publication.uri, publication.owner)
    with locked(out / LOCK, DOING), marker_file(out) if uri is None else nullcontext() as marker:
        if marker is not None:
            # Before `fresh` removes an earlier sweep.
            check_nodes(marker)
        begun = claim_folder(out, fresh, config)
        if publication is not None:
            # Before anything is put in place beside it, by which a later launch knows it again.
            publication.push()
            if fresh:
                remove_parts(publication.uri, begun)
        yield _Place(out, marker, uri, begun, owner)


def _corpora(recipe: BaseRecipe, settings: SweepSettings, place: _Place) -> Corpora:
    """The corpora of the sweep, whose files lie in its folder or at its URI."""
    files = Path(place.uri, CORPORA, place.begun) if place.uri else place.folder / CORPORA
    if not settings.folds and not settings.held_out:
        return cut_corpora(recipe, files, 0, 0)
    with worked_on(files, "cuts the corpus of this sweep") as (folder, _):
        corpora = cut_corpora(recipe, folder, settings.folds, settings.held_out)
    parts = (corpora.folds, corpora.rest, corpora.held_out)
    return Corpora(*(shown_at(files, folder, part) for part in parts))


def _parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    return config["space"] | {key: value for key, value in config["settings"].items() if key != "objectives"}


def _plan(
    space: Space,
    recipe: BaseRecipe,
    settings: SweepSettings,
    place: _Place,
    corpora: Corpora,
    mlflow_run: str | None,
) -> Plan:
    cache = cache_folder(Path(place.uri or place.folder) / ".examples")
    return Plan(
        recipe=recipe,
        settings=settings,
        out=place.folder,
        cache=cache.absolute() if uri_of(cache) is None else cache,
        runs={
            name: {**corpora.folds[fold], "seed": seed} for name, fold, seed in run_names(recipe, settings)
        },
        working_folder=Path.cwd(),
        mlflow_parent=mlflow_run,
        drawn=ranges(space),
        fixed=single_values(space),
        marker=place.marker,
        uri=place.uri,
        begun=place.begun,
        owner=place.owner,
    )


def _prepare(plan: Plan) -> None:
    """Build the example sets of the recipe as it is, and look at its other files; most spaces search nothing
    that these depend on."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]
    # RAYNER_CACHE may name a folder that each node has for itself.
    shared = uri_of(plan.cache) is not None or plan.cache.is_relative_to(plan.out) or len(nodes) == 1
    # All, as no trial runs yet. Nodes that are still to come were not looked at, and may not see the folder:
    # where there are only such, this process does the work.
    cpus = int(ray.cluster_resources().get("CPU", 0)) if shared else 0
    seen: dict[str, str] = {}
    for changes in plan.runs.values():
        corpus = {key: value for key, value in changes.items() if key != "seed"}
        if (key := key_of(corpus)) not in seen:
            task = train_task(plan.recipe_of({}, corpus))
            examples = build_examples(task, plan.cache, workers=cpus)
            judged_by = (find_units(task, split, plan.cache, cpus) for split in ("dev", "calibration"))
            seen[key] = key_of_data(examples.manifest["content"], *judged_by)
    check_data(plan.out, list(seen.values()))


def _run(
    plan: Plan,
    space: Space,
    planned: Sequence[Mapping[str, Any]] | None,
    resources: TrialResources,
    resume_errored: bool,
) -> None:
    settings = plan.settings
    if stay := restart_failed(plan, resume_errored):
        what = "not run again: %s that failed before; --resume-errored does that"
        log.info(what, counted(stay, "trial"))
    trials = read_trials(plan)
    failed = {trial.key for trial in trials if trial.state == "failed"}
    total = len(planned) if planned is not None else settings.trials or DEFAULT_TRIALS
    able = [one for one in planned if key_of(one) not in failed] if planned is not None else None
    left = len(able) if able is not None else total - len(failed)
    if left <= 0:
        return
    if trials and all(t.state in ("finished", "stopped", "failed") for t in trials) and len(trials) >= total:
        what_next = what_is_next(settings, total)
        log.info("nothing is left to run of %s; %s", counted(total, "trial"), what_next)
        return
    # Of an earlier launch, with fewer trials.
    for name in (RESULT, BEST_RECIPE):
        (plan.out / name).unlink(missing_ok=True)
    log.info("%s, %d concurrently", counted(total, "trial"), min(resources.max_concurrent, left))
    with tune_environment(resources.max_concurrent):
        run = partial(launch, plan, space, resources, total)
        if settings.scheduler == "halving" and planned is not None:
            # With those that failed: they have their places among the trials that they were compared with.
            successive_halving(plan, planned, most_epochs(settings, space, plan.recipe), run)
        elif able is not None:
            run(able)
        else:
            _search(plan, total, run)


def _search(plan: Plan, total: int, run: Callable[[None], None]) -> None:
    """Launch until there are as many trials, or none is new: Optuna also proposes what it knows."""
    before = -1
    while before < 0 or before < len(read_trials(plan)) < total:
        before = len(read_trials(plan))
        run(None)
    if (found := len(read_trials(plan))) < total:
        what = "%s in place of %d: Optuna proposed no others; if the space has more, raise --trials"
        log.warning(what, counted(found, "trial"), total)


def what_is_next(settings: SweepSettings, total: int) -> str:
    """What may be done with a sweep whose trials, so many, are over."""
    # A whole grid has no more, nor what has fewer than asked for; halving compares a trial with all others.
    has_more = settings.search != "grid" and total >= (settings.trials or DEFAULT_TRIALS)
    adds = has_more and settings.scheduler != "halving"
    return ("--trials adds more, " if adds else "") + "--fresh starts over"
