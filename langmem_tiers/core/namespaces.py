"""Namespaces as the database keeps them: a tenant, and the labels after it as one text."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from langmem_tiers.core.checks import MAX_NAMESPACE_BYTES, utf8_bytes
from langmem_tiers.core.errors import InvalidInputError

_ABOVE_ALL = "\U0010ffff" * (MAX_NAMESPACE_BYTES // 4 + 1)
"""Sorts above every namespace: the last code point, more often than one can hold it."""


class Place(NamedTuple):
    """An exact namespace."""

    tenant: str
    namespace: str


class Scope(NamedTuple):
    """All namespaces under a prefix; `tenant` is None for those of every tenant."""

    tenant: str | None
    low: str
    high: str

    @property
    def kind(self) -> str:
        """How wide it is: everywhere, one tenant, or a prefix within a tenant."""
        if self.tenant is None:
            return "everywhere"
        return "prefix" if self.low else "tenant"


def encode(labels: Sequence[str]) -> Place:
    """Turn labels into the stored form: ("acme", "a", "b") becomes ("acme", "a.b.").

    Raises:
        InvalidInputError: for an empty namespace, one over 400 bytes of UTF-8, or labels that
            are not valid Unicode.
    """
    if not labels:
        raise InvalidInputError("a namespace needs at least one label: the tenant")
    place = Place(labels[0], "".join([f"{label}." for label in labels[1:]]))
    size = utf8_bytes(place.tenant + place.namespace, "namespace")
    if size > MAX_NAMESPACE_BYTES:
        raise InvalidInputError(
            f"the namespace has {size} bytes; use shorter labels, {MAX_NAMESPACE_BYTES} at most"
        )
    return place


@lru_cache(maxsize=1024)
def decode(tenant: str, namespace: str) -> tuple[str, ...]:
    """Turn the stored form back into labels."""
    return (tenant, *namespace.split(".")[:-1])


def scope(prefix: Sequence[str]) -> Scope:
    """Bound the namespaces under a prefix of whole labels; the empty prefix is everything."""
    if not prefix:
        return Scope(None, "", _ABOVE_ALL)
    tenant, namespace = encode(prefix)
    # "/" follows "." in the C collation, so ["a.", "a/") holds exactly what begins with "a.".
    return Scope(tenant, namespace, namespace[:-1] + "/" if namespace else _ABOVE_ALL)


def elsewhere(looked_after: Sequence[str]) -> dict[str, str]:
    """The parameters by which a statement knows what is outside of this prefix."""
    bounds = scope(looked_after)
    return {"project_low": bounds.low, "project_high": bounds.high}


LENGTH: Final = 6
"""Characters of a handle. Of 100,000 memories of a tenant about two share theirs with another."""
_FORM: Final = re.compile(rf"\[?([a-z0-9]{{{LENGTH}}})\]?", re.IGNORECASE)
_PLAIN: Final = str.maketrans("+/", "xy")


def handle_of(namespace: Sequence[str], key: str) -> str:
    """Return the handle of a memory: six letters and digits of a hash of its namespace and key.

    It is the same wherever and whenever it is asked for. The function `handle` of the database
    computes the same.

    Example:
        ```python
        from langmem_tiers.core.namespaces import handle_of

        assert handle_of(("acme", "ann"), "4f1c") == handle_of(["acme", "ann"], "4f1c")
        ```
    """
    place = encode(namespace)
    digest = sha256(f"{place.tenant}.{place.namespace}\n{key}".encode()).digest()
    return b64encode(digest).decode()[:LENGTH].lower().translate(_PLAIN)


def as_handle(named: str) -> str:
    """Return the handle that a text is, with or without its brackets; nothing if it is none."""
    found = _FORM.fullmatch(named.strip())
    return found[1].lower() if found else ""


def bracketed(handle: str) -> str:
    """Return a handle as it stands in a prompt."""
    return f"[{handle}]"


class Replaced(NamedTuple):
    """A memory that another took the place of."""

    handle: str
    at: datetime
    """When it happened, or was recorded."""
