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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.consolidate.archive import (
    ArchiveFile,
    ArchiveStorage,
    WrittenFile,
    list_archives,
)
from langmem_tiers.consolidate.lease import thread_name
from langmem_tiers.core.errors import ConflictError, FileError, InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import decode_namespace
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import parts
from langmem_tiers.forget.find import EARLIER, Found, Request, find, read_files, threads, traces
from langmem_tiers.forget.passages import bare, is_telling, sentences, strings_of, words_of
from langmem_tiers.forget.places import PLACES, MemoryRow, Place, Scrubber, Waiting, each_row
from langmem_tiers.forget.receipt import (
    ForgetPlan,
    ForgetReceipt,
    NearForm,
    PlannedMemory,
    PlannedThread,
    counted,
)
from langmem_tiers.postgres.flow import (
    Ask,
    Call,
    Flow,
    Query,
    Row,
    off_loop,
    retried_on_conflict,
    rows_of,
)
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.remember.tombstones import Hashes, hashes_of
from langmem_tiers.store.write import LOCK, columns, lock_call

_ALIKE: Final = "it says the same by itself: forget it too, if it is meant"
_GONE: Final = "gone"
_TENANTS: Final = "it is the tenant's"
_MOST_NEAR: Final = 20
"""The number of near forms that are told, the most frequent first: our own choice."""


class _Key(NamedTuple):
    """The means to hash for a tenant, and the hash of what is to be forgotten."""

    hashes: Hashes
    new: str | None
    """The key of the hashes, where it is new and is to be kept."""
    asked: str


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


# The plan


def plan(request: Request) -> Flow[ForgetPlan]:
    """Find what `forget` would do.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    tenant = request.tenant
    key = yield from _key_of(request)
    rows = yield from rows_of("forgettings", tenant=tenant, asked=key.asked)
    request = _with_earlier(request, _latest(rows, key))
    files = yield from list_archives(tenant)
    unfinished = tuple(map(str, (yield from parts.left(tenant))))
    if request.kind == "tenant":
        return replace((yield from _plan_of_tenant(request, files)), unfinished=unfinished)
    found = yield from find(request, (yield from read_files(files, request.files)))
    gone = yield from traces(found)
    named = yield from threads(found, gone)
    near = yield from _near_forms(found)
    params = {"tenant": tenant, "ids": found.ids, "user": request.user}
    (rows,) = yield Query((Call("traces_left", params),), commit=True)
    counts = Counter(row[0] for row in rows)
    counts["events"], counts["states"] = len(gone.events), len(gone.states)
    counts["recalls"] = len(gone.recalls)
    counts["intentions"] += len(gone.intentions)
    counts["exposures"] += len(gone.shown)
    counts["audit"] = len(gone.logged)
    return ForgetPlan(
        kind=request.kind,
        erased=tuple(_planned(found, found.erased)),
        rewritten=tuple(_planned(found, found.suspect)),
        counts=counted(counts),
        scrubbed=gone.scrubbed,
        alike=tuple(_planned_row(request, row, _ALIKE) for row in gone.alike),
        files=tuple(file.url for file, _ in found.files),
        threads=tuple(PlannedThread(*each) for each in named.items()),
        unfinished=unfinished,
        near=near,
    )


def _planned(found: Found, several: Mapping[int, str]) -> Iterator[PlannedMemory]:
    rows = {**{row.id: row for row in found.lines}, **found.rows}
    under = {row.id: row for row in found.request.under}
    for id_, why in sorted(several.items()):
        if id_ in rows:
            yield _planned_row(found.request, rows[id_], why)
        elif id_ in under:
            namespace, key = under[id_].place
            yield PlannedMemory(key, namespace, _GONE, why)


def _planned_row(request: Request, row: MemoryRow, why: str) -> PlannedMemory:
    key = row.key if request.reaches(row) else None
    return PlannedMemory(key, decode_namespace(request.tenant, row.namespace), row.tier, why)


def _near_forms(found: Found) -> Flow[tuple[NearForm, ...]]:
    """Find other spellings of the subject's names in what stays, which may mean it."""
    subject, gone = found.request.subject, found.erased
    if subject is None:
        return ()
    counted, written = Counter[str](), dict[str, str]()

    def see(place: Place, row: Any) -> None:
        if isinstance(row, MemoryRow | Waiting) and row.id in gone:
            return
        texts = (
            strings_of(row.trigger, names=True) if isinstance(row, Waiting) else place.texts_of(row)
        )
        forms = [form for text in texts for form in subject.near_in(text)]
        counted.update({bare(form) for form in forms})
        for form in forms:
            written.setdefault(bare(form), form)

    for table in ("memories", "intentions", "events", "states"):
        yield from each_row(table, found.request.tenant, partial(see, PLACES[table]))
    most = sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:_MOST_NEAR]
    return tuple(NearForm(written[form], number) for form, number in most)


def _plan_of_tenant(request: Request, files: Sequence[ArchiveFile]) -> Flow[ForgetPlan]:
    """Plan that all goes that a tenant has."""
    erased: list[PlannedMemory] = []
    yield from each_row(
        "memories", request.tenant, lambda row: erased.append(_planned_row(request, row, _TENANTS))
    )
    named = yield from _threads_of_tenant(request.tenant)
    (rows,) = yield Query((Call("tenant_left", {"tenant": request.tenant}),), commit=True)
    return ForgetPlan(
        kind="tenant",
        erased=tuple(erased),
        rewritten=(),
        counts=counted(dict(rows)),
        scrubbed=0,
        files=tuple(file.url for file in files),
        threads=tuple(PlannedThread(thread, _TENANTS) for thread in named),
    )


def _threads_of_tenant(tenant: str) -> Flow[list[str]]:
    """Find the sessions of a tenant, and the thread of its cycles."""
    (rows,) = yield Query((Call("sessions_of_tenant", {"tenant": tenant}),))
    found: set[str | None] = {row[0] for row in rows} | {thread_name(tenant)}
    yield from each_row("states", tenant, lambda state: found.add(state.session))
    return sorted(thread for thread in found if thread is not None)


# Forgetting


def forget(request: Request) -> Flow[ForgetReceipt]:
    """Forget what is asked for, and answer the receipt.

    What an earlier call left to be removed, of whatever it was asked, is removed first. What was
    forgotten before, and of which nothing has come since, answers its receipt.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    key = yield from _key_of(request)
    elsewhere = tuple(map(str, (yield from parts.clean(request.tenant))))
    earlier = yield from _finish(request, key)
    request = _with_earlier(request, earlier)
    forgetting = _forget_tenant if request.kind == "tenant" else _forget
    receipt = yield from forgetting(request, key)
    nothing = not any(receipt.counts.values()) and not receipt.files and not receipt.scrubbed
    if earlier is not None and nothing:
        return replace(earlier, unfinished=elsewhere)
    yield from _finish(request, key)
    return replace(receipt, unfinished=elsewhere)


def _key_of(request: Request) -> Flow[_Key]:
    """Hash what is asked for: a subject by its names in order."""
    hashes, secret = yield from hashes_of(request.tenant)
    named = request.name
    if request.subject is not None:
        named = "\0".join(sorted(" ".join(name) for name in request.subject.names))
    return _Key(hashes, secret, hashes.exact(f"{request.kind}\0{named}"))


def _with_earlier(request: Request, earlier: ForgetReceipt | None) -> Request:
    """Add what was forgotten by the same name before, of which a file may be left."""
    if earlier is not None:
        return replace(request, earlier=dict.fromkeys(earlier.ids, EARLIER))
    if request.kind == "key" and not request.under:
        raise InvalidInputError(
            f"there is no memory {request.name!r} in tenant {request.context.tenant!r}, and none "
            "was rejected, made room or is archived: nothing was forgotten"
        )
    return request


def _latest(rows: Sequence[Row], key: _Key) -> ForgetReceipt | None:
    """Return the latest receipt of a question, among rows of forgettings."""
    return next((ForgetReceipt.of_json(row[2]) for row in rows if row[1] == key.asked), None)


@retried_on_conflict
def _forget(request: Request, key: _Key) -> Flow[ForgetReceipt]:
    """Look, write files, and take all of it away in one transaction."""
    tenant = request.tenant
    filed = yield from read_files((yield from list_archives(tenant)), request.files)
    first = yield from find(request, filed)
    yield Query((), commit=True)
    written: list[WrittenFile | None] = []
    for file, lines in first.files:  # each is written beside the old one, if anything stays of it
        new = None
        if lines:
            writing = partial(request.files().rewrite, file.url, file.archive, tenant, lines)
            new = yield from off_loop(writing, sys.maxsize)
        written.append(new)
    several = [*first.forgotten, *(first.rows[id_] for id_ in first.suspect)]
    keys = [(row.namespace, row.key) for row in several]
    yield from _hold(request, keys, [file for file, _ in filed])
    found = yield from find(request, filed)
    if found.suspect != first.suspect or found.lines != first.lines:
        raise ConflictError("what is to be forgotten changed meanwhile; nothing was changed")
    gone = yield from traces(found)
    named = yield from threads(found, gone)
    counts = yield from _take_away(found, gone)
    receipt = yield from _record(
        request,
        key,
        named,
        (_replace_call(first, written),),
        ids=tuple(found.ids),
        rewritten=tuple(found.suspect),
        hashes=tuple(sorted({key.hashes.of(content_of(row.value)) for row in found.forgotten})),
        sentences=tuple(sorted(_sentences(found, key.hashes))),
        counts=counted(counts),
        scrubbed=gone.scrubbed,
        files={
            file.url: new and new.url for (file, _), new in zip(first.files, written, strict=True)
        },
    )
    request.advance(len(found.ids))
    return receipt


@retried_on_conflict
def _forget_tenant(request: Request, key: _Key) -> Flow[ForgetReceipt]:
    """Take all that a tenant has away in one transaction, and note its files and threads."""
    tenant = request.tenant
    files = yield from list_archives(tenant)
    ids: list[int] = []
    said: set[str] = set()
    for file in files:
        said |= yield from off_loop(
            partial(_hashed, request.files(), file, key.hashes), sys.maxsize
        )
    yield from _hold(request, (), files)
    named = yield from _threads_of_tenant(tenant)

    def see(row: MemoryRow) -> None:
        ids.append(row.id)
        said.add(key.hashes.of(content_of(row.value)))
        request.advance(1)

    yield from each_row("memories", tenant, see)
    log: dict[str, Any] = {"tenant": tenant, "ids": None, "entries": [], "named": True}
    rows, _ = yield Query((Call("forget_tenant", {"tenant": tenant}), Call("audit_forget", log)))
    receipt = yield from _record(
        request,
        key,
        named,
        ids=tuple(ids),
        rewritten=(),
        hashes=tuple(sorted(said)),
        sentences=(),
        counts=counted(dict(rows)),
        scrubbed=0,
        files={file.url: None for file in files},
    )
    return receipt


def _hashed(files: ArchiveStorage, file: ArchiveFile, hashes: Hashes) -> set[str]:
    """Hash what an archive holds, as far as it can be read: it goes in any case."""
    try:
        lines = files.read(file.url, file.checksum)
    except FileError:
        return set()
    return {hashes.of(content_of(json.loads(line.value))) for line in lines}


def _hold(
    request: Request, keys: Iterable[tuple[str, str]], files: Sequence[ArchiveFile]
) -> Flow[None]:
    """Let all who write these keys, move, record or archive wait, if no file was changed."""
    tenant = request.tenant
    locked = lock_call([(tenant, "", LOCK), *((tenant, *key) for key in keys)], request.options)
    held = (Call(name, {"tenant": tenant}) for name in ("hold_recalls", "hold_archives"))
    *_, rows = yield Query((NO_HURRY, locked, *held))
    if dict(rows) != {file.archive: file.checksum for file in files}:
        raise ConflictError("an archive was written meanwhile; nothing was changed")


def _take_away(found: Found, gone: Scrubber) -> Flow[dict[str, int]]:
    """Take everything out of the database, in the transaction that is open; how many rows."""
    request, options = found.request, found.request.options
    own: dict[str, Any] = {"tenant": request.tenant}
    actor = options.audit.actor
    log = {
        "ids": sorted(gone.erased | gone.quoting.keys()),
        "entries": gone.logged,
        "named": actor is None or not gone.is_who(actor),
    }
    others = _trace_calls(own, gone)
    rows, _, *cleared, ((counted_before,),) = yield Query(
        (
            Call("forget_memories", {**own, "ids": found.ids, "user": request.user}),
            Call("audit_forget", {**own, **log}),
            *others.values(),
            Call("is_counted", own),
        )
    )
    if gone.quoting:
        quoting = ((row.id, _json(row.value), row.version) for row in gone.quoting.values())
        unquoted = {**own, **columns(("ids", "values", "versions"), quoting)}
        (changed,) = yield Query((Call("unquote_memories", unquoted),))
        if len(changed) != len(gone.quoting):
            raise ConflictError("what quotes it changed meanwhile; nothing was changed")
    if ids := list(found.suspect):
        events = [f"forgot-{id_}-{uuid4()}" for id_ in ids]
        doubt = {**own, "ids": ids, "events": events, "now": request.now}
        yield Query((Call("doubt_kin", doubt),))
    if counted_before:
        yield Query((Call("count_tenant", {**own, "exact_limit": options.exact_limit}),))
    taken = Counter(dict(rows))
    taken.update({table: each[0][0] for table, each in zip(others, cleared, strict=True)})
    return {**taken, "audit": len(gone.logged)}


def _trace_calls(own: Mapping[str, Any], gone: Scrubber) -> dict[str, Call]:
    """Return the calls that clear other tables, by table; each answers how many rows went."""
    names = ("events", "ids", "targets", "details")
    told = ((event.event, event.id, event.target, _json(event.detail)) for event in gone.changed)
    states = ((state.owner, state.kind, state.name) for state in gone.states)
    recalls = ((recall.turn, recall.recall) for recall in gone.recalls)
    shown = ((row.run, row.id) for row in gone.shown)
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "events": ("forget_events", {"gone": gone.events, **columns(names, told)}),
        "states": ("forget_states", columns(("owners", "kinds", "names"), states)),
        "recalls": ("forget_recalls", columns(("turns", "recalls"), recalls)),
        "intentions": ("forget_waiting", {"ids": gone.intentions, "held": gone.held}),
        "exposures": ("forget_shown", columns(("runs", "ids"), shown)),
    }
    return {table: Call(name, {**own, **given}) for table, (name, given) in calls.items()}


def _replace_call(found: Found, written: Sequence[WrittenFile | None]) -> Call:
    """Return the call by which new files take the places of the old ones."""
    names = ("old", "archives", "urls", "checksums", "left")
    none = (None, None, None)
    rows = (
        (file.archive, *(new or none), len(lines))
        for (file, lines), new in zip(found.files, written, strict=True)
    )
    return Call("replace_archives", {"tenant": found.request.tenant, **columns(names, rows)})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sentences(found: Found, hashes: Hashes) -> set[str]:
    """Hash the sentences that say enough to be known again, and nobody else says."""
    texts = {text for row in found.forgotten for text in row.texts}
    said = {tuple(words_of(part)) for text in texts for part in sentences(text)}
    own = filter(is_telling, said - found.common)
    return {hashes.exact(" ".join(sentence)) for sentence in own}


def _record(
    request: Request, key: _Key, named: Iterable[str], further: Sequence[Call] = (), **went: Any
) -> Flow[ForgetReceipt]:
    """Bury the contents and keep the receipt and what is to be removed; with this it is committed.

    `named` are the threads, and `went` is what the receipt says went. The hash of a user is one
    that can be found in what is left.

    Raises:
        ConflictError: if somebody else made the tenant's key meanwhile.
    """
    own = {"tenant": request.tenant}
    names = () if request.subject is None else request.subject.names
    deletes = request.checkpointer is not None
    receipt = ForgetReceipt(
        receipt=str(uuid4()),
        tenant=request.tenant,
        kind=request.kind,
        asked=key.hashes.exact(request.name) if request.kind == "user" else key.asked,
        names={key.hashes.exact(" ".join(name)): len(name) for name in names},
        at=request.now.astimezone(UTC).isoformat(),
        threads=tuple(named) if deletes else (),
        named_threads=() if deletes else tuple(named),
        **went,
    )
    new = () if key.new is None else (Call("keep_tombstone_key", {**own, "secret": key.new}),)
    *_, rows = yield Query((*new, Call("tombstone_key", own)))
    if key.new is not None and rows[0][0] != key.new:
        raise ConflictError("something else was forgotten meanwhile; nothing was changed")
    kept = {
        "receipt": receipt.receipt,
        "asked": key.asked,
        "now": request.now,
        "detail": json.dumps(receipt.given),
        "files": list(receipt.files),
        "threads": list(receipt.threads),
    }
    logged = {"receipt": receipt.receipt, "digest": receipt.digest}
    last = (
        *further,
        Call("bury", {**own, "hashes": list(receipt.hashes), "now": request.now}),
        Call("record_forgetting", {**own, **kept}),
        Call("audit_receipt", {**own, **logged}),
    )
    yield Query(last, commit=True)
    return receipt


def _finish(request: Request, key: _Key) -> Flow[ForgetReceipt | None]:
    """Remove what earlier calls left to be removed; the latest receipt of the same question.

    Threads stay to be deleted until a checkpointer is given.
    """
    rows = yield from rows_of("forgettings", tenant=request.tenant, asked=key.asked)
    for receipt, _, _, files, threads_left in rows:
        if not files and not threads_left:
            continue
        for url in files:
            yield from off_loop(partial(request.files().remove, url), sys.maxsize)
        left = list(threads_left)
        if (saver := request.checkpointer) is not None:
            for thread in left:
                yield Ask(
                    partial(saver.delete_thread, thread), partial(saver.adelete_thread, thread)
                )
            left = []
        request.advance(len(files))
        done = {"tenant": request.tenant, "receipt": receipt, "files": [], "threads": left}
        yield Query((Call("finish_forgetting", done),), commit=True)
    return _latest(rows, key)
