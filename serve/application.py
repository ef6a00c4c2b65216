"""Serve's builder, by a name that `serve run` finds from the root of the repository.

    serve run serve.application:build checkpoint=runs/quickstart/run/best

Where the package is installed, `rayner.serving.application:build` is the same.
"""

from __future__ import annotations

from rayner.serving.application import build

__all__ = ["build"]
