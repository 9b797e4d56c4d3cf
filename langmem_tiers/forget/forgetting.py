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

from langmem_tiers.consolidation.archive import (
    ArchiveFile,
    ArchiveStorage,
    WrittenFile,
    list_archives,
)
from langmem_tiers.consolidation.lease import thread_name
from langmem_tiers.core.errors import ConflictError, FileError, InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import decode_namespace
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import unfinished_exports
from langmem_tiers.forget.find import (
    EARLIER,
    ForgetRequest,
    ForgetScope,
    find_scope,
    find_threads,
    find_traces,
    read_files,
)
from langmem_tiers.forget.passages import (
    is_distinctive,
    sentences,
    strings_of,
    strip_accents,
    words_of,
)
from langmem_tiers.forget.receipt import (
    ForgetPlan,
    ForgetReceipt,
    NearForm,
    PlannedMemory,
    PlannedThread,
    nonzero_counts,
)
from langmem_tiers.forget.text_places import (
    PLACES,
    IntentionRow,
    MemoryRow,
    Scrubber,
    TextPlace,
    filter_rows,
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
from langmem_tiers.remember.tombstones import KeyedHashes, load_hashes
from langmem_tiers.store.write import LOCK, columns, lock_call

_ALIKE: Final = "it says the same by itself: forget it too, if it is meant"
_GONE: Final = "gone"
_TENANTS: Final = "it is the tenant's"
_MOST_NEAR: Final = 20
"""The number of near forms that are told, the most frequent first: our own choice."""


class _RequestKey(NamedTuple):
    """The means to hash for a tenant, and the hash of what is to be forgotten."""

    hashes: KeyedHashes
    new: str | None
    """The key of the hashes, where it is new and is to be kept."""
    asked: str


def check_checkpointer(value: object) -> None:
    """Refuse what cannot delete a thread.

    Raises:
        InvalidTypeError: then.
    """
    verbs = ("delete_thread", "adelete_thread")
    if value is not None and not all(callable(getattr(value, verb, None)) for verb in verbs):
        raise InvalidTypeError(
            "checkpointer is a LangGraph checkpointer, which has delete_thread, not "
            f"{type(value).__name__}"
        )


# The plan


def plan_forgetting(request: ForgetRequest) -> Flow[ForgetPlan]:
    """Find what `forget` would do.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    tenant = request.tenant
    key = yield from _load_key(request)
    rows = yield from rows_of("forgettings", tenant=tenant, asked=key.asked)
    request = _add_earlier(request, _latest_receipt(rows, key))
    files = yield from list_archives(tenant)
    unfinished = tuple(map(str, (yield from unfinished_exports.list_unfinished(tenant))))
    if request.kind == "tenant":
        return replace((yield from _plan_of_tenant(request, files)), unfinished=unfinished)
    scope = yield from find_scope(request, (yield from read_files(files, request.files)))
    gone = yield from find_traces(scope)
    named = yield from find_threads(scope, gone)
    near = yield from _near_forms(scope)
    params = {"tenant": tenant, "ids": scope.ids, "user": request.user}
    (rows,) = yield Query((Call("traces_left", params),), commit=True)
    counts = Counter(row[0] for row in rows)
    counts["events"], counts["states"] = len(gone.events), len(gone.states)
    counts["recalls"] = len(gone.recalls)
    counts["intentions"] += len(gone.intentions)
    counts["exposures"] += len(gone.shown)
    counts["audit"] = len(gone.logged)
    return ForgetPlan(
        kind=request.kind,
        erased=tuple(_planned_memories(scope, scope.erased)),
        rewritten=tuple(_planned_memories(scope, scope.suspect)),
        counts=nonzero_counts(counts),
        scrubbed=gone.scrubbed,
        alike=tuple(_planned_row(request, row, _ALIKE) for row in gone.alike),
        files=tuple(file.url for file, _ in scope.files),
        threads=tuple(PlannedThread(*each) for each in named.items()),
        unfinished=unfinished,
        near=near,
    )


def _planned_memories(scope: ForgetScope, reasons: Mapping[int, str]) -> Iterator[PlannedMemory]:
    rows = {**{row.id: row for row in scope.lines}, **scope.rows}
    under = {row.id: row for row in scope.request.under}
    for id_, why in sorted(reasons.items()):
        if id_ in rows:
            yield _planned_row(scope.request, rows[id_], why)
        elif id_ in under:
            namespace, key = under[id_].place
            yield PlannedMemory(key, namespace, _GONE, why)


def _planned_row(request: ForgetRequest, row: MemoryRow, why: str) -> PlannedMemory:
    key = row.key if request.can_reach(row) else None
    return PlannedMemory(key, decode_namespace(request.tenant, row.namespace), row.tier, why)


def _near_forms(scope: ForgetScope) -> Flow[tuple[NearForm, ...]]:
    """Find other spellings of the subject's names in what stays, which may mean it."""
    subject, gone = scope.request.subject, scope.erased
    if subject is None:
        return ()
    counted, written = Counter[str](), dict[str, str]()

    def see(place: TextPlace, row: Any) -> None:
        if isinstance(row, MemoryRow | IntentionRow) and row.id in gone:
            return
        texts = (
            strings_of(row.trigger, names=True)
            if isinstance(row, IntentionRow)
            else place.texts_of(row)
        )
        forms = [form for text in texts for form in subject.near_in(text)]
        counted.update({strip_accents(form) for form in forms})
        for form in forms:
            written.setdefault(strip_accents(form), form)

    for table in ("memories", "intentions", "events", "states"):
        yield from filter_rows(table, scope.request.tenant, partial(see, PLACES[table]))
    most = sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:_MOST_NEAR]
    return tuple(NearForm(written[form], number) for form, number in most)


def _plan_of_tenant(request: ForgetRequest, files: Sequence[ArchiveFile]) -> Flow[ForgetPlan]:
    """Plan that all goes that a tenant has."""
    erased: list[PlannedMemory] = []
    yield from filter_rows(
        "memories", request.tenant, lambda row: erased.append(_planned_row(request, row, _TENANTS))
    )
    named = yield from _threads_of_tenant(request.tenant)
    (rows,) = yield Query((Call("tenant_left", {"tenant": request.tenant}),), commit=True)
    return ForgetPlan(
        kind="tenant",
        erased=tuple(erased),
        rewritten=(),
        counts=nonzero_counts(dict(rows)),
        scrubbed=0,
        files=tuple(file.url for file in files),
        threads=tuple(PlannedThread(thread, _TENANTS) for thread in named),
    )


def _threads_of_tenant(tenant: str) -> Flow[list[str]]:
    """Find the sessions of a tenant, and the thread of its cycles."""
    (rows,) = yield Query((Call("sessions_of_tenant", {"tenant": tenant}),))
    sessions: set[str | None] = {row[0] for row in rows} | {thread_name(tenant)}
    yield from filter_rows("states", tenant, lambda state: sessions.add(state.session))
    return sorted(thread for thread in sessions if thread is not None)


# Forgetting


def run_forgetting(request: ForgetRequest) -> Flow[ForgetReceipt]:
    """Forget what is asked for, and answer the receipt.

    What an earlier call left to be removed, of whatever it was asked, is removed first. What was
    forgotten before, and of which nothing has come since, answers its receipt.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    key = yield from _load_key(request)
    elsewhere = tuple(map(str, (yield from unfinished_exports.remove_unfinished(request.tenant))))
    earlier = yield from _finish_removals(request, key)
    request = _add_earlier(request, earlier)
    forgetting = _forget_tenant if request.kind == "tenant" else _forget
    receipt = yield from forgetting(request, key)
    nothing = not any(receipt.counts.values()) and not receipt.files and not receipt.scrubbed
    if earlier is not None and nothing:
        return replace(earlier, unfinished=elsewhere)
    yield from _finish_removals(request, key)
    return replace(receipt, unfinished=elsewhere)


def _load_key(request: ForgetRequest) -> Flow[_RequestKey]:
    """Hash what is asked for: a subject by its names in order."""
    hashes, secret = yield from load_hashes(request.tenant)
    named = request.name
    if request.subject is not None:
        named = "\0".join(sorted(" ".join(name) for name in request.subject.names))
    return _RequestKey(hashes, secret, hashes.exact(f"{request.kind}\0{named}"))


def _add_earlier(request: ForgetRequest, earlier: ForgetReceipt | None) -> ForgetRequest:
    """Add what was forgotten by the same name before, of which a file may be left."""
    if earlier is not None:
        return replace(request, earlier=dict.fromkeys(earlier.ids, EARLIER))
    if request.kind == "key" and not request.under:
        raise InvalidInputError(
            f"there is no memory {request.name!r} in tenant {request.context.tenant!r}, and none "
            "was rejected, made room or is archived: nothing was forgotten"
        )
    return request


def _latest_receipt(rows: Sequence[Row], key: _RequestKey) -> ForgetReceipt | None:
    """Return the latest receipt of a question, among rows of forgettings."""
    return next((ForgetReceipt.of_json(row[2]) for row in rows if row[1] == key.asked), None)


@retried_on_conflict
def _forget(request: ForgetRequest, key: _RequestKey) -> Flow[ForgetReceipt]:
    """Look, write files, and take all of it away in one transaction."""
    tenant = request.tenant
    filed = yield from read_files((yield from list_archives(tenant)), request.files)
    first = yield from find_scope(request, filed)
    yield Query((), commit=True)
    written: list[WrittenFile | None] = []
    for file, lines in first.files:  # each is written beside the old one, if anything stays of it
        new = None
        if lines:
            writing = partial(request.files().rewrite, file.url, file.archive, tenant, lines)
            new = yield from off_loop(writing, sys.maxsize)
        written.append(new)
    affected = [*first.forgotten, *(first.rows[id_] for id_ in first.suspect)]
    keys = [(row.namespace, row.key) for row in affected]
    yield from _lock(request, keys, [file for file, _ in filed])
    scope = yield from find_scope(request, filed)
    if scope.suspect != first.suspect or scope.lines != first.lines:
        raise ConflictError("what is to be forgotten changed meanwhile; nothing was changed")
    gone = yield from find_traces(scope)
    named = yield from find_threads(scope, gone)
    counts = yield from _erase(scope, gone)
    receipt = yield from _record_receipt(
        request,
        key,
        named,
        (_replace_call(first, written),),
        ids=tuple(scope.ids),
        rewritten=tuple(scope.suspect),
        hashes=tuple(sorted({key.hashes.of(content_of(row.value)) for row in scope.forgotten})),
        sentences=tuple(sorted(_sentences(scope, key.hashes))),
        counts=nonzero_counts(counts),
        scrubbed=gone.scrubbed,
        files={
            file.url: new and new.url for (file, _), new in zip(first.files, written, strict=True)
        },
    )
    request.advance(len(scope.ids))
    return receipt


@retried_on_conflict
def _forget_tenant(request: ForgetRequest, key: _RequestKey) -> Flow[ForgetReceipt]:
    """Take all that a tenant has away in one transaction, and note its files and threads."""
    tenant = request.tenant
    files = yield from list_archives(tenant)
    ids: list[int] = []
    content_hashes: set[str] = set()
    for file in files:
        content_hashes |= yield from off_loop(
            partial(_hash_archive, request.files(), file, key.hashes), sys.maxsize
        )
    yield from _lock(request, (), files)
    named = yield from _threads_of_tenant(tenant)

    def see(row: MemoryRow) -> None:
        ids.append(row.id)
        content_hashes.add(key.hashes.of(content_of(row.value)))
        request.advance(1)

    yield from filter_rows("memories", tenant, see)
    log: dict[str, Any] = {"tenant": tenant, "ids": None, "entries": [], "named": True}
    rows, _ = yield Query((Call("forget_tenant", {"tenant": tenant}), Call("audit_forget", log)))
    receipt = yield from _record_receipt(
        request,
        key,
        named,
        ids=tuple(ids),
        rewritten=(),
        hashes=tuple(sorted(content_hashes)),
        sentences=(),
        counts=nonzero_counts(dict(rows)),
        scrubbed=0,
        files={file.url: None for file in files},
    )
    return receipt


def _hash_archive(files: ArchiveStorage, file: ArchiveFile, hashes: KeyedHashes) -> set[str]:
    """Hash what an archive holds, as far as it can be read: it goes in any case."""
    try:
        lines = files.read(file.url, file.checksum)
    except FileError:
        return set()
    return {hashes.of(content_of(json.loads(line.value))) for line in lines}


def _lock(
    request: ForgetRequest, keys: Iterable[tuple[str, str]], files: Sequence[ArchiveFile]
) -> Flow[None]:
    """Let all who write these keys, move, record or archive wait, if no file was changed."""
    tenant = request.tenant
    locked = lock_call([(tenant, "", LOCK), *((tenant, *key) for key in keys)], request.options)
    held = (Call(name, {"tenant": tenant}) for name in ("hold_recalls", "hold_archives"))
    *_, rows = yield Query((NO_HURRY, locked, *held))
    if dict(rows) != {file.archive: file.checksum for file in files}:
        raise ConflictError("an archive was written meanwhile; nothing was changed")


def _erase(scope: ForgetScope, gone: Scrubber) -> Flow[dict[str, int]]:
    """Take everything out of the database, in the transaction that is open; how many rows."""
    request, options = scope.request, scope.request.options
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
            Call("forget_memories", {**own, "ids": scope.ids, "user": request.user}),
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
    if ids := list(scope.suspect):
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
    changed = ((event.event, event.id, event.target, _json(event.detail)) for event in gone.changed)
    states = ((state.owner, state.kind, state.name) for state in gone.states)
    recalls = ((recall.turn, recall.recall) for recall in gone.recalls)
    shown = ((row.run, row.id) for row in gone.shown)
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "events": ("forget_events", {"gone": gone.events, **columns(names, changed)}),
        "states": ("forget_states", columns(("owners", "kinds", "names"), states)),
        "recalls": ("forget_recalls", columns(("turns", "recalls"), recalls)),
        "intentions": ("forget_waiting", {"ids": gone.intentions, "held": gone.held}),
        "exposures": ("forget_shown", columns(("runs", "ids"), shown)),
    }
    return {table: Call(name, {**own, **params}) for table, (name, params) in calls.items()}


def _replace_call(scope: ForgetScope, written: Sequence[WrittenFile | None]) -> Call:
    """Return the call by which new files take the places of the old ones."""
    names = ("old", "archives", "urls", "checksums", "left")
    none = (None, None, None)
    rows = (
        (file.archive, *(new or none), len(lines))
        for (file, lines), new in zip(scope.files, written, strict=True)
    )
    return Call("replace_archives", {"tenant": scope.request.tenant, **columns(names, rows)})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sentences(scope: ForgetScope, hashes: KeyedHashes) -> set[str]:
    """Hash the sentences that say enough to be known again, and nobody else says."""
    texts = {text for row in scope.forgotten for text in row.texts}
    all_sentences = {tuple(words_of(part)) for text in texts for part in sentences(text)}
    own = filter(is_distinctive, all_sentences - scope.common)
    return {hashes.exact(" ".join(sentence)) for sentence in own}


def _record_receipt(
    request: ForgetRequest,
    key: _RequestKey,
    named: Iterable[str],
    further: Sequence[Call] = (),
    **went: Any,
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


def _finish_removals(request: ForgetRequest, key: _RequestKey) -> Flow[ForgetReceipt | None]:
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
    return _latest_receipt(rows, key)
