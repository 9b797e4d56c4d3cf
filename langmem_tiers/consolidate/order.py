"""Whether the same words in another order say the same: who owes whom must not change.

One thing may have moved: a phrase that begins with a preposition or the like, what stands on the
two sides of "and", "is" or a genitive, or subject and object of a passive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from langmem_tiers.consolidate.lexicon import BE, MOVABLE
from langmem_tiers.consolidate.wording import Word, alike, slip

Words = Sequence[Word]

_EXCHANGED = {"and": "and", "or": "or", "'s": "of", "of": "'s"}
_PARTICIPLES = {
    "sent": "send", "written": "write", "made": "make", "run": "run", "built": "build",
    "kept": "keep", "held": "hold", "taken": "take", "given": "give", "led": "lead",
    "known": "know", "done": "do", "sold": "sell", "found": "find", "told": "tell",
    "taught": "teach", "bought": "buy", "brought": "bring", "shown": "show", "seen": "see",
    "driven": "drive", "chosen": "choose", "broken": "break", "set": "set", "read": "read",
    "paid": "pay", "lost": "lose", "met": "meet", "caught": "catch", "left": "leave",
}  # fmt: skip
_ED = 2


def agree(one: Words, other: Words, *, slips: int = 0) -> bool:
    """Whether two texts say the same in the same words, of which so many may be misspelt."""
    if len(one) == len(other) and _moved(one, other, slips):
        return True
    for active in _active(one):
        if len(active) == len(other) and _moved(active, other, slips):
            return True
    return any(len(active) == len(one) and _moved(active, one, slips) for active in _active(other))


def _equal(one: Words, other: Words, slips: int) -> bool:
    for first, second in zip(one, other, strict=True):
        if alike(first, second):
            continue
        may_slip = not (first.exact or second.exact or first.name or second.name)
        if not slips or not may_slip or not slip(first.form, second.form):
            return False
        slips -= 1
    return True


def _moved(one: Words, other: Words, slips: int) -> bool:
    """Whether they are equal, but for one thing that has moved."""
    if _equal(one, other, slips):
        return True
    start = 0
    while alike(one[start], other[start]):
        start += 1
        if start == len(one):
            return True
    end = len(one)
    while alike(one[end - 1], other[end - 1]):
        end -= 1
    # A phrase may share its first words with what stands before it: "in X … in Y".
    for back in range(min(start, _SHARED) + 1):
        first, second = one[start - back : end], other[start - back : end]
        if _rotated(first, second, slips) or _exchanged(first, second, slips, one):
            return True
    return False


_SHARED = 3


def _rotated(one: Words, other: Words, slips: int) -> bool:
    """Whether two phrases have changed places, and either can stand anywhere."""
    for place in range(1, len(one)):
        if one[0].form not in MOVABLE and one[place].form not in MOVABLE:
            continue
        if _equal([*one[place:], *one[:place]], other, slips):
            return True
    return False


def _exchanged(one: Words, other: Words, slips: int, text: Words) -> bool:
    """Whether what stands around one word has changed sides: "A and B", "A's B", "A is B".

    In a text with two lists, the order of one may answer to that of the other.
    """
    for place in range(1, len(one) - 1):
        here = one[place]
        before, after = one[:place], one[place + 1 :]
        if here.form in _EXCHANGED:
            link = _EXCHANGED[here.form]
            if link == here.form and _count(text, link) > 1:
                continue
        elif here.form in BE and (_definite(before) or _definite(after)):
            link = here.form
        else:
            continue
        there = other[len(after)]
        turned = [*other[len(after) + 1 :], *other[: len(after)]]
        if there.form == link and _equal([*before, *after], turned, slips):
            return True
    return False


def _count(words: Words, form: str) -> int:
    return sum(one.form == form for one in words)


def _definite(words: Words) -> bool:
    return words[0].definite or any(one.form == "'s" for one in words)


def _active(words: Words) -> Iterator[list[Word]]:
    """What is done by somebody, with the one who does it as its subject."""
    for place in range(1, len(words) - 1):
        past = words[place].form in ("was", "were")
        if not (past or words[place].form in BE) or words[place + 1].exact:
            continue
        for by in range(place + 2, len(words) - 1):
            if words[by].form != "by":
                continue
            end = next(
                (at for at in range(by + 2, len(words)) if words[at].form in MOVABLE), len(words)
            )
            subject, rest = words[:place], [*words[place + 2 : by], *words[end:]]
            for verb in _past(words[place + 1]) if past else _infinitives(words[place + 1]):
                yield [*words[by + 1 : end], verb, *subject, *rest]


def _past(participle: Word) -> Iterator[Word]:
    """As the past tense, which it is where the verb is regular."""
    if participle.form.endswith("ed"):
        yield _verb(participle.form)


def _infinitives(participle: Word) -> Iterator[Word]:
    form = participle.form
    if form in _PARTICIPLES:
        yield _verb(_PARTICIPLES[form])
    elif form.endswith("ied"):
        yield _verb(form[:-3] + "y")
    elif form.endswith("ed"):
        yield _verb(form[:-_ED])
        yield _verb(form[:-1])
        if form[-3:-2] == form[-4:-3]:
            yield _verb(form[:-3])


def _verb(form: str) -> Word:
    return Word(form, form)
