"""Variants of names: changed as the kind says, never empty, and drawn at their rates."""

from __future__ import annotations

import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import VariantSettings
from rayner.supervision.name_variants import (
    abbreviate,
    first_prefix,
    misspell,
    move_prefix,
    punctuate,
    reorder,
    vary,
)

KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
VENDORS = ("Microsoft", "MS", "Red Hat")
SETTINGS = VariantSettings(prefixes=VENDORS)
seeds = st.integers(0, 2**32)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(st.text(min_size=1).filter(str.strip), seeds, st.sampled_from([None, "IBM"]))
def test_any_text_has_a_variant_that_is_not_empty_and_the_same_again(
    text: str, seed: int, prefix: str | None
) -> None:
    for always in (False, True):
        once, again = (vary(text, SETTINGS, rng(seed), prefix, always) for _ in range(2))
        assert once == again
        assert once.strip()


def slips(name: str) -> dict[str, set[str]]:
    """What one slip makes of a name, by its kind: after the first letter of words of four letters or more."""
    words = [m.span() for m in re.finditer(r"\w{4,}", name)]
    places = [at for start, end in words for at in range(start + 1, end)]
    pairs = [at for start, end in words for at in range(start + 1, end - 1)]
    return {
        "left out": {name[:at] + name[at + 1 :] for at in places},
        "doubled": {name[:at] + name[at] + name[at:] for at in places},
        "exchanged": {name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in pairs},
        "beside": {name[:at] + key + name[at + 1 :] for at in places for key in BESIDE[name[at]]},
    }


BESIDE = {
    key: row[max(at - 1, 0) : at] + row[at + 1 : at + 2]
    for lower in KEYBOARD
    for row in (lower, lower.upper())
    for at, key in enumerate(row)
}


@given(st.lists(st.text(string.ascii_letters, min_size=1, max_size=8), min_size=1, max_size=3), seeds)
def test_a_misspelling_is_one_slip(words: list[str], seed: int) -> None:
    name = " ".join(words)
    changed = misspell(name, rng(seed))
    if max(map(len, words)) < 4:
        assert changed == name, "in a short word another letter is another word"
    else:
        assert changed in set().union(*slips(name).values())


def test_every_kind_of_slip_occurs() -> None:
    drawn = {misspell("Windows Server", rng(seed)) for seed in range(300)}
    for kind, possible in slips("Windows Server").items():
        assert len(drawn & possible) > len(possible) / 2, kind


@given(seeds)
def test_a_reordering_has_the_same_words(seed: int) -> None:
    changed = reorder("Internet Information Server", rng(seed))
    assert changed != "Internet Information Server"
    assert sorted(changed.replace(",", "").split()) == ["Information", "Internet", "Server"]
    assert reorder("Java", rng(seed)) == "Java"


@given(seeds)
def test_an_acronym_has_the_initials(seed: int) -> None:
    assert abbreviate("job control language", rng(seed)) in {"JCL", "job CL", "JC language"}
    assert abbreviate("Visual Basic", rng(seed)) == "VB"
    assert abbreviate("Java", rng(seed)) == "Java"
    assert abbreviate("a name of more than six words in all", rng(seed)).startswith("a name")


@given(seeds)
def test_punctuation_leaves_the_letters(seed: int) -> None:
    changed = punctuate("Oracle-WebLogic (10g)", rng(seed))
    assert changed != "Oracle-WebLogic (10g)"
    assert "".join(c for c in changed.lower() if c.isalnum()) == "oracleweblogic10g"


@pytest.mark.parametrize(
    ("name", "prefix", "found"),
    [
        ("Microsoft Word", None, "Word"),
        ("red hat  linux", None, "linux"),
        ("Word", "Microsoft", "Microsoft Word"),
        ("Word", None, "Word"),
        ("MS", None, "MS"),
        ("MSN Messenger", None, "MSN Messenger"),
    ],
)
def test_a_vendor_is_left_out_or_put_before(name: str, prefix: str | None, found: str) -> None:
    assert move_prefix(name, prefix, VENDORS) == found


def test_the_longest_prefix_is_found() -> None:
    assert first_prefix("red hat linux", ("Red", "Red Hat")) == "red hat"


def test_rates_are_what_the_settings_say() -> None:
    name = "Internet Information Server"
    generator = rng()
    drawn = [vary(name, SETTINGS, generator) for _ in range(3000)]
    # Without a vendor, the fifth kind changes nothing.
    expected = SETTINGS.total - SETTINGS.prefix
    assert sum(text != name for text in drawn) / 3000 == pytest.approx(expected, abs=0.04)
    without = SETTINGS.model_copy(update={"prefix": 0.0})
    always = [vary(name, without, generator, always=True) for _ in range(300)]
    assert all(text != name for text in always)
    none = VariantSettings(misspelling=0, acronym=0, reordering=0, punctuation=0, prefix=0)
    assert {vary(name, none, generator) for _ in range(50)} == {name}


def test_rates_above_one_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sum to 1\.25"):
        VariantSettings(misspelling=1, acronym=0.1)
