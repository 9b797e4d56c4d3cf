"""Forgetting: a plan, then files without it, one transaction, and what is removed after that.

The order is what makes it whole. New archive files are written first, and nothing names them. One
transaction takes everything out of the database, names the new files in place of the old ones,
and notes which files and threads are to be removed. Those are removed last. Whatever is broken
off before the transaction has changed nothing; what is broken off after it is finished by the next
call.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

from langmem_tiers.consolidate.archive import (
    ArchivedMemory,
    ArchiveFile,
    Files,
    Written,
    archives,
)
from langmem_tiers.consolidate.lease import thread_of
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import (
    ArchiveError,
    ConflictError,
    InvalidInputError,
    InvalidTypeError,
)
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import looking, parts
from langmem_tiers.forget.looking import Asked, Filed, Found
from langmem_tiers.forget.passages import is_telling, sentences, words_of
from langmem_tiers.forget.places import Known, State, each_row
from langmem_tiers.forget.reach import ALIKE
from langmem_tiers.forget.receipt import (
    ForgetPlan,
    ForgetReceipt,
    PlannedMemory,
    PlannedThread,
    counted,
)
from langmem_tiers.forget.scrub import Scrubber
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, Row, apart, begun_anew, rows_of
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.remember.tombstones import Hashes, hashes_of
from langmem_tiers.store.write import LOCK, columns, lock_call

_GONE: Final = "gone"
_TENANTS: Final = "it is the tenant's"


class Forgetting(NamedTuple):
    """How something is forgotten."""

    options: StoreOptions
    files: Callable[[], Files]
    """Where archives are; asked for only where there are any."""
    now: datetime
    checkpointer: Any = None
    """Whose threads go along: what has `delete_thread`, of LangGraph's kind."""
    advance: Callable[[int], object] = lambda _: None
    """Is told of each memory and each file that is done with."""


class _Keyed(NamedTuple):
    """The hashes of a tenant, and that of what is asked."""

    hashes: Hashes
    new: str | None
    """The key, where it is new and is to be kept."""
    named: str


_Left: TypeAlias = list[tuple[ArchiveFile, list[ArchivedMemory]]]
"""Files that hold something that goes, each with the lines that stay."""


def check_checkpointer(given: object) -> None:
    """Refuse what cannot delete a thread.

    Raises:
        InvalidTypeError: then.
    """
    verbs = ("delete_thread", "adelete_thread")
    if given is not None and not all(callable(getattr(given, one, None)) for one in verbs):
        raise InvalidTypeError(
            "checkpointer is a LangGraph checkpointer, which has delete_thread, not "
            f"{type(given).__name__}"
        )


def plan(asked: Asked, how: Forgetting) -> Flow[ForgetPlan]:
    """What `forget` would do.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    key = yield from _keyed(asked)
    rows = yield from rows_of("forgettings", tenant=asked.tenant, asked=key.named)
    asked = _with_earlier(asked, _latest(rows, key.named))
    files = yield from archives(asked.tenant)
    broken_off = tuple(map(str, (yield from parts.left(asked.tenant))))
    if asked.kind == "tenant":
        return replace((yield from _plan_of_tenant(asked, files)), unfinished=broken_off)
    held = yield from looking.filed(files, how.files)
    found = yield from looking.memories(asked, held, how.options)
    gone = yield from looking.traces(found)
    threads = yield from looking.threads(found, gone)
    near = yield from looking.near_forms(found)
    params = {"tenant": asked.tenant, "ids": found.ids, "user": asked.user}
    (rows,) = yield Query((Call("traces_left", params),), commit=True)
    counts = Counter(row[0] for row in rows)
    counts["events"], counts["states"] = len(gone.events), len(gone.states)
    counts["recalls"] = len(gone.recalls)
    counts["intentions"] += len(gone.intentions)
    counts["exposures"] += len(gone.shown)
    counts["audit"] = len(gone.logged)
    return ForgetPlan(
        kind=asked.kind,
        erased=tuple(_planned(found, found.reach.erased)),
        rewritten=tuple(_planned(found, found.reach.suspect)),
        counts=counted(counts),
        scrubbed=gone.scrubbed,
        alike=tuple(_planned_one(asked, one, ALIKE) for one in gone.alike),
        files=tuple(file.url for file, _ in _left(held, found)),
        threads=tuple(PlannedThread(*one) for one in threads.items()),
        unfinished=broken_off,
        near=near,
    )


def _planned(found: Found, several: Mapping[int, str]) -> Iterator[PlannedMemory]:
    here = {**{one.id: one for one in found.lines}, **found.known}
    under = {one.id: one for one in found.asked.under}
    for id_, why in sorted(several.items()):
        if id_ in here:
            yield _planned_one(found.asked, here[id_], why)
        elif id_ in under:
            namespace, key = under[id_].place
            yield PlannedMemory(key, namespace, _GONE, why)


def _planned_one(asked: Asked, one: Known, why: str) -> PlannedMemory:
    key = one.key if asked.reaches(one) else None
    return PlannedMemory(key, decode(asked.tenant, one.namespace), one.tier, why)


def _left(held: Sequence[Filed], found: Found) -> _Left:
    gone = found.reach.erased
    return [
        (file, [one for one in lines if one.id not in gone])
        for file, lines in held
        if any(one.id in gone for one in lines)
    ]


def _plan_of_tenant(asked: Asked, files: Sequence[ArchiveFile]) -> Flow[ForgetPlan]:
    """All that a tenant has."""
    erased: list[PlannedMemory] = []

    def see(one: Known) -> None:
        erased.append(_planned_one(asked, one, _TENANTS))

    yield from each_row("memories", asked.tenant, see)
    threads = yield from _threads_of_tenant(asked.tenant)
    (rows,) = yield Query((Call("tenant_left", {"tenant": asked.tenant}),), commit=True)
    return ForgetPlan(
        kind="tenant",
        erased=tuple(erased),
        rewritten=(),
        counts=counted(dict(rows)),
        scrubbed=0,
        files=tuple(one.url for one in files),
        threads=tuple(PlannedThread(one, _TENANTS) for one in threads),
    )


def _threads_of_tenant(tenant: str) -> Flow[list[str]]:
    """The sessions of a tenant, and the thread of its cycles."""
    (named,) = yield Query((Call("sessions_of_tenant", {"tenant": tenant}),))
    found: set[str | None] = {row[0] for row in named} | {thread_of(tenant)}

    def see(one: State) -> None:
        found.add(one.session)

    yield from each_row("states", tenant, see)
    return sorted(one for one in found if one is not None)


def forget(asked: Asked, how: Forgetting) -> Flow[ForgetReceipt]:
    """Forget what is asked for, and answer the receipt.

    What an earlier call left to be removed, of whatever it was asked, is removed first. What was
    forgotten before, and of which nothing has come since, answers its receipt.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    key = yield from _keyed(asked)
    elsewhere = tuple(map(str, (yield from parts.clean(asked.tenant))))
    earlier = yield from _finish(asked.tenant, key.named, how)
    asked = _with_earlier(asked, earlier)
    forgetting = _forget_tenant if asked.kind == "tenant" else _forget
    receipt = yield from forgetting(asked, how, key)
    nothing = not any(receipt.counts.values()) and not receipt.files and not receipt.scrubbed
    if earlier is not None and nothing:
        return replace(earlier, unfinished=elsewhere)
    yield from _finish(asked.tenant, key.named, how)
    return replace(receipt, unfinished=elsewhere)


def _keyed(asked: Asked) -> Flow[_Keyed]:
    """The hashes of the tenant, and that of what is asked: of a subject by its names in order."""
    hashes, secret = yield from hashes_of(asked.tenant)
    named = asked.name
    if asked.subject is not None:
        named = "\0".join(sorted(" ".join(one) for one in asked.subject.names))
    return _Keyed(hashes, secret, hashes.exact(f"{asked.kind}\0{named}"))


def _with_earlier(asked: Asked, earlier: ForgetReceipt | None) -> Asked:
    """With what was forgotten by the same name before, of which a file may be left."""
    if earlier is not None:
        return replace(asked, earlier=dict.fromkeys(earlier.ids, looking.EARLIER))
    if asked.kind == "key" and not asked.under:
        raise InvalidInputError(
            f"there is no memory {asked.name!r} in tenant {asked.context.tenant!r}, and none was "
            "rejected, made room or is archived: nothing was forgotten"
        )
    return asked


def _latest(rows: Sequence[Row], named: str) -> ForgetReceipt | None:
    """The latest receipt of a question, among rows of forgettings."""
    return next((ForgetReceipt.of_json(row[2]) for row in rows if row[1] == named), None)


@begun_anew
def _forget(asked: Asked, how: Forgetting, key: _Keyed) -> Flow[ForgetReceipt]:
    """Do it: look, write files, and take all of it away in one transaction."""
    tenant = asked.tenant
    held = yield from looking.filed((yield from archives(tenant)), how.files)
    first = yield from looking.memories(asked, held, how.options)
    yield Query((), commit=True)
    left = _left(held, first)
    written = yield from _written(left, tenant, how.files)
    several = [*first.forgotten, *(first.known[one] for one in first.reach.suspect)]
    keys = [(one.namespace, one.key) for one in several]
    yield from _hold(tenant, keys, [one.file for one in held], how.options)
    found = yield from looking.memories(asked, held, how.options)
    if found.reach.suspect != first.reach.suspect or found.lines != first.lines:
        raise ConflictError("what is to be forgotten changed meanwhile; nothing was changed")
    gone = yield from looking.traces(found)
    threads = yield from looking.threads(found, gone)
    counts = yield from _take_away(found, gone, how)
    receipt = ForgetReceipt(
        **_told(asked, how, key, threads),
        ids=tuple(found.ids),
        rewritten=tuple(found.reach.suspect),
        hashes=tuple(sorted({key.hashes.of(content_of(one.value)) for one in found.forgotten})),
        sentences=tuple(sorted(_sentences(found, key.hashes))),
        counts=counted(counts),
        scrubbed=gone.scrubbed,
        files={file.url: new and new.url for (file, _), new in zip(left, written, strict=True)},
    )
    receipt = yield from _record(receipt, threads, key, how, _replace_call(tenant, left, written))
    how.advance(len(found.ids))
    return receipt


@begun_anew
def _forget_tenant(asked: Asked, how: Forgetting, key: _Keyed) -> Flow[ForgetReceipt]:
    """Take all that a tenant has away in one transaction, and note its files and threads."""
    tenant = asked.tenant
    files = yield from archives(tenant)
    ids: list[int] = []
    said: set[str] = set()
    for file in files:
        said |= yield from apart(partial(_hashed, how.files(), file, key.hashes), sys.maxsize)
    yield from _hold(tenant, (), files, how.options)
    threads = yield from _threads_of_tenant(tenant)

    def see(one: Known) -> None:
        ids.append(one.id)
        said.add(key.hashes.of(content_of(one.value)))
        how.advance(1)

    yield from each_row("memories", tenant, see)
    log: dict[str, Any] = {"tenant": tenant, "ids": None, "entries": [], "named": True}
    rows, _ = yield Query((Call("forget_tenant", {"tenant": tenant}), Call("audit_forget", log)))
    receipt = ForgetReceipt(
        **_told(asked, how, key, threads),
        ids=tuple(ids),
        rewritten=(),
        hashes=tuple(sorted(said)),
        sentences=(),
        counts=counted(dict(rows)),
        scrubbed=0,
        files={one.url: None for one in files},
    )
    return (yield from _record(receipt, threads, key, how))


def _hashed(files: Files, file: ArchiveFile, hashes: Hashes) -> set[str]:
    """The hashes of what an archive holds, as far as it can be read: it goes in any case."""
    try:
        lines = files.read(file.url, file.checksum)
    except ArchiveError:
        return set()
    return {hashes.of(content_of(json.loads(one.value))) for one in lines}


def _hold(
    tenant: str,
    keys: Iterable[tuple[str, str]],
    files: Sequence[ArchiveFile],
    options: StoreOptions,
) -> Flow[None]:
    """Let all who write these keys, move, record or archive wait, if no file was changed."""
    locked = lock_call([(tenant, "", LOCK), *((tenant, *one) for one in keys)], options)
    held = (Call(name, {"tenant": tenant}) for name in ("hold_recalls", "hold_archives"))
    *_, rows = yield Query((NO_HURRY, locked, *held))
    if dict(rows) != {one.archive: one.checksum for one in files}:
        raise ConflictError("an archive was written meanwhile; nothing was changed")


def _written(left: _Left, tenant: str, files: Callable[[], Files]) -> Flow[list[Written | None]]:
    """Write what stays of files, each beside the old one; of which nothing stays, none."""
    found: list[Written | None] = [None] * len(left)
    for number, (file, lines) in enumerate(left):
        if lines:
            writing = partial(files().rewrite, file.url, file.archive, tenant, lines)
            found[number] = yield from apart(writing, sys.maxsize)
    return found


def _replace_call(tenant: str, left: _Left, written: Sequence[Written | None]) -> Call:
    """The call by which new files take the places of the old ones."""
    names = ("old", "archives", "urls", "checksums", "left")
    none = (None, None, None)
    rows = (
        (file.archive, *(new or none), len(lines))
        for (file, lines), new in zip(left, written, strict=True)
    )
    return Call("replace_archives", {"tenant": tenant, **columns(names, rows)})


def _take_away(found: Found, gone: Scrubber, how: Forgetting) -> Flow[dict[str, int]]:
    """Take everything out of the database, in the transaction that is open; how many rows."""
    own: dict[str, Any] = {"tenant": found.asked.tenant}
    actor = how.options.audit.actor
    log = {
        "ids": sorted(gone.erased | gone.quoting.keys()),
        "entries": gone.logged,
        "named": actor is None or not gone.is_who(actor),
    }
    traces = _trace_calls(own, gone)
    rows, _, *others, ((counted_before,),) = yield Query(
        (
            Call("forget_memories", {**own, "ids": found.ids, "user": found.asked.user}),
            Call("audit_forget", {**own, **log}),
            *traces.values(),
            Call("is_counted", own),
        )
    )
    yield from _unquote(own, gone.quoting.values())
    if found.reach.suspect:
        ids = list(found.reach.suspect)
        events = [f"forgot-{one}-{uuid4()}" for one in ids]
        yield Query((Call("doubt_kin", {**own, "ids": ids, "events": events, "now": how.now}),))
    if counted_before:
        again = {**own, "exact_limit": how.options.exact_limit}
        yield Query((Call("count_tenant", again),))
    taken = Counter(dict(rows))
    taken.update({table: each[0][0] for table, each in zip(traces, others, strict=True)})
    return {**taken, "audit": len(gone.logged)}


def _trace_calls(own: Mapping[str, Any], gone: Scrubber) -> dict[str, Call]:
    """Return the calls that clear other tables, by table; each answers how many rows went."""
    names = ("events", "ids", "targets", "details")
    told = ((one.event, one.id, one.target, _json(one.detail)) for one in gone.changed)
    states = ((one.owner, one.kind, one.name) for one in gone.states)
    recalls = ((one.turn, one.recall) for one in gone.recalls)
    shown = ((one.run, one.id) for one in gone.shown)
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "events": ("forget_events", {"gone": gone.events, **columns(names, told)}),
        "states": ("forget_states", columns(("owners", "kinds", "names"), states)),
        "recalls": ("forget_recalls", columns(("turns", "recalls"), recalls)),
        "intentions": ("forget_waiting", {"ids": gone.intentions, "held": gone.held}),
        "exposures": ("forget_shown", columns(("runs", "ids"), shown)),
    }
    return {table: Call(name, {**own, **given}) for table, (name, given) in calls.items()}


def _unquote(own: Mapping[str, Any], several: Collection[Known]) -> Flow[None]:
    """Take what others quote of it beside their content away."""
    if several:
        names = ("ids", "values", "versions")
        quoting = columns(names, ((one.id, _json(one.value), one.version) for one in several))
        (rows,) = yield Query((Call("unquote_memories", {**own, **quoting}),))
        if len(rows) != len(several):
            raise ConflictError("what quotes it changed meanwhile; nothing was changed")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _told(asked: Asked, how: Forgetting, key: _Keyed, threads: Iterable[str]) -> dict[str, Any]:
    """What a receipt says of the question; the hash of a user can be found in what is left."""
    names = () if asked.subject is None else asked.subject.names
    return {
        "receipt": str(uuid4()),
        "tenant": asked.tenant,
        "kind": asked.kind,
        "asked": key.hashes.exact(asked.name) if asked.kind == "user" else key.named,
        "names": {key.hashes.exact(" ".join(one)): len(one) for one in names},
        "at": how.now.astimezone(UTC).isoformat(),
        "named_threads": tuple(threads) if how.checkpointer is None else (),
    }


def _sentences(found: Found, keyed: Hashes) -> set[str]:
    """The hashes of the sentences that say enough to be known again, and nobody else says."""
    texts = {text for one in found.forgotten for text in one.texts}
    said = {tuple(words_of(part)) for text in texts for part in sentences(text)}
    return {keyed.exact(" ".join(one)) for one in said - found.common if is_telling(one)}


def _record(
    receipt: ForgetReceipt, threads: Iterable[str], key: _Keyed, how: Forgetting, *further: Call
) -> Flow[ForgetReceipt]:
    """Bury the contents and keep the receipt and what is to be removed; with this it is committed.

    Raises:
        ConflictError: if somebody else made the tenant's key meanwhile.
    """
    own = {"tenant": receipt.tenant}
    pending = list(threads) if how.checkpointer is not None else []
    new = () if key.new is None else (Call("keep_tombstone_key", {**own, "secret": key.new}),)
    *_, rows = yield Query((*new, Call("tombstone_key", own)))
    if key.new is not None and rows[0][0] != key.new:
        raise ConflictError("something else was forgotten meanwhile; nothing was changed")
    kept = {
        "receipt": receipt.receipt,
        "asked": key.named,
        "now": how.now,
        "detail": json.dumps(receipt.given),
        "files": list(receipt.files),
        "threads": pending,
    }
    logged = {"receipt": receipt.receipt, "digest": receipt.digest}
    last = (
        *further,
        Call("bury", {**own, "hashes": list(receipt.hashes), "now": how.now}),
        Call("record_forgetting", {**own, **kept}),
        Call("audit_receipt", {**own, **logged}),
    )
    yield Query(last, commit=True)
    return replace(receipt, threads=tuple(pending))


def _finish(tenant: str, named: str, how: Forgetting) -> Flow[ForgetReceipt | None]:
    """Remove what earlier calls left to be removed; the latest receipt of the same question.

    Threads stay to be deleted until a checkpointer is given.
    """
    rows = yield from rows_of("forgettings", tenant=tenant, asked=named)
    for receipt, _, _, files, threads in rows:
        if not files and not threads:
            continue
        for url in files:
            yield from apart(partial(how.files().remove, url), sys.maxsize)
        left = list(threads)
        if (saver := how.checkpointer) is not None:
            for one in threads:
                yield Ask(partial(saver.delete_thread, one), partial(saver.adelete_thread, one))
            left = []
        how.advance(len(files))
        done = {"tenant": tenant, "receipt": receipt, "files": [], "threads": left}
        yield Query((Call("finish_forgetting", done),), commit=True)
    return _latest(rows, named)
