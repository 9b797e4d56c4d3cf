"""Keyed hashes of what was forgotten, by which it is known if it comes again."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from langmem_tiers.core.reading import normalise
from langmem_tiers.postgres.flow import Call, Flow, Query, off_loop, rows_of

FORGOTTEN: Final = "it was forgotten; readmit lets it back"
"""Why something is refused that comes again."""
_SECRET_BYTES: Final = 32


class Hashes:
    """Makes the keyed hashes (HMAC-SHA256) of one tenant."""

    def __init__(self, secret: bytes) -> None:
        """Hold the tenant's key."""
        self._keyed = hmac.new(secret, digestmod=hashlib.sha256)

    def of(self, text: str) -> str:
        """The hash of a text without case, white space and what ends a sentence."""
        return self.exact(normalise(text))

    def exact(self, text: str) -> str:
        """The hash of a text to the letter."""
        made = self._keyed.copy()
        made.update(text.encode("utf-8", "surrogatepass"))
        return made.hexdigest()


def hashes_of(tenant: str) -> Flow[tuple[Hashes, str | None]]:
    """What makes a tenant's hashes; and a new key, to be kept, where the tenant has none."""
    rows = yield from rows_of("tombstone_key", tenant=tenant)
    if rows:
        return Hashes(bytes.fromhex(rows[0][0])), None
    secret = secrets.token_hex(_SECRET_BYTES)
    return Hashes(bytes.fromhex(secret)), secret


def buried(tenant: str, contents: Sequence[str]) -> Flow[dict[str, str]]:
    """Which of these contents were forgotten, each with its hash."""
    rows = yield from rows_of("tombstone_key", tenant=tenant)
    if not rows or not contents:
        return {}
    keyed = Hashes(bytes.fromhex(rows[0][0]))
    named: dict[str, str] = yield from off_loop(
        lambda: {one: keyed.of(one) for one in contents}, sum(map(len, contents))
    )
    several = sorted(set(named.values()))
    (found,) = yield Query((Call("buried", {"tenant": tenant, "hashes": several}),), commit=True)
    known = {row[0] for row in found}
    return {text: hash_ for text, hash_ in named.items() if hash_ in known}


def readmit(tenant: str, hashes: Iterable[str]) -> Flow[None]:
    """Let contents come back, by their hashes."""
    several = sorted(set(hashes))
    if several:
        params = {"tenant": tenant, "hashes": several}
        yield Query((Call("readmit", params),), commit=True)
