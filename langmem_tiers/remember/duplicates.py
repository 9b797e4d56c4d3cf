"""Find echoes of recalled texts, and copies of stored ones.

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
from langmem_tiers.core.texts import separate_characters, split_sentences, word_set
from langmem_tiers.remember.new_memory import KnownText

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
_SIGNIFICANT: Final = "%&"
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
MAX_PER_CALLER: Final = 256
"""The most memories that are kept of one caller, the latest."""
MAX_OF_ALL: Final = 20_000
"""The most memories that are kept of all callers: our own choice."""
MAX_CHARACTERS: Final = 10_000_000
"""The most characters of the memories of all callers: our own choice."""
RECALL_LIFE: Final = timedelta(hours=1)
"""The time for which recalled memories are kept, by the store's clock."""

Words = tuple[str, ...]


def find_echo(content: str, recalled: Sequence[KnownText]) -> KnownText | None:
    """Find the recalled text that this one repeats; None if it says anything new.

    Case, signs and blanks aside, it is the same, or made of whole sentences of what was recalled.
    A few words may stand before each of them ("As I recall, …"), as long as none of them is a
    number, a name or a negation.
    """
    if not recalled:
        return None
    written = _tokens(content)
    folded = _fold_words(written)
    texts = []
    for candidate in recalled:
        if candidate.content.strip() == content.strip() or (
            folded and _has_words(candidate.content, folded)
        ):
            return candidate
        texts.append(candidate.content)
    place = _first_repeated(written, folded, _index_sentences(tuple(texts)))
    return None if place is None else recalled[place]


def find_copy(content: str, stored: Sequence[KnownText]) -> KnownText | None:
    """Find the stored text that says all of this already; None if there is none."""
    return next((candidate for candidate in stored if find_echo(content, (candidate,))), None)


def _first_repeated(written: Words, folded: Words, shelf: _SentenceIndex) -> int | None:
    """Find the known text with the first sentence, if known texts have all; else None."""
    first: int | None = None
    at = begins = 0
    while at < len(folded) and at - begins <= _FRAME:
        match = _sentence_at(folded, at, shelf)
        if match is None:
            at += 1
        elif _is_framing(written[begins:at]):
            first = match[1] if first is None else first
            at = begins = at + match[0]
        else:
            return None
    return first if at == begins else None


def _sentence_at(folded: Words, at: int, shelf: _SentenceIndex) -> tuple[int, int] | None:
    """Find the longest known sentence at a position: its length, and its text."""
    for length in shelf.lengths.get(folded[at : at + _UNIT], ()):
        text = shelf.texts.get(folded[at : at + length])
        if text is not None:
            return length, text
    return None


def _is_framing(words: Words) -> bool:
    """Tell whether words only introduce the sentence that follows them."""
    rest = words[1:] if len(words) > 1 else words
    named = any(word[0].isupper() and len(word) > 1 for word in rest)
    return not named and all(
        word.replace("'", "").isalpha()
        and word.casefold() not in _NEGATIONS
        and not word.casefold().endswith("n't")
        for word in words
    )


def _tokens(text: str) -> Words:
    """Split a text into words and significant signs, as they are written."""
    pieces = _TOKEN.findall(_TAG.sub("\n", separate_characters(text)))
    return tuple(
        piece
        for piece in pieces
        if len(piece) > 1 or piece in _SIGNIFICANT or category(piece)[0] != "P"
    )


def _fold_words(words: Words) -> Words:
    return tuple(map(str.casefold, words))


def _has_words(text: str, folded: Words) -> bool:
    """Tell whether a text has just these words; a long one is compared by its beginning first."""
    if len(text) <= _KEPT:
        return folded == _cached_words(text)
    begins = _fold_words(_tokens(text[:_KEPT]))[:-1]  # the last may be cut
    return folded[: len(begins)] == begins and folded == _fold_words(_tokens(text))


@lru_cache(maxsize=512)
def _cached_words(text: str) -> Words:
    return _fold_words(_tokens(text))


class _SentenceIndex(NamedTuple):
    """The sentences of known texts: in which text each stands first, and how long they are."""

    texts: dict[Words, int]
    lengths: dict[Words, list[int]]
    """By their first words, the longest first."""


@lru_cache(maxsize=2)  # of two calls at once; what was recalled may be long
def _index_sentences(texts: tuple[str, ...]) -> _SentenceIndex:
    places: dict[Words, int] = {}
    for place, text in enumerate(texts):
        for sentence in split_sentences(_TAG.sub("\n", text), _ENDS):
            words = _fold_words(_tokens(sentence))
            if _UNIT <= len(words) <= _LONGEST:
                places.setdefault(words, place)
    lengths: dict[Words, list[int]] = {}
    for sentence_words in sorted(places, key=len, reverse=True):
        sizes = lengths.setdefault(sentence_words[:_UNIT], [])
        if sizes[-1:] != [len(sentence_words)]:
            sizes.append(len(sentence_words))
    return _SentenceIndex(places, lengths)


class RecalledMemory(Protocol):
    """A memory that somebody was shown: a recollection or a reminder."""

    @property
    def key(self) -> str:
        """The key of the memory."""

    @property
    def namespace(self) -> tuple[str, ...]:
        """The namespace of the memory."""

    @property
    def content(self) -> str:
        """The text of the memory."""


class _CallerRecalls(OrderedDict[tuple[tuple[str, ...], str], tuple[KnownText, datetime]]):
    """The memories that one caller recalled, by namespace and key, and when, the latest last."""


class RecentRecalls:
    """The memories that each caller recalled last, each once; several threads may use it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._of: OrderedDict[Caller, _CallerRecalls] = OrderedDict()
        self._kept = self._characters = 0

    def note(self, caller: Caller, memories: Iterable[RecalledMemory], now: datetime) -> None:
        """Keep what a recall returned to a caller; callers who recalled longest ago make room."""
        by_place = {(memory.namespace, memory.key): memory for memory in memories}
        if not by_place:
            return
        with self._lock:
            own = self._of.setdefault(caller, _CallerRecalls())
            self._of.move_to_end(caller)
            for place, memory in by_place.items():
                if place in own:
                    self._forget(own, place)
                text = KnownText(content=memory.content, key=memory.key, namespace=memory.namespace)
                own[place] = text, now
                self._kept += 1
                self._characters += len(text.content)
            while own and (
                len(own) > MAX_PER_CALLER or now - next(iter(own.values()))[1] > RECALL_LIFE
            ):
                self._forget(own, next(iter(own)))
            while self._kept > MAX_OF_ALL or self._characters > MAX_CHARACTERS:
                longest_ago, theirs = next(iter(self._of.items()))
                if theirs:
                    self._forget(theirs, next(iter(theirs)))
                if not theirs:
                    del self._of[longest_ago]

    def known(self, caller: Caller, now: datetime) -> tuple[KnownText, ...]:
        """List the texts that a caller recalled in the last hour, the latest first."""
        with self._lock:
            own = self._of.get(caller, _CallerRecalls())
            kept = [text for text, at in own.values() if now - at <= RECALL_LIFE]
        return tuple(reversed(kept))

    def _forget(self, own: _CallerRecalls, place: tuple[tuple[str, ...], str]) -> None:
        text, _ = own.pop(place)
        self._kept -= 1
        self._characters -= len(text.content)
