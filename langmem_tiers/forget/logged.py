"""What the audit log tells of what is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from langmem_tiers.forget.subject import Subject, labels_of

FORGET = "forget"


class Told(NamedTuple):
    """A row of the log, as the statement `audit_told` answers it."""

    id: int
    memories: list[int]
    verb: str
    told: Mapping[str, Any]

    @property
    def places(self) -> Iterator[tuple[str, str]]:
        """The namespaces and keys that it tells."""
        if "key" in self.told:
            yield self.told["namespace"], self.told["key"]
        yield from ((namespace, key) for namespace, key in self.told.get("read", ()))

    @property
    def names(self) -> list[str]:
        """Return the texts that may name somebody: places, a user, and who acted."""
        whose = (self.told[name] for name in ("user", "actor") if name in self.told)
        places = ((*labels_of(namespace), key) for namespace, key in self.places)
        return [*(name for place in places for name in place), *whose]


class Meant(NamedTuple):
    """Of which rows the log is to forget what they tell."""

    ids: Collection[int]
    """Memories that go, or say less."""
    places: Collection[tuple[str, str]]
    """Where those stand that go: what stood there before goes along."""
    user: str | None
    subject: Subject | None

    def has(self, one: Told) -> bool:
        """Whether a row is one of them."""
        about = one.verb != FORGET and not set(one.memories).isdisjoint(self.ids)
        return about or any(map(self.names, one.names)) or not self._places_apart(one)

    def names(self, name: str) -> bool:
        """Whether this is, or has in it, who is to be forgotten."""
        return name == self.user or (self.subject is not None and self.subject.is_named_in(name))

    def _places_apart(self, one: Told) -> bool:
        return set(one.places).isdisjoint(self.places)
