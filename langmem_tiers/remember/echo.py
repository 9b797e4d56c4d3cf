"""What is known already: texts that came from a recall, and copies of what is stored.

A text that repeats what was recalled tells what the memory told, not what is so: it is no new
evidence, however often it is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from langmem_tiers.remember.candidate import Known
from langmem_tiers.remember.reading import listed, visible, words

SHINGLE: Final = 3
CONTAINED: Final = 0.9
"""The share of a text's runs of three words that must stand in one known text."""
_TAG: Final = re.compile(
    r"</?[a-z_]+(?: [a-z_]+=\"[^\"]*\")*>|^[ \t]*(?:[-*•#>]+|\d{1,2}[.)])\s+", re.MULTILINE
)
_ASIDE: Final = re.compile(
    r"\((?:[^()]*\b(?:memory|memories|recall\w*|stored|context)\b[^()]*)\)", re.IGNORECASE
)
_FRAME: Final = re.compile(
    r"^\W*(?:(?:as|like|what) (?:i|we|you) (?:\w+ )?(?:recall|remember|know|noted?|said)\w*"
    r"|(?:i|we) (?:also |still |already |do )*(?:recall|remember|know|noted|see|found|learned)(?:ed)?"
    r"|(?:according to|based on|per|from) (?:my |our |the |your |long-term |previous |earlier |prior |stored"
    r" |recalled )*(?:memor(?:y|ies)|context|notes?|records?|conversations?|recalls?|session)"
    r"|(?:my |the |our |long-term )*(?:memor(?:y|ies)|records?|notes?) (?:says?|shows?|tells?(?: me)?"
    r"|states?|indicates?|contains?)"
    r"|(?:the )?(?:user|human|customer) (?:has |had |also |already |previously |once )*(?:mentioned|said"
    r"|told (?:me|us)|stated|noted|shared|confirmed|indicated)(?: earlier| before| previously)?"
    r"|(?:as )?(?:previously |already |earlier )?(?:noted|mentioned|recalled|remembered|stated|known"
    r"|stored|established|discussed)(?: (?:before|earlier|above|previously))?"
    r"|as (?:previously|already|before) (?:noted|mentioned|stated|known|discussed|established)"
    r"|it (?:is|was|has been) (?:\w+ )?(?:known|noted|established|recorded|mentioned|clear)"
    r"|(?:known |recalled |stored |new |the )*(?:fact|facts|memory|note|info|information|reminder|recalled"
    r" memory|recollection)(?= ?:)"
    r"|(?:just )?(?:to recap|in summary|summary|recap|reminder|fyi|note|again)(?= ?[:,])"
    r"|根据(?:我的)?记忆|我记得|据我所知|laut (?:meinem )?(?:gedächtnis|notizen)|wie (?:bereits )?(?:gesagt"
    r"|erwähnt|bekannt)|ich erinnere mich|я помню|как известно|según (?:mi )?memoria|recuerdo|d'après ma"
    r" mémoire|je me souviens)"
    r"(?: that| dass| que| что)?\s*[:,，：—–-]*\s*",
    re.IGNORECASE,
)
_SLIGHT: Final = listed(
    "a an the is are was were be been and or of that this it its to in on at by for with "
    "as also has have had do does did just then so very really all our my your"
)
"""Words without which a text says the same."""
_TURNING: Final = listed(
    "not no never none nobody nothing without unless except only hardly neither nor cannot "
    "false if kein keine keinen nicht nie niemals ohne nur jamais pas sans nunca sin ni 不 "
    "没 未 無 ない не нет никогда لا لم لن ليس"
)
"""Words without which a text says something else."""


class Echo(NamedTuple):
    """A text that is known already, and the memory that holds it."""

    known: Known
    kind: str
    """`recalled` or `stored`."""


def echo_of(content: str, recalled: Sequence[Known]) -> Echo | None:
    """The recalled text that this one repeats, in whole or in part; None if it says anything new.

    What merely frames it ("As I recall, …", the fence of a recalled memory) does not count. One
    number, name, negation or other word that the recalled text does not have is something new,
    and so is another order: who owes whom.
    """
    said = _told(_core(content)) if recalled else []
    if not said or not _all_words(tuple(one.content for one in recalled)).issuperset(said):
        return None
    whole = _holder(said, recalled)
    if whole is not None:
        return Echo(whole, "recalled")
    parts = [_told(part) for part in map(_core, _sentences(content)) if part]
    holders = [_holder(part, recalled) for part in parts] if len(parts) > 1 else [None]
    return None if holders[0] is None or None in holders else Echo(holders[0], "recalled")


def copy_of(content: str, stored: Sequence[Known]) -> Echo | None:
    """The stored text that this one says again in the same words; None if there is none."""
    said = _core(content)
    for one in stored:
        if said and _told(said) == _told(_core(one.content)):
            return Echo(one, "stored")
    return None


def bare(text: str) -> str:
    """The words of a text, without what frames it."""
    return " ".join(_core(text))


def _core(text: str) -> list[str]:
    """The words of a text, without what frames it."""
    bare = _ASIDE.sub(" ", _TAG.sub(" ", visible(text))).strip()
    for _ in range(3):
        rest = _FRAME.sub("", bare, count=1)
        if rest == bare or not words(rest):
            break
        bare = rest
    return [word.removesuffix("'s") for word in words(bare)]


class _Part(NamedTuple):
    """What a sentence of a known text tells, or all of it."""

    told: tuple[str, ...]
    words: frozenset[str]


@lru_cache(maxsize=512)
def _parts(text: str) -> tuple[_Part, ...]:
    each = [tuple(_told(_core(one))) for one in (*_sentences(text), text)]
    return tuple(_Part(told, frozenset(told)) for told in each)


@lru_cache(maxsize=16)
def _all_words(texts: tuple[str, ...]) -> frozenset[str]:
    """The words of all of these: what has others tells something new."""
    return frozenset().union(*(part.words for text in texts for part in _parts(text)))


def _holder(told: Sequence[str], known: Sequence[Known]) -> Known | None:
    """The first known text that tells all of this."""
    sought = frozenset(told)
    return next(
        (
            one
            for one in known
            if any(
                sought <= part.words and _within(told, part.told) for part in _parts(one.content)
            )
        ),
        None,
    )


def _told(said: Sequence[str]) -> list[str]:
    return [word for word in said if word not in _SLIGHT] or list(said)


def _within(told: Sequence[str], known: Sequence[str]) -> bool:
    """Whether all that is told stands in a known text of the same words, in its order."""
    if not _turns(known) <= _turns(told):
        return False
    length = min(SHINGLE, len(told))
    runs = _runs(told, length)
    shared = len(runs & _runs(known, length)) / len(runs)
    return shared >= CONTAINED or _in_order(told, known)


def _turns(told: Sequence[str]) -> frozenset[str]:
    return frozenset(word for word in told if word in _TURNING or word.endswith("n't"))


def _in_order(told: Sequence[str], known: Sequence[str]) -> bool:
    """Whether one is the other with words left out, a quarter at most between its first and last."""
    first = 0
    places = []
    for word in told:
        try:
            first = known.index(word, first) + 1
        except ValueError:
            return False
        places.append(first)
    return len(told) >= (places[-1] - places[0] + 1) * 3 / 4


def _runs(told: Sequence[str], length: int) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(told[at : at + length]) for at in range(len(told) - length + 1))


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?。！？;])\s+|\n+", text)
