"""What stays of a forgetting: its receipt, hashes of contents, and what is to be removed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from langmem_tiers.core.errors import ConflictError
from langmem_tiers.forget.receipt import ForgetReceipt
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.remember.tombstones import Hashes


class Keyed(NamedTuple):
    """The hashes of a tenant, and that of what is asked."""

    hashes: Hashes
    new: str | None
    """The key, where it is new and is to be kept."""
    named: str


class Pending(NamedTuple):
    """What is to be removed once the rest is committed."""

    files: Sequence[str]
    threads: Sequence[str]


def record(
    receipt: ForgetReceipt,
    pending: Pending,
    key: Keyed,
    now: datetime,
    further: Iterable[Call] = (),
) -> Flow[None]:
    """Bury the contents and keep the receipt and what is to be removed; with this it is committed.

    Raises:
        ConflictError: if somebody else made the tenant's key meanwhile.
    """
    tenant = receipt.tenant
    secret = {"tenant": tenant, "secret": key.new}
    new = () if key.new is None else (Call("keep_tombstone_key", secret),)
    *_, rows = yield Query((*new, Call("tombstone_key", {"tenant": tenant})))
    if key.new is not None and rows[0][0] != key.new:
        raise ConflictError("something else was forgotten meanwhile; nothing was changed")
    kept = {
        "tenant": tenant,
        "receipt": receipt.receipt,
        "asked": key.named,
        "now": now,
        "detail": json.dumps(receipt.given),
        "files": list(pending.files),
        "threads": list(pending.threads),
    }
    hashes = {"tenant": tenant, "hashes": list(receipt.hashes), "now": now}
    logged = {"tenant": tenant, "receipt": receipt.receipt, "digest": receipt.digest}
    last = (
        *further,
        Call("bury", hashes),
        Call("record_forgetting", kept),
        Call("audit_receipt", logged),
    )
    yield Query(last, commit=True)
