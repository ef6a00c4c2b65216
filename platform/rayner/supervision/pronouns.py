"""English pronouns, and what they say of whom they stand for."""

from __future__ import annotations

from typing import NamedTuple


class Agreement(NamedTuple):
    """What a mention says of person, number and gender; None where it says nothing.

    `gender` is `m`, `f` or `n` (neither: a thing), or `p` for a person of either.
    """

    person: int = 3
    plural: bool | None = None
    gender: str | None = None

    def agrees(self, other: Agreement) -> bool:
        """Whether nothing of the two contradicts."""
        if self.person != other.person or (
            None not in (self.plural, other.plural) and self.plural != other.plural
        ):
            return False
        genders = {self.gender, other.gender} - {None}
        return len(genders) < 2 or genders in ({"m", "p"}, {"f", "p"})


_FORMS = {
    ("i", "me", "my", "mine", "myself"): Agreement(1, False, "p"),
    ("we", "us", "our", "ours", "ourselves"): Agreement(1, True, "p"),
    ("you", "your", "yours", "yourself", "yourselves", "thou", "thee", "thy", "thine"): Agreement(
        2, None, "p"
    ),
    ("he", "him", "his", "himself"): Agreement(3, False, "m"),
    ("she", "her", "hers", "herself"): Agreement(3, False, "f"),
    ("it", "its", "itself"): Agreement(3, False, "n"),
    ("they", "them", "their", "theirs", "themselves"): Agreement(3, True, None),
}
PRONOUNS = {form: agreement for forms, agreement in _FORMS.items() for form in forms}
_NAMES = frozenset({"US", "IT"})
REFLEXIVE = frozenset(form for form in PRONOUNS if form.endswith(("self", "selves")))


def is_pronoun(text: str) -> bool:
    """Whether a mention is a personal, possessive or reflexive pronoun alone; `US` and `IT` are none."""
    return text.lower() in PRONOUNS and text not in _NAMES
