"""What is to be remembered, as the gate and the reviewers look at it, and what was recalled."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.core.memory import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A text that is known already, by the key of its memory."""

    content: str
    key: str | None = None
    namespace: tuple[str, ...] | None = None


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
    """None leaves it to what the text says."""
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
    expiring: frozenset[str] = frozenset()
    """Memory types of a tier that expires: what it says leads to none of them."""


MOST: Final = 256
"""Memories that are kept, the latest."""
LIFE: Final = timedelta(hours=1)
"""For how long, by the store's clock."""


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


class RecalledLately:
    """The memories of the last recalls, each once; several threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[tuple[str, ...], str], tuple[Known, datetime]] = (
            OrderedDict()
        )

    def note(self, found: Iterable[Recalled], now: datetime) -> None:
        """Keep what a recall returned."""
        with self._lock:
            for one in found:
                place = (one.namespace, one.key)
                self._known.pop(place, None)
                known = Known(content=one.content, key=one.key, namespace=one.namespace)
                self._known[place] = known, now
            while len(self._known) > MOST:
                self._known.popitem(last=False)

    def known(self, now: datetime) -> tuple[Known, ...]:
        """What was recalled in the last hour, the latest first."""
        with self._lock:
            kept = [known for known, at in self._known.values() if now - at <= LIFE]
        return tuple(reversed(kept))


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
