"""The page at `/`, as it is served."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from rayner.serving.application_settings import ApplicationSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service


def client_of(page: bool = True, root_path: str = "") -> TestClient:
    app = create_app(Service(ApplicationSettings(page=page), device="cpu"))
    return TestClient(app, root_path=root_path)


def files(html: str) -> list[str]:
    return re.findall(r'(?:src|href)="(page/[^"]+)"', html)


def test_the_page_and_its_files_come_under_a_strict_policy() -> None:
    client = client_of()
    page = client.get("/")
    linked = files(page.text)
    assert {name.rpartition(".")[2] for name in linked} == {"css", "js", "svg"}
    replies = [page, *(client.get(f"/{name}") for name in linked)]
    kinds = {"text/html", "text/css", "text/javascript", "image/svg+xml"}
    assert {reply.headers["Content-Type"].partition(";")[0] for reply in replies} == kinds
    for reply in replies:
        assert reply.status_code == 200
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    assert not re.search(r"<style|<script(?! type=\"module\" src=)|\sstyle=|\son\w+=|https?://", page.text)


def test_every_module_that_a_module_imports_is_served() -> None:
    client = client_of()
    waiting, seen = [name for name in files(client.get("/").text) if name.endswith(".js")], set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            reply = client.get(f"/{name}")
            assert reply.status_code == 200, name
            waiting += [f"page/{other}" for other in re.findall(r'from "\./([^"]+)"', reply.text)]
    assert len(seen) > 3


def test_under_a_prefix_its_files_are_found_too() -> None:
    client = client_of(root_path="/genes")
    page = client.get("/genes", follow_redirects=True)
    assert page.url.path == "/genes/", "from where `page/app.js` is under the prefix"
    assert client.get(f"/genes/{files(page.text)[0]}").status_code == 200


@pytest.mark.parametrize("path", ["/page/", "/page/index.html", "/page/../http.py", "/page/%2e%2e/http.py"])
def test_nothing_else_is_served(path: str) -> None:
    assert client_of().get(path).status_code == 404


def test_a_service_may_go_without_the_page() -> None:
    client = client_of(page=False)
    assert {client.get(path).status_code for path in ("/", "/page/app.js")} == {404}
