"""Mentions of several entities, and how they may be split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.composites import MOST_PARTS, readings


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nausea and vomiting", ("nausea", "vomiting")),
        ("breast and ovarian cancer", ("breast cancer", "ovarian cancer")),
        ("breast and/or ovarian cancer", ("breast cancer", "ovarian cancer")),
        ("Duchenne/Becker muscular dystrophy", ("Duchenne muscular dystrophy", "Becker muscular dystrophy")),
        ("cancer of the breast and ovary", ("cancer of the breast", "cancer of the ovary")),
        (
            "colon, breast, or lung cancer",
            ("colon cancer", "breast cancer", "lung cancer"),
        ),
        ("Deficiency of C6 AND C7", ("Deficiency of C6", "Deficiency of C7")),
    ],
)
def test_the_parts_of_a_list_are_among_the_readings(text: str, parts: tuple[str, ...]) -> None:
    assert parts in readings(text)


@pytest.mark.parametrize(
    "text",
    ["", "ovarian cancer", "android", "and", "sand / ", "-, -", " and ".join("abcdefghi"), "meat-and-drink"],
)
def test_without_a_list_of_things_there_is_no_reading(text: str) -> None:
    assert readings(text) == []


@given(
    st.lists(st.sampled_from(["breast", "lung", "and", "or", ",", "/", "cancer", "of the", "é"]), max_size=14)
)
def test_each_reading_is_of_as_many_strings_in_order(words: list[str]) -> None:
    text = " ".join(words)
    for parts in readings(text):
        assert 2 <= len(parts) <= MOST_PARTS
        assert all(part == " ".join(part.split()) and part for part in parts)
        assert {word for part in parts for word in part.split()} <= set(
            text.replace(",", " ").replace("/", " ").split()
        )
