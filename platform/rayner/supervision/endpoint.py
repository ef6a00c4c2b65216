"""One question to an endpoint with the HTTP interface of OpenAI, tried again until it is answered."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2

from rayner.data.readers.base import is_encodable
from rayner.errors import InputError

EMPTY = "empty answer"
"""Why a question that a model answered has no text."""
MAX_TOKENS = 200
"""Of an answer, where nobody asks for another number."""
_LARGEST = 1 << 20
"""Bytes of a reply."""
_LONGEST_PAUSE = 600.0
_PASSING = frozenset({408, 409, 425, 429})
_PROMPT_AT_FAULT = frozenset({400, 413, 422})
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model answers, and how it is asked.

    Args:
        url: up to the version: `https://api.example.com/v1`.
        key_variable: the environment variable with the key; one that is empty or not set sends none.
        concurrency: questions at a time.
        timeout_s: seconds that a question may take.
        attempts: tries a question, the first included.
        backoff_s: seconds before the second try; each further pause is twice as long.
    """

    url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    concurrency: int = 4
    timeout_s: float = 60.0
    attempts: int = 5
    backoff_s: float = 1.0
    temperature: float = 1.0
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(self.key_variable):
            # It may be the key itself: what was given is named nowhere.
            what = "is no name of an environment variable"
            hint = "put the key into a variable such as OPENAI_API_KEY, and name that"
            raise InputError("endpoint key_variable", what, hint)
        usable, secret = False, None
        try:
            parts = urlsplit(self.url)
            usable = (
                parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment)
            )
            secret = parts.username or parts.password
            # What a connection would be asked for: a port that is none, a label that no name may have.
            _ = parts.port, httpx2.URL(self.url).raw_host.decode("ascii").encode("idna")
        except (ValueError, httpx2.InvalidURL):
            usable = False
        if secret:
            what = "holds a user name or password"
            raise InputError("endpoint url", what, f"put the key into the variable {self.key_variable}")
        if not usable:
            hint = "write one such as https://api.example.com/v1"
            raise InputError("endpoint url", "is not an address of an endpoint", hint)
        if (
            min(self.concurrency, self.attempts, self.max_tokens) < 1
            or self.timeout_s <= 0
            or self.backoff_s < 0
        ):
            what = "concurrency, attempts, max_tokens and timeout_s must be above 0, backoff_s not below"
            raise InputError("endpoint", what)

    @property
    def host(self) -> str:
        """The host that texts would leave for."""
        return urlsplit(self.url).netloc

    def body(self, prompt: str) -> dict[str, Any]:
        """The JSON object that is sent."""
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }


class Dropped(Exception):
    """A question without an answer: why, and whether the model answered (and may have been paid)."""

    def __init__(self, reason: str, answered: bool) -> None:
        self.reason, self.answered = reason, answered
        super().__init__(reason)


class Pause:
    """The time until which nobody asks: one limit is everybody's."""

    def __init__(self) -> None:
        self._until = 0.0
        self._lock = threading.Lock()

    def extend(self, seconds: float) -> None:
        """Ask nothing for so long."""
        with self._lock:
            self._until = max(self._until, time.monotonic() + seconds)

    def wait(self, stop: threading.Event) -> bool:
        """Wait until questions are welcome; whether to go on."""
        while (left := self._until - time.monotonic()) > 0:
            if stop.wait(left):
                return False
        return not stop.is_set()


def ask(client: httpx2.Client, endpoint: Endpoint, prompt: str, pause: Pause, stop: threading.Event) -> str:
    """The answer to a prompt.

    Raises:
        Dropped: no try was answered with a text, or the endpoint does not take this prompt, or `stop` is set.
        InputError: the endpoint takes no prompt at all: a wrong key, model or address.
    """
    reason, answered, last = "stopped", False, False
    for attempt in range(endpoint.attempts):
        if not pause.wait(stop) or (attempt and stop.wait(endpoint.backoff_s * 2 ** (attempt - 1))):
            raise Dropped("stopped", answered=False)
        last = False
        try:
            status, headers, data = _post(client, endpoint, prompt)
        except httpx2.TimeoutException:
            reason = "timed out"
            continue
        except httpx2.RequestError:
            reason = "connection failed"
            continue
        if status == 200:
            text, reason, last = _text(data)
            if text is not None:
                return text
            answered |= last
        elif status in _PASSING or status >= 500:
            reason = f"status {status}"
            if seconds := _retry_after(headers.get("retry-after", "")):
                pause.extend(seconds)
        elif status in _PROMPT_AT_FAULT:
            raise Dropped(f"status {status}", answered)
        else:
            # Nothing of the reply is shown: some endpoints repeat the key in it.
            hint = f"check the address, the model and the key in {endpoint.key_variable}"
            raise InputError(f"endpoint {endpoint.host}", f"refuses with status {status}", hint)
    # What fails for a while in the end is asked again another time.
    raise Dropped(reason, answered=last)


def _post(client: httpx2.Client, endpoint: Endpoint, prompt: str) -> tuple[int, httpx2.Headers, bytes]:
    """Status, headers and body of a reply that comes in time."""
    deadline = time.monotonic() + endpoint.timeout_s
    url = endpoint.url.rstrip("/") + "/chat/completions"
    with client.stream("POST", url, json=endpoint.body(prompt)) as reply:
        data = bytearray()
        for part in reply.iter_bytes():
            data += part
            # The time-outs of the library are between bytes: a reply that trickles would never end.
            if time.monotonic() > deadline:
                raise httpx2.ReadTimeout("the reply takes too long")
            if len(data) > _LARGEST:
                break
        return reply.status_code, reply.headers, bytes(data)


def _text(data: bytes) -> tuple[str | None, str, bool]:
    """The text of a reply, or why it has none, and whether it is a model's answer: a page of something else,
    or an error in place of an answer, is none."""
    try:
        message = json.loads(data)["choices"][0]["message"]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None, "malformed reply", False
    if not isinstance(message, dict):
        return None, "malformed reply", False
    content = message.get("content")
    if not isinstance(content, str) or not content.strip():
        return None, EMPTY, True
    if not is_encodable(content):
        return None, "malformed reply", True
    return content.strip(), "", True


def _retry_after(value: str) -> float:
    """Seconds that a header `Retry-After` asks for, as a number or a date; 0 for none."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            # Numbers that are too large for a date are no date either.
            return 0.0
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return min(seconds, _LONGEST_PAUSE) if seconds > 0 else 0.0
