"""The page at `/` in a browser, on a small service without Ray."""

from __future__ import annotations

import json
import random
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

import rayner
from rayner.data.schema import Document
from tests.browser import chromium
from tests.serving.page_visits import (
    EVIL,
    HOSTILE,
    KEY,
    TEXT,
    Open,
    asked,
    body,
    find,
    marked,
    select,
)
from tests.tasks.small import TYPES

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"),
]

EMOJI = (
    "😀👩‍🚀 e\u0301é In Paris, Marie Curie 🎉🎉 met Ada Lovelace by the Seine. "
    "😀 Curie's letters reached London."
)


def expected(page_folder: Path, text: str, **options: Any) -> Document:
    (document,) = rayner.load(page_folder / "pipeline.yaml", "cpu", **options).predict([text])
    return document


def test_mentions_are_shown_nested_with_all_that_is_known_of_them(visits: Open, page_folder: Path) -> None:
    visit = visits()
    page = find(visit.page, TEXT)
    select(page, "overlap", "nested")
    reply = asked(visit)[-1].response().json()["documents"][0]  # type: ignore[union-attr]
    texts = [mention["text"] for mention in reply["mentions"]]
    assert marked(page) == texts
    assert page.locator("#marked mark mark").count() > 0
    expect(page.locator("#service")).to_contain_text("types: typer")
    assert page.locator("#marked").evaluate("e => e.textContent.length") > len(TEXT)
    linked = next(i for i, mention in enumerate(reply["mentions"]) if mention["candidates"])
    page.locator("#table .link").nth(linked).click()
    mention = reply["mentions"][linked]
    detail = page.locator("#detail")
    context = next(c for s in reply["sentences"] for c in s["contexts"])
    for said in (
        mention["text"],
        mention["type"],
        f"{mention['start']} to {mention['end']}",
        f"{mention['score']:.3f}",
        mention["types"][0]["name"],
        mention["name"],
        *(candidate["entity_id"] for candidate in mention["candidates"]),
        context["text"],
    ):
        expect(detail).to_contain_text(said)
    # Scores of taggers and of calibrated models have no threshold at 0.5.
    expect(detail).not_to_contain_text("is the threshold")


def test_offsets_beyond_the_basic_plane_are_exact(page: Page, page_folder: Path) -> None:
    find(page, EMOJI)
    mentions = expected(page_folder, EMOJI).mentions
    assert len(mentions) > 3
    assert marked(page) == [EMOJI[m.start : m.end] for m in mentions]
    page.locator("#marked").evaluate("e => e.querySelectorAll('.chip').forEach(chip => chip.remove())")
    assert page.locator("#marked").evaluate("e => e.textContent") == EMOJI
    cells = page.locator("#table tbody td.number").all_text_contents()
    assert [int(c) for c in cells if "." not in c] == [at for m in mentions for at in (m.start, m.end)]


def test_spans_of_any_kind_become_a_forest_of_their_own_characters(page: Page) -> None:
    numbers = random.Random(0)
    text = "".join(numbers.choice("a\u0301é𝓢😀 ") for _ in range(40))
    cases = [
        [sorted(numbers.sample(range(len(text) + 1), 2)) for _ in range(numbers.randint(0, 8))]
        for _ in range(300)
    ]
    found = page.evaluate(
        """async ([text, cases]) => {
            const {forest, unitsOf, length} = await import(new URL("page/text.js", document.baseURI).href);
            const flat = (pieces, parent) => pieces.flatMap(p =>
                [[p.index, p.start, p.end, p.isLast, parent?.start ?? 0, parent?.end ?? length(text)],
                 ...flat(p.children, p)]);
            const points = Array.from({length: length(text) + 1}, (_, i) => i);
            const units = unitsOf(text, points);
            return [points.map(p => units.get(p)), cases.map(spans =>
                flat(forest(spans.map(([start, end]) => ({start, end})))))];
        }""",
        [text, cases],
    )
    units, forests = found
    assert units == [len(text[:i].encode("utf-16-le")) // 2 for i in range(len(text) + 1)]
    for spans, pieces in zip(cases, forests, strict=True):
        for index, span in enumerate(spans):
            own = sorted(piece for piece in pieces if piece[0] == index)
            assert [at for _, start, end, *_ in own for at in range(start, end)] == list(range(*span))
            assert [piece[3] for piece in own] == [False] * (len(own) - 1) + [True]
        assert all(low <= start and end <= high for _, start, end, _, low, high in pieces)


def test_a_text_that_looks_like_markup_and_hostile_names_stay_text(visits: Open) -> None:
    visit = visits()
    page = visit.page
    page.locator("#types input").first.fill(EVIL)
    find(page, f"{EVIL} In Paris, Marie Curie met Ada Lovelace.")
    assert body(visit)["types"][0] == {"name": EVIL, "description": TYPES[0]["description"]}
    select(page, "base", "=index")
    assert page.locator("#marked").evaluate("(e, evil) => e.textContent.includes(evil)", EVIL)
    chips = page.locator("#marked .chip", has_text=EVIL)
    assert chips.count() > 0
    chips.first.click()
    expect(page.locator("#detail")).to_contain_text(EVIL)
    page.locator("#detail button").click()
    page.fill("#mention", HOSTILE.name)
    page.click("#look-up")
    expect(page.locator("#found")).to_contain_text(f"{HOSTILE.name} {HOSTILE.entity_id}")
    assert page.locator("#answer img, #answer script, #answer b, #options img").count() == 0
    assert page.title().startswith("rayner")


def test_a_long_text_scrolls_within_its_box_and_leaves_no_empty_page_below(page: Page) -> None:
    find(page, TEXT + "\n")
    short = page.evaluate("() => document.documentElement.scrollHeight")
    box = page.locator("#marked").evaluate("e => [e.clientHeight, parseFloat(getComputedStyle(e).maxHeight)]")
    find(page, (TEXT + "\n") * 60)
    assert page.locator("#marked").evaluate("e => e.scrollHeight > 3 * e.clientHeight")
    # The box and the table each grow to what they may have at most.
    table = page.locator("#table").evaluate("e => parseFloat(getComputedStyle(e).maxHeight)")
    assert page.evaluate("() => document.documentElement.scrollHeight") < short + box[1] - box[0] + table


def test_each_line_has_the_direction_of_its_own_text(page: Page) -> None:
    lines = ["Paris is here.", "\u05e4\u05e8\u05d9\u05d6 Paris.", "\u0628\u0627\u0631\u064a\u0633 Paris."]
    find(page, "\n".join(lines))
    width, latin, *others = page.locator("#marked").evaluate(
        """box => {
            box.querySelectorAll(".chip").forEach(chip => chip.remove());
            box.textContent = box.textContent;
            const left = ({index}) => {
                const first = document.createRange();
                first.setStart(box.firstChild, index);
                first.setEnd(box.firstChild, index + 1);
                return first.getBoundingClientRect().left - box.getBoundingClientRect().left;
            };
            return [box.clientWidth, ...[...box.textContent.matchAll(/^/gm)].map(left)];
        }"""
    )
    assert latin < 0.1 * width
    assert len(others) == 2
    assert min(others) > 0.8 * width


def test_the_keyboard_is_enough(visits: Open) -> None:
    visit = visits()
    page, focused = visit.page, visit.page.locator(":focus")

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if focused.evaluate(f"e => e.matches('{selector}')"):
                return
        pytest.fail(f"no way to {selector}")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.insert_text(TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#status")).to_contain_text("found")
    tab_to("#shift")
    with page.expect_response("**/v1/annotate"):
        page.keyboard.press("Home")
    expect(page.locator("#shift-value")).to_have_text("-10")
    assert body(visit)["shift"] == -10
    tab_to(".chip")
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_be_visible()
    page.locator("#text").focus()
    tab_to(".remove")
    page.keyboard.press("Enter")
    expect(page.locator("#types li")).to_have_count(2)
    expect(page.locator("#types li .remove").first).to_be_focused()
    assert page.locator(":focus").evaluate("e => getComputedStyle(e).outlineStyle") != "none"


@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 1100), (False, 400)])
def test_everything_can_be_read_and_reached(visits: Open, dark: bool, width: int) -> None:
    visit = visits(dark=dark, width=width)
    page = visit.page
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert visit.violations() == []
    select(page, "overlap", "nested")
    find(page, TEXT)
    page.locator("#marked .chip").first.click()
    page.fill("#mention", "Curie")
    page.click("#look-up")
    expect(page.locator("#found")).to_contain_text("curie")
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert visit.violations() == []
    page.fill("#text", "")
    page.click("#run")
    expect(page.locator("#problem")).to_be_visible()
    assert visit.violations() == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == dark


def test_a_key_is_sent_and_never_kept(visits: Open) -> None:
    visit = visits("/guarded/", offers="")
    page = visit.page
    expect(page.locator("#problem")).to_contain_text("asks for an API key")
    page.fill("#key", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#problem")).to_contain_text("asks for an API key")
    page.fill("#key", KEY)
    page.click("#use-key")
    expect(page.locator("#service")).to_contain_text("3 types")
    find(page, TEXT)
    page.locator("#curl-part summary").click()
    expect(page.locator("#curl")).to_have_value(re.compile(r"Bearer \$RAYNER_API_KEY"))
    assert "cret" not in page.input_value("#curl")
    assert asked(visit)[-1].headers["authorization"] == f"Bearer {KEY}"
    assert not any("cret" in request.url or "cret" in (request.post_data or "") for request in visit.asked)
    stored = page.evaluate(
        """async () => [localStorage.length, sessionStorage.length, document.cookie, history.state,
            window.name, (await indexedDB.databases()).length, location.href,
            (await navigator.serviceWorker?.getRegistrations())?.length ?? 0]"""
    )
    assert stored == [0, 0, "", None, "", 0, page.url, 0]
    assert visit.context.storage_state() == {"cookies": [], "origins": []}
    page.reload()
    expect(page.locator("#problem")).to_contain_text("asks for an API key")
    assert page.input_value("#key") == ""


def test_another_key_leaves_what_was_asked_for_as_it_is(visits: Open) -> None:
    visit = visits("/several/")
    page = visit.page
    page.select_option("#model", "plain")
    page.click("#add-type")
    page.keyboard.insert_text("TOWN")
    page.locator("#types textarea").last.fill("towns and villages")
    find(page, TEXT)
    sent = body(visit)
    page.locator("#key-part summary").click()
    page.fill("#key", KEY)
    with page.expect_response("**/v1/models"):
        page.click("#use-key")
    find(page, TEXT)
    assert body(visit) == sent
    assert sent["model"] == "plain"
    assert sent["types"][-1]["name"] == "TOWN"


def test_the_command_asks_what_the_page_asks(visits: Open) -> None:
    visit = visits()
    page = visit.page
    text = 'In Paris, Curie\'s letter\nreached `Acme` $(late) \\ "so" 😀.'
    page.locator("#curl-part summary").click()
    find(page, text)
    select(page, "overlap", "flat")
    words = shlex.split(page.input_value("#curl").replace("\\\n", ""))
    assert words == [
        "curl",
        asked(visit)[-1].url,
        "-H",
        "Content-Type: application/json",
        "--data-raw",
        asked(visit)[-1].post_data,
    ]
    assert body(visit) == {"documents": [{"text": text}], "overlap": "flat", "contexts": True}


def test_types_and_linking_are_changed_and_put_back(visits: Open) -> None:
    visit = visits()
    page = find(visit.page, TEXT)
    assert body(visit).keys() == {"documents", "contexts"}, "what is left out is as configured"
    page.click("#add-type")
    page.keyboard.insert_text("TOWN")
    page.locator("#types textarea").last.fill("towns and villages")
    page.locator("#point").focus()
    page.keyboard.press("End")
    expect(page.locator("#point-value")).to_have_text("high precision")
    page.locator("#top-k").focus()
    page.keyboard.press("Home")
    find(page, TEXT)
    sent = body(visit)
    assert sent["types"] == [{"name": t["name"]} for t in TYPES] + [
        {"name": "TOWN", "description": "towns and villages"}
    ]
    assert (sent["operating_point"], sent["top_k"]) == ("high_precision", 1)
    page.click("#reset-types")
    page.click("#reset-linking")
    expect(page.locator("#point-value")).to_have_text("as configured (never NIL)")
    find(page, TEXT)
    assert body(visit).keys() == {"documents", "contexts"}
    select(page, "base", "none")
    assert asked(visit, "/v1/recognize")


def test_one_of_several_models_is_chosen(visits: Open) -> None:
    visit = visits("/several/")
    page = visit.page
    assert page.locator("#model option").all_text_contents() == ["as configured", "plain"]
    find(page, TEXT)
    assert "model" not in body(visit)
    with page.expect_response("**/v1/annotate"):
        select(page, "model", "plain")
    sent = body(visit)
    assert (sent["model"], sent["knowledge_base"]) == ("plain", "index"), "as no other is its own"
    assert "contexts" not in sent
    with page.expect_response("**/v1/annotate"):
        select(page, "model", "")
    assert body(visit).keys() == {"documents", "contexts"}
    expect(visits().page.locator("#model-part")).to_be_hidden()


def test_a_mention_is_looked_up_where_it_was_linked(visits: Open) -> None:
    visit = visits()
    page = visit.page

    def with_another(route: Route) -> None:
        found = route.fetch().json()
        own = found["knowledge_bases"]["index"]
        places = {**own, "types": ["LOC"], "operating_points": [], "operating_point": "never"}
        found["knowledge_bases"] = {"places": places, "index": own}
        route.fulfill(json=found)

    page.route("**/v1/models", with_another)
    page.locator("#key-part summary").click()
    page.click("#use-key")
    expect(page.locator("#service")).to_contain_text("places")
    find(page, TEXT)
    page.locator("#marked .chip", has_text="PER").first.click()
    page.locator("#detail button").click()
    expect(page.locator("#found")).to_contain_text("curie")
    expect(page.locator("#lookup-base")).to_have_value("index")
    page.locator("#point").press("End")
    expect(page.locator("#point-value")).to_have_text("high precision")
    page.click("#look-up")
    select(page, "lookup-base", "places")
    # Its answer comes after the request was written down, which its sending alone does not.
    with page.expect_response(lambda one: "places" in (one.request.post_data or "")) as answered:
        page.click("#look-up")
    given = json.loads(answered.value.request.post_data or "")
    assert given == {"mentions": ["Marie Curie"], "knowledge_base": "places"}
    bodies = [json.loads(request.post_data or "") for request in asked(visit, "/v1/standardize")]
    assert [one.get("operating_point") for one in bodies] == [None, "high_precision", None]


def test_a_service_of_names_alone_looks_them_up(visits: Open) -> None:
    page = visits("/names/", offers="people: 3 entities").page
    expect(page.locator("#ask")).to_be_hidden()
    for mention, answer in (("Maria Sklodowska", "curie"), ("...", "NIL: only punctuation")):
        page.fill("#mention", mention)
        page.keyboard.press("Enter")
        expect(page.locator("#found")).to_contain_text(answer)
    assert "First candidate" not in page.inner_text("#found")
