"""A small service without Ray whose page tests open in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount

from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service
from tests.browser import Visit
from tests.serving.checkpoints import PEOPLE, pipeline_folder
from tests.serving.page_visits import HOSTILE, KEY, Open
from tests.serving.running import running
from tests.tasks.small import DOCUMENTS, NESTED

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return pipeline_folder(folder, (*PEOPLE, HOSTILE), [*DOCUMENTS, *NESTED], 0.0)


@pytest.fixture(scope="module")
def page_address(page_folder: Path) -> Iterator[str]:
    """One service open to all, and under prefixes one with a key, one of names alone, one of several models,
    and one that loads."""
    limits = {"limits": {"characters": 10_000_000, "types": 5}}
    service, names, several, loading = (
        Service(ApplicationSettings.model_validate(limits), device="cpu") for _ in range(4)
    )
    people = {"index": str(page_folder / "people/index"), "standardizer": str(page_folder / "people/best")}
    asyncio.run(service.load(ModelSettings(checkpoint=str(page_folder / "pipeline.yaml"))))
    models = {"plain": str(page_folder / "recognizer"), "fine": str(page_folder / "typer")}
    asyncio.run(several.load(ModelSettings(checkpoint=str(page_folder / "pipeline.yaml"), models=models)))
    asyncio.run(names.load(ModelSettings.model_validate({"knowledge_bases": {"people": people}})))
    routes = [
        Mount("/guarded", create_app(service, (KEY,))),
        Mount("/names", create_app(names)),
        Mount("/several", create_app(several)),
        Mount("/loading", create_app(loading)),
        Mount("/", create_app(service)),
    ]
    with running(Starlette(routes=routes)) as address:
        yield address


@pytest.fixture
def visits(page_address: str, browser: Browser) -> Iterator[Open]:
    """Opens a page; none may ask another host, nor be refused anything by its own policy."""
    opened: list[Visit] = []

    def visit(path: str = "/", offers: str = "3 types", **options: Any) -> Visit:
        one = Visit(browser, page_address, **options)
        opened.append(one)
        one.page.goto(page_address + path)
        expect(one.page.locator("#service")).to_contain_text(offers)
        return one

    yield visit
    outside, complaints = [[*map(str, v.outside)] for v in opened], [v.complaints for v in opened]
    for one in opened:
        one.close()
    assert not any(outside), outside
    assert not any(complaints), complaints


@pytest.fixture
def page(visits: Open) -> Page:
    return visits().page
