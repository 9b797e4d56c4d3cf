"""What a sentence claims, if it is as plain as "the timeout of the mailer is 30s".

That is a subject, a relation and a value. Whatever is hedged, asked, reported, conditional or past
claims nothing, and neither does a sentence that is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from langmem_tiers.consolidate.lexicon import MOVABLE
from langmem_tiers.consolidate.relations import (
    CHANGE,
    CHOSEN,
    CODES,
    LEFT,
    NOUNS,
    PEOPLE,
    RELATIONS,
    SERVICES,
    THINGS,
    Relation,
)
from langmem_tiers.consolidate.stating import Words, affirmed, past, stated
from langmem_tiers.consolidate.values import CLOSED, Kind, kind_of
from langmem_tiers.consolidate.wording import Word, sentences
from langmem_tiers.core.reading import LOOKED_AT


class Claim(NamedTuple):
    """That a subject has a value by a relation of which it can have one at a time."""

    subject: Words
    """With everything that narrows the claim: where, when, for whom."""
    relation: str
    value: Words
    kind: Kind | None
    """What the value is one of; None if it can only be compared with itself."""
    negated: bool = False
    was: Words = ()
    """What the value is said to have been before."""


class Statement(NamedTuple):
    """A plain sentence, affirmed: without its negation, if it has one."""

    words: Words
    negated: bool
    claims: tuple[Claim, ...]


_CUT: Final = MOVABLE | {"as", "per", "using", "via", "but"}


def statements(text: str) -> list[Statement] | None:
    """What a text plainly states; None if any of its sentences is not plain, or it is too long."""
    if len(text) > LOOKED_AT:
        return None
    found = [_read(one) for one in sentences(text)]
    plain_ones = [one for one in found if one is not None]
    return plain_ones if len(plain_ones) == len(found) else None


@lru_cache(maxsize=4096)
def _read(sentence: str) -> Statement | None:
    words, negated = affirmed(stated(sentence))
    flat = not (any(map(str.isupper, sentence)) and any(map(str.islower, sentence)))
    claims = [one._replace(negated=one.negated or negated) for one in _claims(words, flat=flat)]
    claims = [one for one in claims if not past((*one.subject, *one.value))]
    if not words or (not claims and past(words)):
        return None
    return Statement(words, negated, tuple(claims))


def _claims(words: Words, *, flat: bool) -> Iterator[Claim]:
    """What is claimed by the first verb that is known."""
    text = " ".join(one.form for one in words) + " "
    if found := CHANGE.search(text):
        yield from _change(words, text, found, flat=flat)
    elif found := LEFT.search(text):
        subject, value = words[: _at(text, found.start())], words[_at(text, found.end()) :]
        yield Claim(subject, "employed", value, None, negated=True)
    else:
        starts = [found.start() for one in RELATIONS if (found := one.verb.search(text))]
        for relation in RELATIONS if starts else ():
            found = relation.verb.match(text, min(starts))
            if found and (claim := _stated(words, text, relation, found, flat=flat)):
                yield claim
                return


def _at(text: str, place: int) -> int:
    """The number of the word that begins at a place, or after the space at it."""
    return text.count(" ", 0, place + 1) if text[place] == " " else text.count(" ", 0, place)


def _stated(
    words: Words, text: str, relation: Relation, found: re.Match[str], *, flat: bool
) -> Claim | None:
    before, after = words[: _at(text, found.start())], words[_at(text, found.end()) :]
    if relation.inverse:
        kind = kind_of(before, flat=flat)
        fits = after and (after[0].definite or after[0].name) and kind and kind.name in _NAMES
        return Claim(after, relation.name, before, kind) if fits else None
    value, scope = _cut(after)
    if not before or not value:
        return None
    kind = kind_of(value, flat=flat)
    if relation.name == "is":
        return _attributed(before, scope, value, kind)
    if relation.name == "when" and found[0].startswith("runs") and all(one.name for one in before):
        return None  # somebody may run in the morning and in the evening
    if relation.kinds and (kind is None or not _fits(kind, relation)):
        return None
    said_of = (Word(relation.noun, relation.noun), _OF) if relation.noun else ()
    return Claim((*said_of, *before, *scope), relation.name, value, kind)


def _fits(kind: Kind, relation: Relation) -> bool:
    named = kind.name in _NAMES and not relation.kinds.isdisjoint(_NAMES)
    return named or kind.name in relation.kinds


_NAMES: Final = frozenset(("name", "noun"))
_OF: Final = Word("of", "of")


def _cut(words: Words) -> tuple[Words, Words]:
    """The value, and what narrows it: all from the first preposition or comma on."""
    for place, one in enumerate(words):
        if place and one.form in _CUT:
            return words[:place], words[place:]
        if one.comma and place + 1 < len(words):
            return words[: place + 1], words[place + 1 :]
    return words, ()


def _attributed(subject: Words, scope: Words, value: Words, kind: Kind | None) -> Claim | None:
    """What "is" claims: of one of a kind, such as an owner, or by a kind that allows but one."""
    if kind is None or not any(one.definite or one.name or one.form == "'s" for one in subject):
        return Claim(subject + scope, "is", value, kind) if _assigned(subject, kind) else None
    if noun := _noun(subject):
        rest, relation = noun
        return Claim(rest + scope, relation, value, kind)
    if kind.name in CLOSED or _single(subject, kind):
        return Claim(subject + scope, "is", value, kind)
    return None


def _assigned(subject: Words, kind: Kind | None) -> bool:
    """Whether it is like "timeout = 30s": no article, but an amount."""
    return kind is not None and kind.name in ("number", "state") and len(subject) == 1


def _noun(subject: Words) -> tuple[Words, str] | None:
    """Whose attribute it is, and the relation that says the same; the head comes first or last."""
    for length in range(1, min(_NOUN_WORDS, len(subject) - 2) + 1):
        first = " ".join(one.sense for one in subject[:length])
        if first in NOUNS and subject[length].form == "of":
            return subject[length + 1 :], NOUNS[first]
        last = " ".join(one.sense for one in subject[-length:])
        if last in NOUNS and subject[-length - 1].form == "'s":
            return subject[: -length - 1], NOUNS[last]
    return None


_NOUN_WORDS = max(len(one.split()) for one in NOUNS)


def _single(subject: Words, kind: Kind) -> bool:
    """Whether there is one such attribute: a favourite colour, the president of a club."""
    forms = [one.form for one in subject]
    end = forms.index("of") if "of" in forms else len(forms)
    head = subject[:end]
    if not head or not (end < len(forms) or "'s" in forms or any(one.definite for one in head)):
        return False
    last = head[-1].sense
    if any(one.sense in CHOSEN for one in head) or last in THINGS:
        return True
    if kind.name == "code":
        return last in CODES
    return last in PEOPLE and kind.name in _NAMES


def _change(words: Words, text: str, found: re.Match[str], *, flat: bool) -> Iterator[Claim]:
    """What was changed claims the new value, and that the old one no longer holds."""
    subject = words[: _at(text, found.start())]
    value, scope = _cut(words[_at(text, found.end()) :])
    kind = kind_of(value, flat=flat)
    if not subject or not value or kind is None:
        return
    was: Words = ()
    if found["was"] is not None:
        was = words[_at(text, found.start("was")) : _at(text, found.end("was"))]
    if noun := _noun(subject):
        rest, relation = noun
        yield Claim(rest + scope, relation, value, kind, was=was)
    elif kind.name in _NAMES and _moves(found["verb"], value):
        yield Claim(subject + scope, "located", value, kind, was=was)
    elif changed := _changed(subject, kind):
        yield Claim(subject + scope, changed, value, kind, was=was)
    elif was:
        yield Claim(subject + scope, "uses", value, None, was=was)


AMOUNT: Final = "amount"
"""What was raised or lowered: it was said to be, to last or to cost so much."""


def _moves(verb: str, value: Words) -> bool:
    """Whether somebody lives elsewhere now, and does not merely use something else."""
    return verb in ("moved", "relocated") and SERVICES.isdisjoint(one.form for one in value)


def _changed(subject: Words, kind: Kind) -> str | None:
    """The relation of which a change speaks, by what it changes to."""
    if kind.name in ("weekday", "time", "date"):
        return "when"
    if kind.name == "version":
        return "runs"
    if kind.name == "number":
        return AMOUNT
    return "is" if kind.name in CLOSED or _single(subject, kind) else None
