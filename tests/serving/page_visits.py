"""What tests of the page at `/` do with it: open it, ask, and read what it shows and sends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from rayner.data.schema import Entity
from tests.browser import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request, Route

EVIL = "<img src=x onerror=\"document.title='evil'\"><script>document.title='evil'</script>"
HOSTILE = Entity(f'"><b>{EVIL}', f"Grace {EVIL}", ("Grace Hopper",))
KEY = "sécret-key"
TEXT = "University of Paris hired Marie Curie at once. London Library opened near Paris."
Open = Callable[..., Visit]


def find(page: Page, text: str) -> Page:
    """Find the mentions of a text."""
    page.fill("#text", text)
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("found")
    return page


def marked(page: Page) -> list[str]:
    """The texts of the marks, without their labels, in the order of the mentions."""
    rows = page.locator("#marked mark").evaluate_all(
        """marks => marks.map(mark => {
            const copy = mark.cloneNode(true);
            copy.querySelectorAll(".chip").forEach(chip => chip.remove());
            return [Number(mark.dataset.mention), copy.textContent];
        })"""
    )
    return [text for _, text in sorted(rows)]


def asked(visit: Visit, path: str = "/v1/annotate") -> list[Request]:
    return [request for request in visit.asked if request.url.endswith(path)]


def body(visit: Visit) -> dict[str, Any]:
    """That of the last request for mentions."""
    return json.loads(asked(visit)[-1].post_data or "")


def select(page: Page, id_: str, value: str) -> None:
    page.select_option(f"#{id_}", value)
    expect(page.locator("#stop")).to_be_hidden()


def fulfilling(answer: dict[str, Any]) -> Callable[[Route], None]:
    """What is between the page and the service, and answers itself."""

    def fulfill(route: Route) -> None:
        route.fulfill(**answer)

    return fulfill
