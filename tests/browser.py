"""A Chromium for tests: what a page asked for, what it complained of, and what axe-core finds in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE = 90_000
"""Milliseconds. A long text takes a page seconds, and beside other tests many times as long."""


def chromium() -> str | None:
    """The Chromium of this machine, or the one that RAYNER_CHROMIUM names."""
    return os.environ.get("RAYNER_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def started(path: str) -> Iterator[Browser]:
    """A browser without a window. Its thread has an event loop meanwhile, and takes no `asyncio.run`."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # Pages are looked at by what they hold: no process has to draw them in the place of a GPU.
        browser = playwright.chromium.launch(
            executable_path=path,
            args=["--disable-dev-shm-usage", "--disable-gpu", "--disable-software-rasterizer"],
        )
        yield browser
        browser.close()


class Visit:
    """A page of a fresh profile, which reaches no host but the one that is visited.

    Attributes:
        asked: every request, in order.
        outside: those to other hosts, none of which got there.
        complaints: errors of scripts, and what the page's policy refused.
    """

    def __init__(self, browser: Browser, base: str = "", width: int = 1100, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.context.set_default_timeout(PATIENCE)
        self.base = base
        self.asked: list[Request] = []
        self.outside: list[str] = []
        self.complaints: list[str] = []
        self.context.route("**/*", self._one)
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda m: self.complaints.append(m.text) if "Policy" in m.text else None)

    def _one(self, route: Route) -> None:
        self.asked.append(route.request)
        if self.base and urlsplit(route.request.url).netloc == urlsplit(self.base).netloc:
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def violations(self) -> list[Any]:
        """What axe-core says against the page's accessibility, contrast included."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [(one["id"], [node["failureSummary"] for node in one["nodes"]]) for one in found]

    def close(self) -> None:
        """Close the page and forget its profile."""
        self.context.close()
