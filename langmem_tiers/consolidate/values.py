"""What kind of thing a value is: two of a kind can exclude each other, others cannot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from langmem_tiers.consolidate.lexicon import (
    COLOURS,
    MONTHS,
    OPPOSITES,
    PRODUCTS,
    UNITS,
    WEEKDAYS,
)
from langmem_tiers.consolidate.wording import Word, alike, slip

CLOSED: Final = frozenset({"number", "state", "colour", "weekday", "time", "date", "version"})
"""Kinds of which a thing has one at a time, whatever it is."""

_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}|noon|midnight|\d{1,2}(?:am|pm)")
_AMOUNT: Final = re.compile(r"\d+(?:\.\d+)?")
_LINKS: Final = frozenset(("and", "of", "'s"))
_STATES: Final = frozenset(word for pair in OPPOSITES for word in pair)
_NUMBER_AND_UNIT = 2
_MISSPELT = 0.65
"""How alike two words are, by `difflib`, that may be one word misspelt: vioxet and voilet."""
_ADJECTIVE: Final = re.compile(
    r".*(?:ed|ing|able|ible|ful|less|ous|ive|ic|al|ent|ant|y)|good|bad|nice|new|old|slow|fast|big"
    r"|small|long|short|high|low|hard|fine|late|broken|down|ready|wrong|right|dead|huge|great|cool"
)


class Kind(NamedTuple):
    """What a value is one of, and which."""

    name: str
    family: str
    """Values of two families have nothing to do with each other: seconds and bytes."""
    which: object


def kind_of(value: Sequence[Word], *, flat: bool) -> Kind | None:
    """The kind of a value; None if it is none that can be compared.

    In a `flat` text, which knows no capitals, nouns and names are one kind.
    """
    forms = [one.form for one in value]
    if not forms:
        return None
    said = [one for one in forms if one not in _LINKS]
    if said and WEEKDAYS.issuperset(said):
        return Kind("weekday", "", frozenset(one.removesuffix("s") for one in said))
    if COLOURS.issuperset(said):
        return Kind("colour", "", frozenset(one.sense for one in value))
    if len(forms) == 1 and forms[0] in _STATES:
        return Kind("state", "", forms[0])
    return _counted(value) or _dated(forms) or _named(value, flat=flat)


def _counted(value: Sequence[Word]) -> Kind | None:
    first = value[0].form.lstrip("$€£")
    if not _AMOUNT.fullmatch(first) or len(value) > _NUMBER_AND_UNIT:
        return None
    if len(value) == 1:
        return Kind("number", value[0].form.removesuffix(first), first)
    unit = value[1].form
    if unit in UNITS:
        dimension, factor = UNITS[unit]
        return Kind("number", dimension, float(first) * factor)
    return Kind("number", value[1].sense, first)


def _dated(forms: Sequence[str]) -> Kind | None:
    if len(forms) == 1 and _CLOCK.fullmatch(forms[0]):
        return Kind("time", "", forms[0])
    others = [one for one in forms if one not in MONTHS]
    if len(others) < len(forms) and all(map(_AMOUNT.fullmatch, others)):
        return Kind("date", "", tuple(forms))
    return None


def _named(value: Sequence[Word], *, flat: bool) -> Kind | None:
    words = [one for one in value if one.form not in _LINKS]
    numbers = [one for one in words if one.exact]
    names = [one for one in words if not one.exact]
    forms = tuple(one.form for one in words)
    if names and (numbers or len(names) == 1):
        product = PRODUCTS.get(names[0].form)
        if product or (numbers and len(names) == 1 and (names[0].name or flat)):
            return Kind("version", product or names[0].form, forms)
    if numbers:
        return Kind("code", "", forms) if len(words) == 1 else None
    if flat:
        return Kind("noun", "", forms)
    if all(one.name for one in names):
        return Kind("name", "", forms)
    if any(one.name for one in names) or (len(names) == 1 and _ADJECTIVE.fullmatch(forms[0])):
        return None
    return Kind("plain", "", forms)


def exclude(one: Sequence[Word], first: Kind, other: Sequence[Word], second: Kind) -> bool:
    """Whether of two values of one subject only one can hold. If in doubt, both can."""
    if not _of_a_kind(first, second) or first.which == second.which:
        return False
    if first.name == "state":
        return frozenset((str(first.which), str(second.which))) in OPPOSITES
    if first.name in ("number", "time", "date", "code"):
        return True
    return not _overlap(one, other) and (
        first.name in CLOSED or len(one) != len(other) or not all(map(_misspelt, one, other))
    )


def _overlap(one: Sequence[Word], other: Sequence[Word]) -> bool:
    """Whether one says the other more exactly, or both list something that they share."""
    words, others = ({each.sense for each in value} for value in (one, other))
    shared = words & others - {"and"}
    return words <= others or others <= words or ("and" in words | others and bool(shared))


def _of_a_kind(one: Kind, other: Kind) -> bool:
    if "noun" in (one.name, other.name):
        return {one.name, other.name} <= {"noun", "name", "plain"}
    return one[:2] == other[:2]


def _misspelt(one: Word, other: Word) -> bool:
    """Whether one may be the other, written differently. Names are alike too easily."""
    if alike(one, other) or slip(one.form, other.form):
        return True
    named = one.name or other.name
    return not named and SequenceMatcher(None, one.form, other.form).ratio() >= _MISSPELT
