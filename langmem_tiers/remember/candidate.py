"""What is to be remembered, as the gate and the reviewers look at it, and what was recalled."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from langmem_tiers.core.context import Caller
from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.memory import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A text that is known already, by the key of its memory."""

    content: str
    key: str | None = None
    namespace: tuple[str, ...] | None = None


_TYPED: Final = 300
"""Characters up to which a message counts as typed: our own choice."""
_PARAGRAPHS: Final = re.compile(r"\n[ \t]*\n")


class Part(NamedTuple):
    """One of the texts that a content was put together of, and whose word it is."""

    text: str
    source: str | None = None
    """None for that of the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text that may become a memory."""

    content: str
    memory_type: str | None = "episodic"
    """None is `episodic`."""
    parts: tuple[Part, ...] = ()
    """What the content was put together of, in a layout of ours; each is judged by itself."""
    source: str = Source.USER
    trust: float = 1.0
    """How far it is trusted at most, in 0…1, whatever its source."""
    tags: tuple[str, ...] = ()
    importance: float | None = None
    """In 0…1."""
    beside: tuple[str, ...] = ()
    """What else a prompt may say of it: who said it, and the circumstances."""
    recalled: tuple[Known, ...] = ()
    """What was recalled in its run, and the instructions that the agent runs under: what repeats
    them is no new evidence."""
    stored: tuple[Known, ...] = ()
    """What is stored and might say the same."""


MOST: Final = 256
"""The most memories that are kept of one caller, the latest."""
MOST_OF_ALL: Final = 20_000
"""The most memories that are kept of all callers: our own choice."""
CHARACTERS: Final = 10_000_000
"""The most characters of the memories of all callers: our own choice."""
LIFE: Final = timedelta(hours=1)
"""For how long, by the store's clock."""


_Place = tuple[tuple[str, ...], str]
"""The place of a memory: its namespace and key."""


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


class _Own(OrderedDict[_Place, tuple[Known, datetime]]):
    """The memories that one caller recalled, and when, the latest last."""


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
            self._make_room()

    def known(self, caller: Caller, now: datetime) -> tuple[Known, ...]:
        """Return what a caller recalled in the last hour, the latest first."""
        with self._lock:
            own = self._of.get(caller, _Own())
            kept = [known for known, at in own.values() if now - at <= LIFE]
        return tuple(reversed(kept))

    def _make_room(self) -> None:
        while self._kept > MOST_OF_ALL or self._characters > CHARACTERS:
            caller, own = next(iter(self._of.items()))
            if own:
                self._forget(own, next(iter(own)))
            if not own:
                del self._of[caller]

    def _forget(self, own: _Own, place: _Place) -> None:
        known, _ = own.pop(place)
        self._kept -= 1
        self._characters -= len(known.content)


def recalled_texts(given: Iterable[object]) -> tuple[Known, ...]:
    """What was recalled, as texts, recollections or their facts as mappings, for the gate.

    Raises:
        InvalidTypeError: for anything else.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidTypeError(f"recalled is a list of what was recalled, not {short(given)}")
    return tuple(map(_recalled, given))


def _recalled(one: object) -> Known:
    if isinstance(one, Known):
        return one
    if isinstance(one, str):
        return Known(content=one)
    names = ("content", "key", "namespace")
    if isinstance(one, Mapping):
        content, key, labels = (one.get(name) for name in names)
    else:
        content, key, labels = (getattr(one, name, None) for name in names)
    if not isinstance(content, str) or not isinstance(key, str | None):
        raise InvalidTypeError(
            f"what was recalled is a text or a recollection, not {type(one).__name__}: pass what "
            "get_context returned, or the state's `recalled`"
        )
    return Known(content=content, key=key, namespace=None if labels is None else tuple(labels))


def pasted_in(candidate: Candidate) -> tuple[Part, ...]:
    """Find what a user pasted, which is a page's word: what follows the first of its paragraphs.

    A short message is the user's own, however it is laid out.
    """
    if candidate.source != Source.USER or len(candidate.content) <= _TYPED:
        return ()
    _, *further = _PARAGRAPHS.split(candidate.content.strip(), maxsplit=1)
    return tuple(Part(one, Source.WEB) for one in further)
