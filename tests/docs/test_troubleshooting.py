"""The messages that docs/troubleshooting.md explains are those of the code."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

OF_OTHERS = {"Found multiple active Ray instances"}
_PAGE = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
# A message with backticks is within two.
ROWS = [one or two for one, two in re.findall(r"^\| (?:`([^`]+)`|``(.+?) ``) \|", _PAGE, re.MULTILINE)]


@pytest.fixture(scope="module")
def source() -> str:
    """All of the package, without what parts a string over lines; a message on the page has its backticks."""
    files = sorted((ROOT / "platform/rayner").rglob("*.py"))
    text = "\n".join(path.read_text("utf-8") for path in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


@pytest.mark.parametrize("message", ROWS)
def test_a_message_is_in_the_code(message: str, source: str) -> None:
    assert message in OF_OTHERS or message in source


def test_there_are_messages() -> None:
    assert len(ROWS) > 25
