"""Keyed hashes of what was forgotten, by which it is known if it comes again."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from langmem_tiers.core.texts import normalise
from langmem_tiers.postgres.flow import Call, Flow, Query, off_loop, rows_of

FORGOTTEN: Final = "it was forgotten; readmit lets it back"
"""The reason why a forgotten text is refused."""
_SECRET_BYTES: Final = 32


class KeyedHashes:
    """Makes the keyed hashes (HMAC-SHA256) of one tenant."""

    def __init__(self, secret: bytes) -> None:
        """Hold the tenant's key."""
        self._keyed = hmac.new(secret, digestmod=hashlib.sha256)

    def of(self, text: str) -> str:
        """Hash a text without case, white space and marks at its end."""
        return self.exact(normalise(text))

    def exact(self, text: str) -> str:
        """Hash a text to the letter."""
        made = self._keyed.copy()
        made.update(text.encode("utf-8", "surrogatepass"))
        return made.hexdigest()


def load_hashes(tenant: str) -> Flow[tuple[KeyedHashes, str | None]]:
    """Load the hashes of a tenant, or make them by a new key, which the caller has to keep."""
    rows = yield from rows_of("tombstone_key", tenant=tenant)
    if rows:
        return KeyedHashes(bytes.fromhex(rows[0][0])), None
    secret = secrets.token_hex(_SECRET_BYTES)
    return KeyedHashes(bytes.fromhex(secret)), secret


def find_forgotten(tenant: str, contents: Sequence[str]) -> Flow[dict[str, str]]:
    """Find the contents that were forgotten, each with its hash."""
    rows = yield from rows_of("tombstone_key", tenant=tenant)
    if not rows or not contents:
        return {}
    keyed = KeyedHashes(bytes.fromhex(rows[0][0]))
    named: dict[str, str] = yield from off_loop(
        lambda: {content: keyed.of(content) for content in contents}, sum(map(len, contents))
    )
    wanted = sorted(set(named.values()))
    (matches,) = yield Query((Call("buried", {"tenant": tenant, "hashes": wanted}),), commit=True)
    buried = {row[0] for row in matches}
    return {text: hash_ for text, hash_ in named.items() if hash_ in buried}


def readmit(tenant: str, hashes: Iterable[str]) -> Flow[None]:
    """Let contents come back, by their hashes."""
    wanted = sorted(set(hashes))
    if wanted:
        params = {"tenant": tenant, "hashes": wanted}
        yield Query((Call("readmit", params),), commit=True)
