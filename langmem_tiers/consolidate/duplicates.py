"""Which memories say the same: nearness proposes, words decide.

No cosine is safe by itself: a text in capitals is far from itself, and Monday is near Friday.
So two memories are the same only if their words are, one by one: but for what says little, words
that mean the same, a slip of the pen, and one phrase that has moved (`order`). Any other word,
number, name, negation or condition that only one of them has makes them two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

from langmem_tiers.consolidate.contradictions import contradictions
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.lexicon import BE, FIRST_PERSON
from langmem_tiers.consolidate.order import Words, agree
from langmem_tiers.consolidate.policy import MergePolicy
from langmem_tiers.consolidate.wording import Word, asks, bare, plain, read
from langmem_tiers.core.values import normalised

HAPPENINGS = frozenset({"episodic", "interaction", "achievement"})
"""Types of what happened: the same a day later has happened twice."""
_ANOTHER_TIME = timedelta(days=1)
_WORDS_OF_A_SLIP = 3
"""A text has so many words for each that is misspelt."""
_MOST_SLIPS = 3
_INITIALS = 4
_LONG = 60
"""Texts of more words are proposed by all of them together, or by their cosine."""
_LONGEST = 10_000
"""Characters that are compared word by word: longer texts say the same if they are the same."""

_Key = tuple[str, ...]


class Cluster(NamedTuple):
    """Memories that say the same, by id."""

    survivor: int
    """The oldest of them, in which the others live on."""
    others: tuple[int, ...]
    """In the order in which they were recorded; each says the same as the survivor."""


def repeated(
    items: Sequence[Item], near: Mapping[tuple[int, int], float], policy: MergePolicy
) -> list[Cluster]:
    """Memories of one namespace that were said twice in a row: what needs no judge. See `clusters`.

    Their texts are equal but for case, white space and what ends a sentence; one speaker said
    them, at most `policy.within_minutes` apart. Said again later, it may have happened again.
    """
    within = timedelta(minutes=policy.within_minutes)
    return clusters(items, near, policy, lambda one, other: _said_twice(one, other, within))


def _said_twice(one: Item, other: Item, within: timedelta) -> bool:
    return (
        one.memory_type == other.memory_type
        and one.trust == other.trust
        and one.told_by == other.told_by
        and abs(one.told_at - other.told_at) <= within
        and normalised(one.content) == normalised(other.content)
    )


def clusters(
    items: Sequence[Item],
    near: Mapping[tuple[int, int], float],
    policy: MergePolicy,
    alike: Callable[[Item, Item], bool] | None = None,
) -> list[Cluster]:
    """Memories of one namespace that say the same, oldest cluster first; none stands alone.

    Whether two do is asked of `alike`, or of `same`, which goes by words: rules that may be wrong.

    `near` has the cosines that are known, by a pair of ids in either order. Pairs are looked at if
    theirs reaches `policy.near_duplicate`, or if they have about the same words. What stopped being
    true in between and was told anew is not merged with what it was before: `items` must hold
    what stands between. Any order of the items gives the same clusters, and the survivors of a
    call have no clusters any more.
    """
    says_so = same if alike is None else alike
    ordered = sorted(items, key=lambda one: one.recorded)
    until = _ends(ordered)
    close = _close(near, policy.near_duplicate)
    survivors: dict[int, tuple[int, Item]] = {}
    by_words: defaultdict[_Key, list[int]] = defaultdict(list)
    found: defaultdict[int, list[int]] = defaultdict(list)
    for number, item in enumerate(ordered):
        keys = _keys(item.content)
        proposed = {one for key in keys for one in by_words[key]} | close[item.id]
        candidates = sorted(survivors[one] for one in proposed if one in survivors)
        for _, oldest in candidates:
            if not _turned(oldest, item, until) and says_so(oldest, item):
                found[oldest.id].append(item.id)
                break
        else:
            survivors[item.id] = (number, item)
            for key in keys:
                by_words[key].append(item.id)
    return [Cluster(one, tuple(found[one])) for one in survivors if one in found]


def same(one: Item, other: Item) -> bool:
    """Whether two memories say the same, and either could stand for the other.

    Those that are not trusted alike could not: what is merged would be trusted more, or less.
    """
    if one.memory_type != other.memory_type or two_happenings(one, other):
        return False
    if one.trust != other.trust:
        return False
    if one.own != other.own and (_own(one.content) or _own(other.content)):
        return False
    return same_text(one.content, other.content)


def same_text(one: str, other: str) -> bool:
    """Whether two texts say the same in the same words, in any order that leaves their sense."""
    first, second = sorted((bare(one), bare(other)))
    if first.casefold() == second.casefold():
        return True
    if max(len(first), len(second)) > _LONGEST or asks(first) != asks(second):
        return False
    # A misspelt phrase of the lexicon is compared word by word.
    return any(_agree(*sorted((reading(one), reading(other)))) for reading in (read, plain))


def _agree(words: Words, others: Words) -> bool:
    if not words or not others or _exact(words) != _exact(others):
        return False
    fewest = min(len(words), len(others))
    return agree(words, others, slips=min(fewest // _WORDS_OF_A_SLIP, _MOST_SLIPS))


def two_happenings(one: Item, other: Item) -> bool:
    """Whether two memories tell what happened at different times."""
    if one.memory_type not in HAPPENINGS or not one.occurred_at or not other.occurred_at:
        return False
    return abs(one.occurred_at - other.occurred_at) >= _ANOTHER_TIME


def _own(text: str) -> bool:
    return not FIRST_PERSON.isdisjoint(word.form for word in read(text))


def _exact(words: Iterable[Word]) -> list[str]:
    return sorted(one.form for one in words if one.exact)


@lru_cache(maxsize=4096)
def _keys(text: str) -> frozenset[_Key]:
    """By what a text is proposed: as it stands, and by its words.

    These are the beginnings of all of them, or of all but one. With them go the words in which
    what says the same must agree, so that texts of one template are told apart at once.
    """
    keys: set[_Key] = {("", bare(text).casefold())}
    if len(text) > _LONGEST:
        return frozenset(keys)
    for words in (read(text), plain(text)):
        exact = (*_exact(words), "")
        bag = tuple(sorted(one.sense[:_INITIALS] for one in words if one.form not in _MARKS))
        keys.add(exact + bag)
        if len(bag) <= _LONG:
            keys.update(exact + bag[:place] + bag[place + 1 :] for place in range(len(bag)))
    return frozenset(keys)


_MARKS = BE | {"of", "'s", "by", "was", "were"}


def _close(near: Mapping[tuple[int, int], float], least: float) -> defaultdict[int, set[int]]:
    close: defaultdict[int, set[int]] = defaultdict(set)
    for (one, other), cosine in near.items():
        if cosine >= least:
            close[one].add(other)
            close[other].add(one)
    return close


def _ends(items: Sequence[Item]) -> dict[int, Item]:
    """By id of what stopped being true: the memory that says so."""
    by_id = {one.id: one for one in items}
    return {one.older: by_id[one.newer] for one in contradictions(items)}


def _turned(one: Item, other: Item, until: Mapping[int, Item]) -> bool:
    """Whether the earlier of two had stopped being true when the later was told."""
    earlier, later = sorted((one, other), key=lambda each: each.order)
    end = until.get(earlier.id)
    return end is not None and end.order < later.order
