"""Handles: the short ids by which a model, or a person, is shown a memory and names it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

from langmem_tiers.core.namespaces import encode

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
        from langmem_tiers.core.handles import handle_of

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
