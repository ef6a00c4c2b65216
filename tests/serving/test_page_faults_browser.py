"""The page at `/` in a browser, where something is wrong, large, slow or a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser import chromium
from tests.serving.page_visits import (
    TEXT,
    Open,
    asked,
    body,
    find,
    fulfilling,
    marked,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"),
]


def test_what_is_wrong_with_a_request_is_said_where_it_is(visits: Open) -> None:
    page = visits().page
    page.fill("#text", TEXT)
    page.click("#add-type")
    page.keyboard.insert_text("TOWN")
    page.click("#run")
    problem = page.locator("#problem")
    expect(problem).to_contain_text("types.3")
    expect(page.locator("#types textarea").last).to_have_attribute("aria-invalid", "true")
    page.locator("#types textarea").last.fill("towns")
    page.locator("#types input").first.fill("")
    page.click("#run")
    expect(problem).to_contain_text("types.0.name")
    expect(page.locator("#types input").first).to_have_attribute("aria-invalid", "true")
    page.click("#reset-types")
    for name in "ABC":
        page.click("#add-type")
        page.keyboard.insert_text(name)
    page.click("#run")
    expect(problem).to_contain_text("6 types")
    page.locator("#text").evaluate("e => e.value = 'half \\ud83d'")
    page.click("#reset-types")
    page.click("#run")
    expect(problem).to_contain_text("half a surrogate pair")
    expect(page.locator("#text")).to_have_attribute("aria-invalid", "true")
    find(page, TEXT)
    expect(problem).to_be_hidden()
    assert page.locator("[aria-invalid]").count() == 0


def test_a_service_that_is_not_ready_is_asked_once_more(visits: Open) -> None:
    visit = visits("/loading/", offers="")
    page = visit.page
    # The time of the page goes on as the test says: it waits for a second only.
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.reload()
    expect(page.locator("#status")).to_contain_text("once more in 1 second")
    before = len(asked(visit, "/v1/models"))
    page.clock.run_for(1000)
    expect(page.locator("#problem")).to_contain_text("busy or not ready")
    expect(page.locator("#problem")).to_contain_text("still loading")
    assert len(asked(visit, "/v1/models")) == before + 1
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#status")).to_contain_text("once more")


def test_faults_of_the_network_are_said_and_the_next_try_works(visits: Open) -> None:
    visit = visits()
    page, problem = visit.page, visit.page.locator("#problem")
    page.fill("#text", TEXT)
    visit.context.set_offline(True)
    page.click("#run")
    expect(problem).to_contain_text("cannot be reached")
    visit.context.set_offline(False)

    answers: list[dict[str, Any]] = [
        {"status": 502, "content_type": "text/html", "body": "<h1>Bad Gateway</h1>"},
        {"status": 200, "content_type": "text/html", "body": "<h1>Sign in</h1>"},
        {"status": 403, "json": {"detail": "not from here"}},
    ]
    said = ["status 502", "not JSON", "not from here"]
    for answer, message in zip(answers, said, strict=True):
        page.route("**/v1/annotate", fulfilling(answer), times=1)
        page.click("#run")
        expect(problem).to_contain_text(message)
    find(page, TEXT)

    page.clock.install()
    waiting: list[Route] = []
    page.route("**/v1/annotate", lambda route: waiting.append(route))
    page.click("#run")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "true")
    page.click("#stop")
    expect(page.locator("#status")).to_have_text("Stopped.")
    with page.expect_request("**/v1/annotate"):
        page.click("#run")
    page.clock.fast_forward(181_000)
    expect(problem).to_contain_text("No answer within 180 seconds")
    # The one that was stopped, and this one.
    assert len(waiting) == 2
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#stop")).to_be_hidden()


def test_a_long_text_is_shown_in_parts(visits: Open) -> None:
    """The service would read it for minutes: here its reply is made up, and the page is real."""
    page = visits().page
    part = "😀 Ada Lovelace wrote to nobody about anything, " + "as she did in every winter. " * 12
    text = part * (400_000 // len(part))
    own = {"text": "Ada Lovelace", "type": "PER", "score": 0.9, "margin": 1.0, "types": []}
    starts = range(2, len(text), len(part))
    mentions = [{"start": at, "end": at + 12, **own} for at in starts]
    document = {"document_id": "0", "windows": 9, "mentions": mentions, "sentences": None}
    reply = {"documents": [document], "new_types": {}, "versions": {"knowledge_bases": {}}}
    page.route("**/v1/annotate", lambda route: route.fulfill(json=reply))
    page.evaluate("text => document.getElementById('text').value = text", text)
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("found")
    assert page.locator("#more").is_visible()
    # All at once: a click by Playwright waits until the browser has drawn the part before.
    page.evaluate("() => { const more = document.getElementById('more'); while (!more.hidden) more.click() }")
    assert set(marked(page)) == {"Ada Lovelace"}
    assert page.locator("#marked mark").count() == len(mentions) > 1000
    assert page.locator("#table tbody tr").count() == len(mentions)


def test_a_file_is_opened_or_dropped(page: Page) -> None:
    def drop(content: bytes) -> None:
        page.locator("#text").evaluate(
            """(field, bytes) => {
                const dataTransfer = new DataTransfer();
                dataTransfer.items.add(new File([new Uint8Array(bytes)], "a.txt"));
                field.dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true, cancelable: true}));
            }""",
            list(content),
        )

    drop("\ufeffMarie Curie 😀".encode())
    expect(page.locator("#text")).to_have_value("Marie Curie 😀")
    expect(page.locator("#count")).to_have_text("13 characters")
    drop(b"\xff\xfe")
    expect(page.locator("#problem")).to_contain_text("UTF-8")
    expect(page.locator("#text")).to_have_value("Marie Curie 😀")
    page.set_input_files("#file", {"name": "b.txt", "mimeType": "text/plain", "buffer": b"Ada"})
    expect(page.locator("#text")).to_have_value("Ada")
    assert page.locator("#problem").is_hidden()


def test_a_file_is_sent_as_it_is_and_can_be_opened_again(visits: Open) -> None:
    """A field makes its line ends one character, and the service would count others than the file has."""
    visit = visits()
    page = visit.page
    text = f"First line\r\n{TEXT}\r\n"
    file: Any = {"name": "a.txt", "mimeType": "text/plain", "buffer": text.encode()}
    page.set_input_files("#file", file)
    expect(page.locator("#count")).to_have_text(f"{len(text)} characters")
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("found")
    assert body(visit)["documents"][0]["text"] == text
    page.fill("#text", "typed over")
    page.set_input_files("#file", file)
    expect(page.locator("#text")).to_have_value(text.replace("\r", ""))
    page.set_input_files("#file", {"name": "b.txt", "mimeType": "text/plain", "buffer": b"A\0d\0a\0"})
    expect(page.locator("#problem")).to_contain_text("binary, or UTF-16")


def test_a_mention_over_a_line_end_is_looked_up_as_it_is(visits: Open) -> None:
    visit = visits()
    page = visit.page
    own = {"type": "PER", "score": 0.9, "margin": 1.0, "types": [], "entity_id": None, "candidates": []}
    mention = {"start": 0, "end": 12, "text": "Ada\nLovelace", **own}
    document = {"document_id": "0", "windows": 1, "mentions": [mention], "sentences": None}
    reply = {"documents": [document], "new_types": {}, "versions": {"knowledge_bases": {}}}
    page.route("**/v1/annotate", fulfilling({"json": reply}))
    find(page, "Ada\nLovelace")
    page.locator("#table .link").click()
    page.click("#detail button")
    expect(page.locator("#found h3")).to_have_text("Ada Lovelace")
    assert json.loads(asked(visit, "/v1/standardize")[-1].post_data or "")["mentions"] == ["Ada Lovelace"]


def test_a_label_is_beside_its_mention_where_the_line_runs_the_other_way(page: Page) -> None:
    own = {"type": "NUM", "score": 0.9, "margin": 1.0, "types": [], "text": "9.6"}
    text = "\u05e9\u05dc\u05d5\u05dd Java 9.6 \u05e2\u05d5\u05dc\u05dd"
    mention = {"start": 10, "end": 13, **own}
    document = {"document_id": "0", "windows": 1, "mentions": [mention], "sentences": None}
    reply = {"documents": [document], "new_types": {}, "versions": {"knowledge_bases": {}}}
    page.route("**/v1/annotate", fulfilling({"json": reply}))
    find(page, text)
    apart = page.locator("#marked mark").evaluate(
        """mark => {
            const range = document.createRange();
            range.selectNode(mark.firstChild);
            const [own, label] = [range, mark.querySelector(".chip")].map(one => one.getBoundingClientRect());
            return Math.max(label.left - own.right, own.left - label.right);
        }"""
    )
    assert apart < 20


def test_what_is_stopped_or_refused_leaves_no_dead_page_and_nothing_of_before(visits: Open) -> None:
    page = visits().page
    waiting: list[Route] = []
    page.route("**/v1/models", lambda route: waiting.append(route), times=1)
    page.reload()
    page.click("#stop")
    expect(page.locator("#problem")).to_contain_text("not asked what it offers")
    page.fill("#text", TEXT)
    page.click("#run")
    expect(page.locator("#status")).to_contain_text("found")

    page.route("**/v1/annotate", lambda route: waiting.append(route), times=1)
    page.click("#run")
    page.fill("#text", " ")
    page.click("#run")
    expect(page.locator("#problem")).to_contain_text("No text")
    expect(page.locator("#stop")).to_be_hidden()

    page.fill("#text", TEXT)
    page.route("**/v1/annotate", lambda route: waiting.append(route), times=1)
    page.click("#run")
    page.fill("#mention", "Ada")
    page.click("#look-up")
    expect(page.locator("#status")).to_have_text("The search for mentions was stopped.")
    # What is offered, and two searches that were ended: none was asked again.
    assert len(waiting) == 3


def test_a_long_command_counts_bytes(page: Page) -> None:
    page.locator("#curl-part summary").click()
    for letter, is_long in (("a", False), ("я", True)):
        page.evaluate(f"() => document.getElementById('text').value = '{letter}'.repeat(70000)")
        page.locator("#text").dispatch_event("input")
        command = page.input_value("#curl")
        assert letter * 70_000 in command
        assert ("<<'JSON'" in command) is is_long
