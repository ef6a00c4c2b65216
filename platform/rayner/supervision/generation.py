"""Sentences from a language model, asked once for each text: an endpoint with the HTTP interface of OpenAI,
or a model on the user's own machines.

Every answer is appended to a ledger, a JSONL file, before the next is waited for: who is interrupted asks
again only for what has no answer there. Nothing is sent unless the caller says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2

from rayner.counted import counted
from rayner.errors import InputError
from rayner.supervision.endpoint import EMPTY, Dropped, Endpoint, Pause, ask
from rayner.supervision.ledger import Ledger
from rayner.supervision.local_model import LocalModel

GIVE_UP = 20
NO_TEXT = frozenset({EMPTY, "no text, in the ledger"})
"""Why prompts are dropped that a model answered, and that are not asked again."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The answers to prompts, one each, None where there is none, and what became of the others.

    `counts` has `answered` (of them `from the ledger`), `dropped: REASON`, and `not sent`; `asked` the hosts
    that were asked, now or, as far as the ledger says it, for its answers.
    """

    endpoint: str
    """The host that texts would leave for."""
    answers: list[str | None]
    counts: Counter[str] = field(default_factory=Counter)
    asked: set[str] = field(default_factory=set)

    @property
    def host(self) -> str | None:
        """The host that texts would leave for; where none would, those that were asked."""
        return self.endpoint if self.counts["not sent"] else ", ".join(sorted(self.asked)) or None

    def __str__(self) -> str:
        if waiting := self.counts["not sent"]:
            done = self.counts["from the ledger"]
            return f"{counted(waiting, 'text')} would leave for {self.host}; answered in the ledger: {done}"
        return f"{self.host or 'the ledger'}: " + ", ".join(
            f"{name} {count}" for name, count in sorted(self.counts.items())
        )


def generate(
    endpoint: Endpoint | LocalModel,
    prompts: Sequence[str],
    ledger: Path,
    *,
    send: bool = False,
    attempt: int = 0,
) -> Generation:
    """The answers to prompts, from the ledger where it has them, else from the endpoint.

    Equal prompts are asked once. What fails for a while (429, 5xx, a broken connection, a reply that cannot
    be read) is tried again after a pause, and dropped after `endpoint.attempts` tries. A prompt that was
    answered, but never with a text, is not asked again by a later call; one that got no answer, or failed so
    in the end, is. Of an endpoint the model's name counts, not the address: another one with a model of that
    name is not asked for what is in the ledger.

    Args:
        send: whether texts may leave this machine. Without it, what would be sent is counted. They do not
            leave it for a local model.
        attempt: the answer of another attempt is another answer.

    Raises:
        InputError: the endpoint refuses the key or the model, or leaves `GIVE_UP` prompts one after another
            without a text; or the ledger cannot be read, or another process writes it. Answers up to
            there are in the ledger.
    """
    send = send or isinstance(endpoint, LocalModel)
    keys = {prompt: _key(endpoint, prompt, attempt) for prompt in dict.fromkeys(prompts)}
    with Ledger(ledger, write=send, host=endpoint.host) as book:
        known = set(book.answers)
        waiting = [prompt for prompt, key in keys.items() if key not in known]
        dropped: dict[str, str] = {}
        if send and waiting:
            asked = {keys[prompt]: prompt for prompt in waiting}
            is_local = isinstance(endpoint, LocalModel)
            dropped = endpoint.ask(asked, book) if is_local else _send(endpoint, asked, book)
        counts = Counter[str]()
        for key in keys.values():
            counts["from the ledger"] += key in known and book.answers[key] is not None
            if book.answers.get(key) is not None:
                counts["answered"] += 1
            elif key in dropped or key in known:
                counts[f"dropped: {dropped.get(key, 'no text, in the ledger')}"] += 1
            else:
                counts["not sent"] += 1
        asked_hosts = {book.hosts[key] for key in keys.values() if key in book.hosts}
        if send and waiting:
            asked_hosts.add(endpoint.host)
        answers = [book.answers.get(keys[prompt]) for prompt in prompts]
        return Generation(endpoint.host, answers, +counts, asked_hosts)


def generate_usable(
    endpoint: Endpoint | LocalModel,
    prompts: Sequence[str],
    is_usable: Callable[[int, str], bool],
    ledger: Path,
    *,
    send: bool = False,
    tries: int = 3,
) -> Generation:
    """As `generate`; a prompt whose answer cannot be used is asked again, up to `tries` times in all.

    The last answer is given, usable or not. `counts` also has `asked again`: what was answered now.

    Args:
        is_usable: the place of a prompt and its answer -> whether it can be used.
    """
    given = generate(endpoint, prompts, ledger, send=send)
    for attempt in range(1, tries):
        places = [i for i, answer in enumerate(given.answers) if answer and not is_usable(i, answer)]
        again = generate(endpoint, [prompts[i] for i in places], ledger, send=send, attempt=attempt)
        for place, answer in zip(places, again.answers, strict=True):
            given.answers[place] = answer or given.answers[place]
        given.counts["asked again"] += again.counts["answered"] - again.counts["from the ledger"]
        given.counts["not sent"] += again.counts["not sent"]
        given.asked.update(again.asked)
    return replace(given, counts=+given.counts)


def _send(endpoint: Endpoint, prompts: dict[str, str], book: Ledger) -> dict[str, str]:
    """Ask for all, a few at a time, and write the answers; why each of the others has none."""
    secret = _secret(endpoint)
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    stop, pause, silent = threading.Event(), Pause(), itertools.count(1)
    limits = httpx2.Limits(max_connections=endpoint.concurrency)
    dropped: dict[str, str] = {}

    def one(key: str) -> None:
        nonlocal silent
        if stop.is_set():
            return
        try:
            book.add(key, ask(client, endpoint, prompts[key], pause, stop))
            silent = itertools.count(1)
        except Dropped as why:
            dropped[key] = why.reason
            if why.answered:
                book.add(key, None)
            if not stop.is_set() and next(silent) >= GIVE_UP:
                stop.set()
                what = f"left {GIVE_UP} prompts one after another without a text ({why.reason})"
                hint = "see whether it runs"
                if why.answered:
                    hint = "name another --model or --temperature, or give more --max-tokens"
                raise InputError(f"endpoint {endpoint.host}", what, hint) from None
        except BaseException:
            stop.set()
            raise

    client = httpx2.Client(headers=headers, timeout=endpoint.timeout_s, limits=limits, follow_redirects=False)
    with client, ThreadPoolExecutor(endpoint.concurrency) as pool:
        running = [pool.submit(one, key) for key in prompts]
        try:
            for future in running:
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return dropped


def _key(endpoint: Endpoint | LocalModel, prompt: str, attempt: int) -> str:
    """What an answer depends on, as one string: another model or temperature asks anew."""
    body = endpoint.body(prompt) | ({"attempt": attempt} if attempt else {})
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _secret(endpoint: Endpoint) -> str:
    secret = os.environ.get(endpoint.key_variable, "").strip()
    if not (secret.isascii() and secret.isprintable() and " " not in secret):
        # The value itself is named nowhere.
        raise InputError(
            endpoint.key_variable, "holds no key: it has spaces or odd characters", "set it anew"
        )
    return secret
