"""Forgetting a whole tenant: every row that has its name."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial
from typing import Any
from uuid import uuid4

from langmem_tiers.consolidate.archive import ArchiveFile, Files, archives
from langmem_tiers.consolidate.lease import thread_of
from langmem_tiers.core.errors import ArchiveError, ConflictError
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.how import Forgetting
from langmem_tiers.forget.looking import PAGE, Asked
from langmem_tiers.forget.passages import Passages
from langmem_tiers.forget.reach import Known
from langmem_tiers.forget.receipt import (
    ForgetPlan,
    ForgetReceipt,
    PlannedMemory,
    PlannedThread,
    counted,
)
from langmem_tiers.forget.recording import Keyed, Pending, record
from langmem_tiers.forget.scrub import Scrubber, State
from langmem_tiers.postgres.flow import Call, Flow, Query, apart, begun_anew
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.store.write import LOCK, lock_call

_WHY = "it is the tenant's"


def plan_of_tenant(asked: Asked, files: Sequence[ArchiveFile]) -> Flow[ForgetPlan]:
    """All that a tenant has."""
    erased: list[PlannedMemory] = []
    page = {"tenant": asked.tenant, "user": None, "limit": PAGE, "after": 0}
    while True:
        (rows,) = yield Query((Call("memories_page", page),))
        if not rows:
            break
        erased += [
            PlannedMemory(one.key, decode(asked.tenant, one.namespace), one.tier, _WHY)
            for one in (Known(*row) for row in rows)
        ]
        page["after"] = rows[-1][0]
    threads = yield from _threads(asked)
    (rows,) = yield Query((Call("tenant_left", {"tenant": asked.tenant}),), commit=True)
    return ForgetPlan(
        kind="tenant",
        erased=tuple(erased),
        rewritten=(),
        counts=counted(dict(rows)),
        scrubbed=0,
        files=tuple(one.url for one in files),
        threads=tuple(PlannedThread(one, "it is the tenant's") for one in threads),
    )


@begun_anew
def forget_tenant(asked: Asked, how: Forgetting, key: Keyed) -> Flow[ForgetReceipt]:
    """Take all that a tenant has away in one transaction, and note its files and threads."""
    tenant = asked.tenant
    files = yield from archives(tenant)
    said = yield from _archived(files, how, key)
    held = (Call(name, {"tenant": tenant}) for name in ("hold_recalls", "hold_archives"))
    *_, rows = yield Query((NO_HURRY, lock_call([(tenant, "", LOCK)], how.options), *held))
    if dict(rows) != {one.archive: one.checksum for one in files}:
        raise ConflictError("an archive was written meanwhile; nothing was changed")
    threads = yield from _threads(asked)
    ids: list[int] = []
    page = {"tenant": tenant, "user": None, "limit": PAGE, "after": 0}
    while True:
        (rows,) = yield Query((Call("memories_page", page),))
        if not rows:
            break
        ids += [row[0] for row in rows]
        said |= {key.hashes.of(content_of(Known(*row).value)) for row in rows}
        page["after"] = rows[-1][0]
        how.advance(len(rows))
    log: dict[str, Any] = {"tenant": tenant, "ids": None, "entries": [], "named": True}
    rows, _ = yield Query((Call("forget_tenant", {"tenant": tenant}), Call("audit_forget", log)))
    passed = how.checkpointer is not None
    receipt = ForgetReceipt(
        receipt=str(uuid4()),
        tenant=tenant,
        kind="tenant",
        asked=key.named,
        at=how.now.astimezone(UTC).isoformat(),
        ids=tuple(ids),
        rewritten=(),
        hashes=tuple(sorted(said)),
        sentences=(),
        counts=counted(dict(rows)),
        scrubbed=0,
        files={one.url: None for one in files},
        named_threads=() if passed else tuple(threads),
    )
    urls = [one.url for one in files]
    yield from record(receipt, Pending(urls, threads if passed else []), key, how.now)
    return replace(receipt, threads=tuple(threads)) if passed else receipt


def _archived(files: Sequence[ArchiveFile], how: Forgetting, key: Keyed) -> Flow[set[str]]:
    """The hashes of what archives hold, as far as they can be read: they go in any case."""
    found: set[str] = set()
    for file in files:
        found |= yield from apart(partial(_hashed, how.files(), file, key), sys.maxsize)
    return found


def _hashed(files: Files, file: ArchiveFile, key: Keyed) -> set[str]:
    try:
        lines = files.read(file.url, file.checksum)
    except ArchiveError:
        return set()
    return {key.hashes.of(content_of(json.loads(one.value))) for one in lines}


def _threads(asked: Asked) -> Flow[list[str]]:
    """The sessions of a tenant, and the thread of its cycles."""
    tenant = asked.tenant
    (named,) = yield Query((Call("sessions_of_tenant", {"tenant": tenant}),))
    found = {row[0] for row in named} | {thread_of(tenant)}
    page = {"tenant": tenant, "owner": "", "kind": "", "name": "", "limit": PAGE}
    while True:
        (rows,) = yield Query((Call("states_page", page),))
        if not rows:
            return sorted(found)
        found |= set(_sessions(tenant, [State(*row) for row in rows]))
        page |= dict(zip(("owner", "kind", "name"), rows[-1], strict=False))


def _sessions(tenant: str, states: Sequence[State]) -> Iterator[str]:
    scrubber = Scrubber(tenant=tenant, erased=frozenset(), passages=Passages(()))
    for one in states:
        if (session := scrubber.session_of(one)) is not None:
            yield session
