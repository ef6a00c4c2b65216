"""Numbers of strings that example sets, checkpoints and splits hold: those of earlier versions stay."""

from __future__ import annotations

from rayner.data.string_hashes import fraction_of, number_of


def test_numbers_are_those_of_every_version() -> None:
    assert number_of("Ärzte") == -7214131290364907871
    assert number_of("story8") == 7753330585529312473
    assert fraction_of("Ärzte") == 0.6089211591195356


def test_half_a_character_has_a_number_too() -> None:
    assert 0 <= fraction_of("\ud800") < 1
