"""A replica, without Serve around it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import RecipeError
from rayner.serving.deployment import Replica
from tests.serving.checkpoints import recognizer_folder


def replica_of(settings: dict[str, Any]) -> Any:
    """One without what `serve.ingress` puts around it."""
    return Replica.__bases__[0](settings)


def test_a_slip_in_a_changed_user_config_keeps_the_models_that_answer(tmp_path: Path) -> None:
    replica = replica_of({})
    good = {"checkpoint": str(recognizer_folder(tmp_path / "recognizer"))}
    wrong = {"checkpiont": good["checkpoint"]}
    with pytest.raises(RecipeError, match="user_config: checkpiont"):
        asyncio.run(replica.reconfigure(wrong))
    asyncio.run(replica.reconfigure(good))
    asyncio.run(replica.reconfigure(wrong))
    assert "did you mean 'checkpoint'" in asyncio.run(replica.failed_change())
    replica.check_health()


def test_a_replica_without_models_says_where_to_name_them() -> None:
    with pytest.raises(RecipeError, match="neither `args` nor `user_config`"):
        replica_of({}).check_health()
