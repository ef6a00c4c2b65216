"""The `rayner` command."""

from __future__ import annotations

from rayner.cli.app import main

__all__ = ["main"]
