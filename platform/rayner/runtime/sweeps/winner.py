"""The best trial of a sweep: its recipe, and a run of it that the choice did not see."""

from __future__ import annotations

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe
from rayner.config.recipe_files import dump_recipe, with_settings
from rayner.errors import DivergedError, RaynerError, RecipeError
from rayner.files.fetching import is_there, local
from rayner.files.locks import locked
from rayner.files.publishing import Publication
from rayner.files.run_checkpoints import BEST, WINNER
from rayner.files.whole import write_bytes
from rayner.files.working import worked_on
from rayner.runtime.elsewhere import Needs, work_elsewhere
from rayner.runtime.sweeps.corpora import Changes, Corpora
from rayner.runtime.sweeps.plan import TRIALS, Plan, later_seed
from rayner.runtime.sweeps.ray_tune import TrialResources
from rayner.runtime.sweeps.sweep_settings import SECONDS
from rayner.runtime.sweeps.sweep_tracking import link_to_parent
from rayner.runtime.sweeps.trainable import SECONDS_TO_DIE, set_threads
from rayner.runtime.sweeps.trial_places import remove_last
from rayner.runtime.sweeps.trials import RUN_RESULT, State, Trial, attempt_seed, rank_of
from rayner.runtime.training.dev_answers import score
from rayner.runtime.training.run_state import changed_since
from rayner.runtime.training.train import train
from rayner.tasks.checkpoint_files import RECIPE
from rayner.tasks.encoder_task import default_device, load_model
from rayner.tasks.registry import load_recipe, task_of, train_task

BEST_RECIPE = "best.yaml"
log = logging.getLogger(__name__)


def conclude_sweep(
    plan: Plan, corpora: Corpora, trials: Sequence[Trial], resources: TrialResources
) -> dict[str, Any]:
    """Write the recipe of the best trial and train it once more, on all that is not held out.

    That run has a seed that no trial had: what it scores below the best trial is what choosing the best of
    many adds. On the held-out part it shows, too, how far the development set was overfitted.

    Raises:
        RaynerError: no trial finished.
    """
    finished = sorted((t for t in trials if t.state == "finished"), key=lambda t: rank_of(t, plan))
    if not finished or rank_of(finished[0], plan)[0]:
        reasons = [t.error for t in trials if t.error]
        if finished:
            reasons = [f"dev has nothing to compute {plan.settings.objectives[0].metric} from"]
        first = f"; the first: {reasons[0]}" if reasons else ""
        raise RaynerError(f"{plan.uri or plan.out}: no trial finished with a score{first}")
    best = finished[0]
    # The changes of a fold or of the held-out part are the sweep's own: the recipe has the user's corpus.
    recipe = with_settings(plan.recipe, {**best.settings, **_other_seed(plan, best)}, "best trial")
    write_bytes(plan.out / BEST_RECIPE, (_heading(plan, best) + dump_recipe(recipe)).encode())
    for trial in trials:
        # One that failed goes on from there, if it is run again; so does one that more trials come to again.
        if trial.state in ("finished", "stopped"):
            remove_last(plan, trial.name)
    objectives = [objective.metric for objective in plan.settings.objectives]
    result = {
        "best": str(plan.out / BEST_RECIPE),
        "trial": best.number,
        "settings": dict(best.settings),
        "score": {name: best.last[name] for name in objectives if math.isfinite(best.last[name])},
        "spread": best.spread,
        **_doubt(plan, best, trials),
        "trials": dict(Counter(_at_the_end(trial.state) for trial in trials)),
        "winner": _train_again(plan, corpora, best, resources),
    }
    if len(objectives) > 1:
        signs = {o.metric: 1 if o.mode == "max" else -1 for o in plan.settings.objectives}
        result["pareto"] = [_row(trial, objectives) for trial in pareto_of(finished, signs)]
    return result


def _other_seed(plan: Plan, best: Trial) -> dict[str, Any]:
    """The seed that was scored, where it is another than the recipe's, whose loss was not finite."""
    seed = load_recipe(plan.out / TRIALS / best.name / next(iter(plan.runs)) / RECIPE).seed
    return {} if seed == plan.recipe.seed else {"seed": seed}


def _at_the_end(state: State) -> str:
    """What became of a trial; one that had begun is not run on where a resumption asks for fewer."""
    return "unfinished" if state in ("pending", "running", "paused") else state


def interval_of(plan: Plan, trial: Trial) -> tuple[float, float] | None:
    """Where a finished trial's first objective lies with 95 % confidence, by its development items.

    None where that is not known, and for several runs: trials share their folds and seeds, so that the spread
    over these says little about which of two trials is better.
    """
    if len(plan.runs) > 1:
        return None
    (run,) = plan.runs
    result = json.loads((plan.out / TRIALS / trial.name / run / RUN_RESULT).read_text(encoding="utf-8"))
    found = result.get("metrics", {}).get("intervals", {}).get(plan.settings.objectives[0].metric)
    return tuple(found) if found else None


def _doubt(plan: Plan, best: Trial, trials: Sequence[Trial]) -> dict[str, Any]:
    interval = interval_of(plan, best)
    if interval is None:
        return {"interval": None, "within_interval": None}
    name = plan.settings.objectives[0].metric
    others = [trial.last.get(name, math.nan) for trial in trials if trial is not best]
    within = sum(interval[0] <= score <= interval[1] for score in others)
    return {"interval": list(interval), "within_interval": within}


def pareto_of(trials: Sequence[Trial], signs: Mapping[str, int]) -> list[Trial]:
    """Those trials than which no other is as good in every objective and better in one; of trials that have
    all of them.

    Args:
        signs: of each objective 1 where more is better, -1 where less is.
    """
    trials = [trial for trial in trials if all(math.isfinite(trial.last[name]) for name in signs)]
    points = {trial.name: tuple(sign * trial.last[name] for name, sign in signs.items()) for trial in trials}
    return [trial for trial in trials if not any(_beats(points[o.name], points[trial.name]) for o in trials)]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _row(trial: Trial, objectives: Sequence[str]) -> dict[str, Any]:
    scores = {name: trial.last[name] for name in objectives}
    return {"trial": trial.number, "settings": dict(trial.settings), "score": scores}


def _train_again(plan: Plan, corpora: Corpora, best: Trial, resources: TrialResources) -> dict[str, Any]:
    seed = later_seed(plan.recipe.seed, plan.settings.seeds)
    recipe = plan.recipe_of(best.settings, {**corpora.rest, "seed": seed})
    if not _is_trained(plan, recipe):
        log.info("training the best settings once more, with the seed %d", seed)
    trained = _train(plan, recipe) if plan.settings.workers else _train_on_a_node(plan, recipe, resources)
    names = [o.metric for o in plan.settings.objectives if o.metric != SECONDS]
    result = {key: trained[key] for key in ("checkpoint", "seed", SECONDS, "error") if key in trained}
    result["score"] = _known(trained["metrics"], names)
    if corpora.held_out is not None and trained["checkpoint"] is not None:
        result["held_out"] = _held_out(plan, best, corpora.held_out, names)
    return result


def _train_on_a_node(plan: Plan, recipe: BaseRecipe, resources: TrialResources) -> dict[str, Any]:
    """Train where a trial could: a job's driver may be on a head that is there for no work, without a GPU.

    Returns:
        What `train` does, and the `seed`; with an `error` and no checkpoint where its loss was never finite.
    """
    import ray

    if only_here([node["Resources"] for node in ray.nodes() if node["Alive"]], resources):
        return _train(plan, recipe)
    needs = Needs(cpus=resources.each["CPU"], gpus=resources.each.get("GPU", 0))
    return work_elsewhere(lambda attempt: _train_as_a_trial(plan, recipe), needs, {})


def only_here(nodes: Sequence[Mapping[str, float]], resources: TrialResources) -> bool:
    """Whether the driver's node is the only one, and has room for a trial."""
    return len(nodes) == 1 and all(nodes[0].get(name, 0) >= part for name, part in resources.each.items())


def _train_as_a_trial(plan: Plan, recipe: BaseRecipe) -> dict[str, Any]:
    set_threads(recipe.scaling)
    if plan.uri is not None:
        return _train(plan, recipe)
    # What is begun again, or another launch, may come before the process of the last one has died.
    with locked(plan.out / ".winner.lock", "trains the winner", SECONDS_TO_DIE):
        return _train(plan, recipe)


def _train(plan: Plan, recipe: BaseRecipe) -> dict[str, Any]:
    if plan.uri is None or plan.working_folder.is_dir():
        os.chdir(plan.working_folder)
    with worked_on(plan.place(WINNER), "trains the winner", seconds=SECONDS_TO_DIE) as (out, publication):
        return _train_in(out, publication, plan, recipe)


def _train_in(out: Path, publication: Publication | None, plan: Plan, recipe: BaseRecipe) -> dict[str, Any]:
    link_to_parent(plan.mlflow_parent, out)
    attempts = _attempts(plan, recipe)
    # Another launch may have come as far as a later seed, or have found other settings better.
    begun = next((number for number, attempt in enumerate(attempts) if _holds(out, attempt)), 0)
    error = None
    for attempt in attempts[begun:]:
        workers, fresh = plan.settings.workers, not _holds(out, attempt)
        try:
            trained = train(
                attempt, out, fresh=fresh, workers=workers, cache=plan.cache, publication=publication
            )
            return {**trained, "seed": attempt.seed}
        except DivergedError as diverged:
            error = f"{diverged.where}: {diverged.what}"
            log.warning("%s", error)
    return {"checkpoint": None, "seed": attempts[-1].seed, SECONDS: None, "error": error, "metrics": {}}


def _attempts(plan: Plan, recipe: BaseRecipe) -> list[BaseRecipe]:
    """The recipe, and those with the seeds that follow a loss that is not finite."""
    seeds = (
        attempt_seed({"seed": recipe.seed}, attempt) for attempt in range(plan.settings.max_failures + 1)
    )
    return [with_settings(recipe, {"seed": seed}, "best trial") for seed in seeds]


def _is_trained(plan: Plan, recipe: BaseRecipe) -> bool:
    """Whether an earlier launch has trained the winner."""
    out = plan.place(WINNER)
    return is_there(out / RUN_RESULT) and any(_holds(out, one) for one in _attempts(plan, recipe))


def _holds(out: Path, recipe: BaseRecipe) -> bool:
    """Whether the folder has a run of this recipe."""
    try:
        return not changed_since(out, load_recipe(out / RECIPE), recipe)
    except RecipeError:
        return False


def _held_out(plan: Plan, best: Trial, changes: Changes, names: Sequence[str]) -> dict[str, float]:
    recipe = plan.recipe_of(best.settings, changes)
    task, record = train_task(recipe), task_of(recipe)
    model = load_model(local(plan.place(WINNER, BEST)), task).to(default_device()).eval()
    options = record.options(**record.kind.evaluation_options)
    # A pre-training that answers nobody is scored as while it learns.
    predictor = task.predictor(model, options) or task.scorer(model)
    if predictor is None:
        return {}
    metrics, _ = score(predictor, list(task.items("dev")))
    return _known(metrics, names)


def _known(metrics: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Those of the metrics that there was something to compute from."""
    return {name: metrics[name] for name in names if metrics.get(name) is not None}


def _heading(plan: Plan, best: Trial) -> str:
    scores = ", ".join(f"{o.metric} {best.last[o.metric]:.4f}" for o in plan.settings.objectives)
    over = f" over {len(best.values)} runs" if len(best.values) > 1 else ""
    lines = [f"The best trial of the sweep {plan.out.name}, number {best.number}: {scores}{over}"]
    lines += [f"{key}: {value}" for key, value in {**best.settings, **_other_seed(plan, best)}.items()]
    return "".join(f"# {line}\n" for line in lines)
