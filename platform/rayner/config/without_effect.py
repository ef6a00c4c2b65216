"""Settings that other settings of the same recipe leave without effect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from rayner.config.base import Settings


def settings_without_effect(settings: Settings, place: str = "") -> Iterator[tuple[str, str]]:
    """The dotted keys that have another value than their default, and no effect; why each has none.

    Args:
        place: what comes before each key.
    """
    for key, why in settings.without_effect().items():
        *path, name = key.split(".")
        section = reduce(getattr, path, settings)
        default = type(section).model_fields[name].get_default(call_default_factory=True)
        if getattr(section, name) != default:
            yield f"{place}{key}", why
    for name in type(settings).model_fields:
        if isinstance(section := getattr(settings, name), Settings):
            yield from settings_without_effect(section, f"{place}{name}.")
