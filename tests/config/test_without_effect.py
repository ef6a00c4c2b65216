"""Settings without effect: which of a recipe have none, and that a training says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rayner
from rayner.config.without_effect import settings_without_effect
from rayner.tasks.registry import load_recipe, parse_recipe

ROOT = Path(rayner.__file__).parents[2]
CORPUS = {"train": ["a"], "dev": ["b"]}
TYPES = [{"name": "PER"}]
ROOM = {"windows": {"context": 16}}


def found(task: str, **values: Any) -> dict[str, str]:
    of_task: dict[str, Any] = {"corpus": CORPUS}
    if task == "standardizer":
        of_task = {"knowledge_base": {"paths": ["a"]}}
    elif task not in ("chains", "typer"):
        of_task["types"] = TYPES
    return dict(settings_without_effect(parse_recipe({"task": task, **of_task, **values}, "recipe")))


@pytest.mark.parametrize(
    ("task", "values", "keys"),
    [
        ("tagger", {"corpus": {**CORPUS, "labels": {"case": "exact"}}}, ["corpus.labels"]),
        ("tagger", {"corpus": {**CORPUS, "dictionary": "c", "labels": {"case": "exact"}}}, []),
        (
            "tagger",
            {**ROOM, "context": {"nouns": "auto", "lemmas": True}},
            ["context.nouns", "context.lemmas"],
        ),
        ("tagger", {**ROOM, "context": {"methods": ["same_noun"], "nouns": "auto", "lemmas": True}}, []),
        (
            "tagger",
            {**ROOM, "context": {"methods": ["before"], "case": False, "seed": 3, "diversity": 0.2}},
            ["context.case", "context.seed", "context.diversity"],
        ),
        ("tagger", {**ROOM, "context": {"ranker": "r"}}, ["context.ranker"]),
        ("tagger", {**ROOM, "context": {"ranker": "r", "candidates": 2}}, []),
        ("tagger", {**ROOM, "context": {"ranker": "r", "minimum": 0.5}}, []),
        ("chains", {"masking": {"mentions": "none", "mention_rate": 0.3}}, ["masking.mention_rate"]),
        ("chains", {"masking": {"token_rate": 0.3}, "loss": {"mlm_weight": 0}}, ["masking.token_rate"]),
        ("chains", {"masking": {"token_rate": 0.3}, "loss": {"temperature": 0.1}}, []),
        (
            "chains",
            {"loss": {"contrast_weight": 0, "temperature": 0.1, "negatives": "both"}},
            ["loss.temperature", "loss.negatives"],
        ),
        ("chains", {"masking": {"token_rate": 0}, "loss": {"mlm_weight": 0.5}}, ["loss.mlm_weight"]),
        ("typer", {"model": {"projection_size": 64}}, ["model.projection_size"]),
        ("typer", {"model": {"projection_size": 64, "head": "labels"}}, []),
        ("typer", {"decoding": {"value": 0.4, "threshold": "tuned"}}, []),
        ("typer", {"min_count": 2, "types": TYPES}, ["min_count"]),
        (
            "typer",
            {"model": {"train_encoder": False}, "training": {"learning_rate": 0.1, "layer_decay": 0.9}},
            ["training.learning_rate", "training.layer_decay"],
        ),
        ("typer", {"model": {"train_encoder": True}, "training": {"learning_rate": 0.1}}, []),
        ("typer", {"min_count": 2, "decoding": {"value": 0.4}}, []),
        ("recognizer", {"decoding": {"overlap": "nested", "flat": "optimal"}}, []),
        ("recognizer", {"model": {"absent_per_step": 2}}, ["model.absent_per_step"]),
        ("recognizer", {"model": {"absent_per_step": 2}, "absent": [{"name": "LOC"}]}, []),
        (
            "recognizer",
            {"model": {"type_encoding": "atomic", "encoders": "shared", "descriptions": "drawn"}},
            ["model.encoders", "model.descriptions"],
        ),
        ("recognizer", {"model": {"encoders": "shared", "descriptions": "drawn"}}, []),
        (
            "recognizer",
            {"model": {"threshold": "tuned"}, "loss": {"beta": 0.4, "threshold_in_denominator": False}},
            ["loss.beta", "loss.threshold_in_denominator"],
        ),
        (
            "recognizer",
            {"model": {"dropout": 0, "span_dropout": "span"}, "loss": {"r_drop": 0.5}},
            ["model.span_dropout", "loss.r_drop"],
        ),
        (
            "recognizer",
            {
                "loss": {"r_drop": 0.5},
                "added": {"checkpoint": "c", "version": "v", "types": ["PER"]},
            },
            ["loss.r_drop"],
        ),
        ("recognizer", {"model": {"span_dropout": "span"}, "loss": {"r_drop": 0.5}}, []),
        (
            "recognizer",
            {
                "model": {"threshold": "tuned"},
                "corpus": {"train": ["t"], "dev": ["d"]},
                "decoding": {"joint": True},
            },
            ["decoding.joint"],
        ),
        ("tagger", {"scaling": {"resize_seconds": 5}}, ["scaling.resize_seconds"]),
        ("tagger", {"scaling": {"resize_seconds": 5, "max_workers": 2}}, []),
        ("gaussian", {"support_words": 9, "corpus": {"train": ["a"]}}, ["support_words"]),
        ("gaussian", {"support_words": 9}, []),
        ("standardizer", {"loss": {"temperature": 0.1, "margin": 1}}, ["loss.temperature"]),
        ("standardizer", {"augmentation": {"prefix": 0.1}}, ["augmentation.prefix"]),
        ("standardizer", {"augmentation": {"prefix": 0.1, "prefixes": ["Apache"]}}, []),
        (
            "standardizer",
            {"loss": {"mining": "infonce", "temperature": 0.1, "margin": 1, "distance": "euclidean"}},
            ["loss.margin", "loss.distance"],
        ),
    ],
)
def test_a_setting_without_effect_is_named(task: str, values: dict[str, Any], keys: list[str]) -> None:
    assert sorted(found(task, **values)) == sorted(keys)


def test_it_says_why() -> None:
    assert found("typer", min_count=2, types=TYPES) == {"min_count": "the types are listed"}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "jobs" / "recipes").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_recipes_have_none(path: Path) -> None:
    assert dict(settings_without_effect(load_recipe(path))) == {}
