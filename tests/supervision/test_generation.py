"""Answers of an endpoint that misbehaves: retried, counted, never paid twice; the key goes nowhere else."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from rayner.errors import InputError
from rayner.supervision import generation
from rayner.supervision.endpoint import Endpoint, Pause, _retry_after
from rayner.supervision.generation import generate
from rayner.supervision.ledger import Ledger
from tests.supervision.misbehaving_endpoint import Question, endpoint_that

KEY = "sk-do-not-tell-0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", KEY)


def endpoint(url: str, **changes: object) -> Endpoint:
    settings: dict[str, object] = {"timeout_s": 10.0, "attempts": 3, "backoff_s": 0.0, "concurrency": 3}
    return Endpoint(url, "small", key_variable="A_KEY", **{**settings, **changes})  # type: ignore[arg-type]


def echo(question: Question) -> None:
    question.say(f"{question.prompt}!")


def lines_of(ledger: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def test_nothing_is_sent_unless_it_is_said(tmp_path: Path) -> None:
    with endpoint_that(echo) as (url, asked):
        given = generate(endpoint(url), ["a", "b", "a"], tmp_path / "ledger.jsonl")
        assert not asked.prompts
        host = url.removeprefix("http://").removesuffix("/v1")
        assert str(given) == f"2 texts would leave for {host}; answered in the ledger: 0"
        assert given.answers == [None] * 3
        assert not list(tmp_path.iterdir())
        generate(endpoint(url), ["a"], tmp_path / "ledger.jsonl", send=True)
        given = generate(endpoint(url), ["a", "b", "a"], tmp_path / "ledger.jsonl")
        assert str(given) == f"1 text would leave for {host}; answered in the ledger: 1"
        assert given.answers == ["a!", None, "a!"]


def test_answers_come_in_order_and_are_never_asked_for_twice(tmp_path: Path) -> None:
    ledger = tmp_path / "new" / "ledger.jsonl"
    prompts = [f"p{n}" for n in range(40)]
    with endpoint_that(echo) as (url, asked):
        given = generate(endpoint(url), [*prompts, "p7"], ledger, send=True)
        assert given.answers == [*(f"{p}!" for p in prompts), "p7!"]
        assert given.counts == {"answered": 40}
        again = generate(endpoint(url), prompts, ledger, send=True)
        assert again.counts == {"answered": 40, "from the ledger": 40}
        assert set(asked.prompts.values()) == {1}
        assert asked.most_at_once <= 3
        assert asked.keys == {f"Bearer {KEY}"}
        generate(endpoint(url, temperature=0.5), ["p1"], ledger, send=True)
        assert asked.prompts["p1"] == 2, "another temperature asks anew"
    assert len(lines_of(ledger)) == 41


def test_each_misbehaviour_is_tried_again_and_then_dropped(tmp_path: Path) -> None:
    ways = {
        "limit": lambda q: q.send(429, b"slow down"),
        "broken": lambda q: q.send(500, b"oops"),
        "bad json": lambda q: q.send(200, b'{"choices": ['),
        "other json": lambda q: q.send(200, b'{"choices": []}'),
        "page": lambda q: q.send(200, b"<html>no such place</html>"),
        "error": lambda q: q.send(200, b'{"error": {"message": "overloaded"}, "choices": null}'),
        "empty": lambda q: q.say("  "),
        "null": lambda q: q.say(None),
        "half": lambda q: q.send(200, b'{"choices": [{"message": {"content": "\\ud800"}}]}'),
        "cut": lambda q: q.cut(),
        "too long": lambda q: q.send(400, b"context length"),
    }
    reasons = {
        "dropped: status 429": 1,
        "dropped: status 500": 1,
        "dropped: malformed reply": 5,
        "dropped: empty answer": 2,
        "dropped: connection failed": 1,
        "dropped: status 400": 1,
    }
    ledger = tmp_path / "ledger.jsonl"
    with endpoint_that(lambda q: ways.get(q.prompt, echo)(q)) as (url, asked):
        given = generate(endpoint(url), ["fine", *ways], ledger, send=True)
        assert given.answers == ["fine!", *[None] * len(ways)]
        assert given.counts == {"answered": 1, **reasons}
        assert asked.prompts == {"fine": 1, "too long": 1, **{way: 3 for way in ways if way != "too long"}}
        paid = {"empty", "null", "half"}
        generate(endpoint(url), ["fine", *ways], ledger, send=True)
        assert all(asked.prompts[way] == (3 if way in paid else 6) for way in ways if way != "too long")

    def second_time(question: Question) -> None:
        ways[question.prompt](question) if question.turn == 1 else echo(question)

    passing = [way for way in ways if way != "too long"]
    with endpoint_that(second_time) as (url, asked):
        given = generate(endpoint(url), passing, tmp_path / "other.jsonl", send=True)
        assert given.answers == [f"{way}!" for way in passing]
        assert set(asked.prompts.values()) == {2}


@pytest.mark.parametrize(("status", "times"), [(400, 2), (503, 6)])
def test_what_was_paid_is_asked_again_only_if_it_fails_for_a_while_in_the_end(
    tmp_path: Path, status: int, times: int
) -> None:
    def first_without_text(question: Question) -> None:
        question.say(None) if question.turn == 1 else question.send(status, b"no more of this")

    with endpoint_that(first_without_text) as (url, asked):
        for _ in range(2):
            generate(endpoint(url), ["a"], tmp_path / "ledger.jsonl", send=True)
        assert asked.prompts["a"] == times


def test_a_host_is_named_only_where_it_was_asked(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with endpoint_that(echo) as (url, _), endpoint_that(echo) as (other, asked):
        first = generate(endpoint(url), ["a"], ledger, send=True)
        again = generate(endpoint(other), ["a"], ledger, send=True)
        assert (again.host, again.answers) == (endpoint(url).host, ["a!"]) == (first.host, first.answers)
        both = generate(endpoint(other), ["a", "b"], ledger, send=True)
        assert both.host == ", ".join(sorted(endpoint(one).host for one in (url, other)))
        assert asked.prompts == {"b": 1}
        # As ledgers were that did not say who answered.
        rows = [{name: row[name] for name in ("key", "answer")} for row in lines_of(ledger)]
        ledger.write_text("".join(json.dumps(row) + "\n" for row in rows))
        old = generate(endpoint(other), ["a", "b"], ledger, send=True)
        assert (old.host, old.answers) == (None, ["a!", "b!"])


@pytest.mark.parametrize("way", [Question.hang, Question.trickle], ids=["hangs", "trickles"])
def test_what_takes_too_long_is_given_up(tmp_path: Path, way: object) -> None:
    def first_time(question: Question) -> None:
        way(question) if question.turn == 1 else echo(question)  # type: ignore[operator]

    with endpoint_that(first_time) as (url, asked):
        # On a loaded machine, an answer at once may take longer, too.
        patient = endpoint(url, timeout_s=0.3, attempts=100)
        given = generate(patient, ["a"], tmp_path / "ledger.jsonl", send=True)
        assert given.answers == ["a!"]
        assert asked.prompts["a"] >= 2
    with endpoint_that(lambda q: q.hang()) as (url, asked):
        once = endpoint(url, timeout_s=0.3, attempts=1)
        given = generate(once, ["b"], tmp_path / "ledger.jsonl", send=True)
        assert given.counts == {"dropped: timed out": 1}


def test_retry_after_is_kept(tmp_path: Path) -> None:
    moments: list[float] = []

    def limited(question: Question) -> None:
        moments.append(time.monotonic())
        if len(moments) == 1:
            question.send(429, b"", Retry_After="1")
        else:
            echo(question)

    with endpoint_that(limited) as (url, _):
        given = generate(endpoint(url, concurrency=1), ["a", "b"], tmp_path / "ledger.jsonl", send=True)
    assert given.answers == ["a!", "b!"]
    assert moments[1] - moments[0] >= 1


def test_a_pause_holds_for_all_and_ends_where_all_stop() -> None:
    pause, stop = Pause(), threading.Event()
    assert pause.wait(stop)
    begun = time.monotonic()
    pause.extend(0.3)
    pause.extend(0.1)
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(lambda _: pause.wait(stop), range(3)))
    assert time.monotonic() - begun >= 0.3
    pause.extend(1000)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pause.wait, stop)
        stop.set()
        assert not waiting.result()


def test_the_header_retry_after() -> None:
    assert _retry_after("2.5") == 2.5
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=500), usegmt=True)
    assert 100 < _retry_after(soon) <= 500
    assert _retry_after("1000000") == 600
    assert _retry_after("-3") == _retry_after("") == _retry_after("soon") == _retry_after("nan") == 0
    assert _retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    for far in ("07:28:00 +9999999999999999", "99999999999999999999:28:00 GMT"):
        assert _retry_after(f"Wed, 21 Oct 2065 {far}") == 0


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_an_endpoint_that_takes_no_prompt_ends_it(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The reply repeats the key, as some do: no message, log or file may."""
    caplog.set_level(logging.DEBUG)

    def refuse(question: Question) -> None:
        where = {"Location": "http://127.0.0.1:9/stolen"} if status == 302 else {}
        question.send(status, f"Incorrect API key provided: {KEY}".encode(), **where)

    with endpoint_that(refuse) as (url, asked):
        with pytest.raises(
            InputError, match=f"refuses with status {status}; check .* the key in A_KEY"
        ) as raised:
            generate(endpoint(url), [f"p{n}" for n in range(50)], tmp_path / "ledger.jsonl", send=True)
        assert asked.prompts.total() < 10, "it ends at once"
    told = "".join(traceback.format_exception(raised.value)) + caplog.text + repr(endpoint(url))
    files = "".join(path.read_text() for path in tmp_path.iterdir())
    assert KEY not in told + files


def test_an_endpoint_that_is_not_there_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "GIVE_UP", 4)
    with endpoint_that(echo) as (url, _):
        pass
    with pytest.raises(InputError, match=r"left 4 prompts .* without a text \(connection failed\)"):
        generate(endpoint(url), [f"p{n}" for n in range(50)], tmp_path / "ledger.jsonl", send=True)


def test_an_endpoint_whose_answers_are_empty_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "GIVE_UP", 4)
    why = pytest.raises(InputError, match=r"left 4 prompts .* \(empty answer\); .* --max-tokens")
    with endpoint_that(lambda q: q.say("")) as (url, _), why:
        generate(endpoint(url, concurrency=1), list("abcdefg"), tmp_path / "ledger.jsonl", send=True)
    assert len(lines_of(tmp_path / "ledger.jsonl")) == 4, "what was answered is noted"


def test_some_failures_between_answers_do_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "GIVE_UP", 3)
    prompts = [f"{n % 3}.{n}" for n in range(30)]
    with endpoint_that(lambda q: echo(q) if q.prompt[0] == "0" else q.send(500, b"")) as (url, _):
        asking = endpoint(url, concurrency=1, attempts=1)
        given = generate(asking, prompts, tmp_path / "ledger.jsonl", send=True)
    assert given.counts == {"answered": 10, "dropped: status 500": 20}


@pytest.mark.parametrize("bad", ["with space in it", "schlüssel", "a\nb"])
def test_a_key_that_is_none_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("A_KEY", bad)
    with endpoint_that(echo) as (url, asked):
        with pytest.raises(InputError, match="A_KEY: holds no key") as raised:
            generate(endpoint(url), ["a"], tmp_path / "ledger.jsonl", send=True)
        assert not asked.prompts
    assert bad not in str(raised.value)


def test_without_a_key_none_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_KEY")
    with endpoint_that(echo) as (url, asked):
        generate(endpoint(url), ["a"], tmp_path / "ledger.jsonl", send=True)
        assert asked.keys == {None}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://host/v1", "is not an address"),
        ("host/v1", "is not an address"),
        ("http://[::1/v1", "is not an address"),
        ("https://host/v1?key=secret", "is not an address"),
        ("https://user:secret@host/v1", "holds a user name or password"),
        ("https://user:secret@host:x/v1", "holds a user name or password"),
        ("http://host:x/v1", "is not an address"),
        ("http://host:99999/v1", "is not an address"),
        ("http://api..example.com/v1", "is not an address"),
        (f"http://{'a' * 64}.com/v1", "is not an address"),
        ("http://host/v1\x00", "is not an address"),
    ],
)
def test_addresses_that_are_refused(url: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        endpoint(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("given", [KEY, "A KEY", "", "1KEY", "schlüssel"])
def test_a_key_in_place_of_its_variable_is_not_shown(given: str) -> None:
    with pytest.raises(InputError, match="key_variable: is no name of an environment variable") as raised:
        Endpoint("http://user:secret@host/v1", "small", given)
    assert not given or given not in str(raised.value)


def test_settings_that_are_refused() -> None:
    for changes in ({"concurrency": 0}, {"attempts": 0}, {"timeout_s": 0.0}, {"backoff_s": -1.0}):
        with pytest.raises(InputError, match="must be above 0"):
            endpoint("http://host/v1", **changes)


CHILD = """
import sys
from pathlib import Path
from rayner.supervision.endpoint import Endpoint
from rayner.supervision.generation import generate
prompts = [f"p{n}" for n in range(30)]
generate(Endpoint(sys.argv[1], "small", "A_KEY", concurrency=2), prompts, Path(sys.argv[2]), send=True)
"""


def test_killed_and_resumed(tmp_path: Path) -> None:
    """Killed while the eleventh prompt waits; what was answered is asked for once, over both runs."""
    ledger = tmp_path / "ledger.jsonl"
    answered = 0
    enough, lock = threading.Event(), threading.Lock()
    killed = threading.Event()

    def slow_in_the_end(question: Question) -> None:
        nonlocal answered
        with lock:
            answered += 1
            late = answered > 10
        if late and not killed.is_set():
            enough.set()
            question.hang()
        else:
            echo(question)

    with endpoint_that(slow_in_the_end) as (url, asked):
        child = subprocess.Popen([sys.executable, "-c", CHILD, url, str(ledger)], env=os.environ)
        try:
            assert enough.wait(300)
            with pytest.raises(InputError, match="is written by another process"):
                generate(endpoint(url), ["p1"], ledger, send=True)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        killed.set()
        in_ledger = len(lines_of(ledger))
        assert in_ledger >= 9
        with ledger.open("a") as file:
            file.write('{"key": "cut sho')
        prompts = [f"p{n}" for n in range(30)]
        given = generate(Endpoint(url, "small", "A_KEY", concurrency=2), prompts, ledger, send=True)
        assert given.answers == [f"{p}!" for p in prompts]
        assert given.counts["from the ledger"] == in_ledger
        assert sum(times - 1 for times in asked.prompts.values()) <= 2, (
            "only what was in flight is asked again"
        )
    assert len(lines_of(ledger)) == 30


@pytest.mark.parametrize(
    "line", ["[]", '{"key": 1, "answer": "a"}', '{"key": "a"}', "nonsense", '{"key":"a","answer":3}']
)
def test_a_broken_ledger_is_named_by_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"key": "k", "answer": "a"}\n' + line + "\n")
    with pytest.raises(InputError, match=r"ledger.jsonl:2: not an answer of the ledger"):
        Ledger(path, write=True)
    path.write_text('{"key": "k", "answer": "a"}\n')
    with Ledger(path, write=True) as ledger:
        assert ledger.answers == {"k": "a"}, "the failed one let go of the file"


def test_an_answer_that_found_no_room_spoils_none_that_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "ledger.jsonl", os.write

    def full(file: int, data: memoryview) -> int:
        if len(data) > 60:
            return write(file, data[:60])
        raise OSError(28, "No space left on device")

    with Ledger(path, write=True) as ledger:
        ledger.add("a", "first")
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            ledger.add("b", "long " * 20)
        monkeypatch.setattr(os, "write", write)
        ledger.add("c", "last")
    with Ledger(path, write=False) as ledger:
        assert ledger.answers == {"a": "first", "c": "last"}
