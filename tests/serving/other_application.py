"""An application that is none of ours, as another user of a cluster has one."""

from __future__ import annotations

from typing import Any

from ray import serve


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Other:
    """Answers the same to all."""

    async def __call__(self, request: Any) -> str:
        """The answer."""
        return "other"


app = Other.bind()
