"""What each caller recalled last, and stores one after another; a store keeps it.

A graph makes a coordinator for each of its nodes, which finds here what earlier ones know.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from secrets import randbelow
from typing import Final, Protocol

from langmem_tiers.core.context import Caller
from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import MAX_TURN
from langmem_tiers.remember.new import Known
from langmem_tiers.store.write import Write

MOST: Final = 256
"""The most memories that are kept of one caller, the latest."""
MOST_OF_ALL: Final = 20_000
"""The most memories that are kept of all callers: our own choice."""
CHARACTERS: Final = 10_000_000
"""The most characters of the memories of all callers: our own choice."""
LIFE: Final = timedelta(hours=1)
"""For how long, by the store's clock."""
_LONGEST = 2**14
"""Turns of a run; the number of its first one is a multiple, drawn, so that no two runs touch."""
_LAST = _LONGEST - 5
"""The place of the last turn of a run in it."""
_APART = timedelta(minutes=30)
"""What is stored later than this after the last is of another run: our own choice."""
_MOST = 10_000
"""The number of callers' places whose runs are kept in mind."""


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


class Runs:
    """Numbers memories that are no turn of a session, in each caller's order of storing in a place.

    They have no session, or nobody said them. Several threads may use it.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._of: OrderedDict[tuple[Caller, Place], tuple[int, datetime]] = OrderedDict()

    def numbered(self, caller: Caller, one: Write, now: datetime) -> Write:
        """The write, with a turn if it has none and gets none in a session."""
        told = one.told
        if told.turn is not None or (told.session and told.speaker):
            return one
        with self._lock:
            turn = self._next((caller, one.place), now)
        return replace(one, told=told._replace(turn=turn))

    def _next(self, place: tuple[Caller, Place], now: datetime) -> int:
        turn, last = self._of.pop(place, (_LAST, now))
        turn += 1
        if turn % _LONGEST > _LAST or abs(now - last) > _APART:
            turn = _LONGEST * (1 + randbelow(MAX_TURN // _LONGEST - 2))
        self._of[place] = turn, now
        if len(self._of) > _MOST:
            self._of.popitem(last=False)
        return turn
