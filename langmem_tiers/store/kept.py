"""Objects kept in memory for those who stand on a store; they outlive each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """One object of each kind, made when it is first asked for; several threads may use it.

    A graph makes a coordinator for each of its nodes, which find here what the earlier ones know.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._of: dict[Callable[[], Any], Any] = {}

    def one(self, kind: Callable[[], T]) -> T:
        """Return the object of that kind, one for the store."""
        with self._lock:
            if kind not in self._of:
                self._of[kind] = kind()
            found: T = self._of[kind]
            return found
