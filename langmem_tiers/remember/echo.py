"""What is known already: texts that came from a recall, and copies of what is stored.

A text that repeats what was recalled tells what the memory told, not what is so: it is no new
evidence, however often it is said. What each caller recalled last is kept by the store: a graph
makes a coordinator for each of its nodes, which finds here what earlier ones know.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from unicodedata import category

from langmem_tiers.core.context import Caller
from langmem_tiers.core.reading import separate_characters, split_sentences, word_set
from langmem_tiers.remember.new import Known

_TAG: Final = re.compile(
    r"</?[a-z_]+(?: [a-z_]+=\"[^\"<]*\")*>"
    r"|^(?:- )?(?:\[[a-z0-9]{6}\] )?(?:\d{4}-\d\d-\d\d|\d{1,2} [A-Z][a-z]{2}(?: \d{4})?)"
    r"[^:\n]{0,120}:(?=\s|$)"
    r"|^(?:- )?\[[a-z0-9]{6}\] | \(replaces \[[a-z0-9]{6}\], [^)\n]{1,12}\)$",
    re.MULTILINE,
)
"""A tag of a fence, or how a line in it begins or ends."""
_ENDS: Final = re.compile("(?<=[.!?])\\s+|(?<=[\u3002\uff01\uff1f])|\\n+")
_TOKEN: Final = re.compile(r"(?:(?<!\w)-(?=\d))?\w+(?:['.]\w+)*[+#]*|[^\w\s]")
_MEANT: Final = "%&"
"""Punctuation without which a text says something else."""
_NEGATIONS: Final = word_set(
    "not no never none nobody nothing nor without cannot nicht kein nie ohne pas jamais sans nunca "
    "sin non нет не"
)
_FRAME: Final = 6
"""Words that may stand before what is repeated: "As I recall, …"."""
_UNIT: Final = 3
"""Words from which a sentence counts wherever it stands."""
_LONGEST: Final = 200
"""Words up to which it does."""
_KEPT: Final = 4_000
"""Characters of a text up to which its words are kept for the next time."""
MOST: Final = 256
"""The most memories that are kept of one caller, the latest."""
MOST_OF_ALL: Final = 20_000
"""The most memories that are kept of all callers: our own choice."""
CHARACTERS: Final = 10_000_000
"""The most characters of the memories of all callers: our own choice."""
LIFE: Final = timedelta(hours=1)
"""For how long, by the store's clock."""

Words = tuple[str, ...]


def echo_of(content: str, recalled: Sequence[Known]) -> Known | None:
    """The recalled text that this one repeats, first of all; None if it says anything new.

    Case, signs and blanks aside, it is the same, or made of whole sentences of what was recalled.
    A few words may stand before each of them ("As I recall, …"), as long as none of them is a
    number, a name or a negation.
    """
    if not recalled:
        return None
    written = _tokens(content)
    said = _folded(written)
    texts = []
    for one in recalled:
        if one.content.strip() == content.strip() or (said and _says(one.content, said)):
            return one
        texts.append(one.content)
    place = _first_told(written, said, _shelf(tuple(texts)))
    return None if place is None else recalled[place]


def copy_of(content: str, stored: Sequence[Known]) -> Known | None:
    """The stored text that tells all of this already; None if there is none."""
    return next((one for one in stored if echo_of(content, (one,))), None)


def _first_told(written: Words, said: Words, shelf: _Shelf) -> int | None:
    """Which known text tells the first sentence, if known texts tell all; None if they do not."""
    first: int | None = None
    at = begins = 0
    while at < len(said) and at - begins <= _FRAME:
        found = _sentence_at(said, at, shelf)
        if found is None:
            at += 1
        elif _frames(written[begins:at]):
            first = found[1] if first is None else first
            at = begins = at + found[0]
        else:
            return None
    return first if at == begins else None


def _sentence_at(said: Words, at: int, shelf: _Shelf) -> tuple[int, int] | None:
    """The length of the longest known sentence that stands here, and its text, if there is one."""
    for length in shelf.lengths.get(said[at : at + _UNIT], ()):
        text = shelf.texts.get(said[at : at + length])
        if text is not None:
            return length, text
    return None


def _frames(words: Words) -> bool:
    """Whether words say nothing of what follows them, as far as one can see."""
    rest = words[1:] if len(words) > 1 else words
    named = any(one[0].isupper() and len(one) > 1 for one in rest)
    return not named and all(
        one.replace("'", "").isalpha()
        and one.casefold() not in _NEGATIONS
        and not one.casefold().endswith("n't")
        for one in words
    )


def _tokens(text: str) -> Words:
    """The words and what else means something, as they are written."""
    found = _TOKEN.findall(_TAG.sub("\n", separate_characters(text)))
    return tuple(one for one in found if len(one) > 1 or one in _MEANT or category(one)[0] != "P")


def _folded(words: Words) -> Words:
    return tuple(map(str.casefold, words))


def _says(text: str, said: Words) -> bool:
    """Whether a text is these words; of a long one the beginning is looked at first."""
    if len(text) <= _KEPT:
        return said == _whole(text)
    begins = _folded(_tokens(text[:_KEPT]))[:-1]  # the last may be cut
    return said[: len(begins)] == begins and said == _folded(_tokens(text))


@lru_cache(maxsize=512)
def _whole(text: str) -> Words:
    return _folded(_tokens(text))


class _Shelf(NamedTuple):
    """The sentences of known texts: in which text each stands first, and how long they are."""

    texts: dict[Words, int]
    lengths: dict[Words, list[int]]
    """By their first words, the longest first."""


@lru_cache(maxsize=2)  # of two calls at once; what was recalled may be long
def _shelf(texts: tuple[str, ...]) -> _Shelf:
    places: dict[Words, int] = {}
    for place, text in enumerate(texts):
        for sentence in split_sentences(_TAG.sub("\n", text), _ENDS):
            words = _folded(_tokens(sentence))
            if _UNIT <= len(words) <= _LONGEST:
                places.setdefault(words, place)
    lengths: dict[Words, list[int]] = {}
    for one in sorted(places, key=len, reverse=True):
        several = lengths.setdefault(one[:_UNIT], [])
        if several[-1:] != [len(one)]:
            several.append(len(one))
    return _Shelf(places, lengths)


class Recalled(Protocol):
    """A memory that somebody was shown: a recollection or a reminder."""

    @property
    def key(self) -> str:
        """Of the memory."""

    @property
    def namespace(self) -> tuple[str, ...]:
        """Where it is."""

    @property
    def content(self) -> str:
        """What it says."""


class _Own(OrderedDict[tuple[tuple[str, ...], str], tuple[Known, datetime]]):
    """The memories that one caller recalled, by namespace and key, and when, the latest last."""


class RecalledLately:
    """The memories that each caller recalled last, each once; several threads may use it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._of: OrderedDict[Caller, _Own] = OrderedDict()
        self._kept = self._characters = 0

    def note(self, caller: Caller, found: Iterable[Recalled], now: datetime) -> None:
        """Keep what a recall returned to a caller; callers who recalled longest ago make room."""
        several = {(one.namespace, one.key): one for one in found}
        if not several:
            return
        with self._lock:
            own = self._of.setdefault(caller, _Own())
            self._of.move_to_end(caller)
            for place, one in several.items():
                if place in own:
                    self._forget(own, place)
                known = Known(content=one.content, key=one.key, namespace=one.namespace)
                own[place] = known, now
                self._kept += 1
                self._characters += len(known.content)
            while own and (len(own) > MOST or now - next(iter(own.values()))[1] > LIFE):
                self._forget(own, next(iter(own)))
            while self._kept > MOST_OF_ALL or self._characters > CHARACTERS:
                longest_ago, theirs = next(iter(self._of.items()))
                if theirs:
                    self._forget(theirs, next(iter(theirs)))
                if not theirs:
                    del self._of[longest_ago]

    def known(self, caller: Caller, now: datetime) -> tuple[Known, ...]:
        """Return what a caller recalled in the last hour, the latest first."""
        with self._lock:
            own = self._of.get(caller, _Own())
            kept = [known for known, at in own.values() if now - at <= LIFE]
        return tuple(reversed(kept))

    def _forget(self, own: _Own, place: tuple[tuple[str, ...], str]) -> None:
        known, _ = own.pop(place)
        self._kept -= 1
        self._characters -= len(known.content)
