"""Forgetting: a plan, then files without it, one transaction, and what is removed after that.

The order is what makes it whole. New archive files are written first, and nothing names them. One
transaction takes everything out of the database, names the new files in place of the old ones,
and notes which files and threads are to be removed. Those are removed last. Whatever is broken
off before the transaction has changed nothing; what is broken off after it is finished by the next
call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any
from uuid import uuid4

from langmem_tiers.consolidate.archive import archives
from langmem_tiers.core.errors import ConflictError, InvalidInputError
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import archive_lines
from langmem_tiers.forget.archive_lines import Filed, Rewritten
from langmem_tiers.forget.how import Forgetting
from langmem_tiers.forget.looking import EARLIER, Asked, Found, memories, traces
from langmem_tiers.forget.near import near_forms
from langmem_tiers.forget.parts import clean
from langmem_tiers.forget.parts import left as unfinished
from langmem_tiers.forget.passages import sentences, sought, words_of
from langmem_tiers.forget.reach import ALIKE, Known
from langmem_tiers.forget.receipt import (
    ForgetPlan,
    ForgetReceipt,
    PlannedMemory,
    PlannedThread,
    counted,
)
from langmem_tiers.forget.recording import Keyed, Pending, record
from langmem_tiers.forget.rewriting import quote_calls, rewrite_calls, vectors_of
from langmem_tiers.forget.scrub import Scrubbing, details
from langmem_tiers.forget.subject import Subject
from langmem_tiers.forget.tenant import forget_tenant, plan_of_tenant
from langmem_tiers.forget.threads import delete_threads
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, Rows, begun_anew, rows_of
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.remember.tombstones import Hashes, hashes_of
from langmem_tiers.store.write import LOCK, lock_call

_GONE = "gone"


def plan(asked: Asked, how: Forgetting) -> Flow[ForgetPlan]:
    """What `forget` would do.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    key = yield from _keyed(asked)
    rows = yield from rows_of("forgettings", tenant=asked.tenant, asked=key.named)
    asked = _with_earlier(asked, _latest(rows, key.named))
    files = yield from archives(asked.tenant)
    parts = tuple(map(str, (yield from unfinished(asked.tenant))))
    if asked.kind == "tenant":
        return replace((yield from plan_of_tenant(asked, files)), unfinished=parts)
    held = yield from archive_lines.read(files, how.files)
    found = yield from traces((yield from memories(asked, held, how)))
    near = yield from near_forms(found)
    params = {"tenant": asked.tenant, "ids": found.ids, "user": asked.user}
    (rows,) = yield Query((Call("traces_left", params),), commit=True)
    counts = Counter(row[0] for row in rows)
    gone = found.scrubbing
    counts["events"], counts["states"] = len(gone.gone), len(gone.states)
    counts["recalls"] = len(gone.recalls)
    counts["intentions"] += len(gone.intentions)
    counts["exposures"] += len(gone.shown)
    counts["audit"] = len(found.logged)
    return ForgetPlan(
        kind=asked.kind,
        erased=tuple(_planned(found, found.reach.erased)),
        rewritten=tuple(_planned(found, found.reach.rewritten)),
        counts=counted(counts),
        scrubbed=found.scrubbed,
        alike=tuple(_alike(found)),
        files=tuple(one.url for one, _ in _changed(held, found, how)),
        threads=tuple(PlannedThread(*one) for one in sorted(found.threads.items())),
        unfinished=parts,
        near=near,
    )


def _planned(found: Found, several: Mapping[int, str]) -> Iterator[PlannedMemory]:
    asked, tenant = found.asked, found.asked.tenant
    filed_ = {one.id: one for one in found.lines}
    under = {one.id: one for one in asked.under}
    for id_, why in sorted(several.items()):
        one = found.known.get(id_) or filed_.get(id_)
        if one is not None:
            place = decode(tenant, one.namespace)
            seen = asked.kind != "key" or asked.context.reaches(one.tier, place)
            yield PlannedMemory(one.key if seen else None, place, one.tier, why)
        elif id_ in under:
            yield PlannedMemory(under[id_].key, under[id_].place[0], _GONE, why)


def _alike(found: Found) -> Iterator[PlannedMemory]:
    for one in found.alike:
        place = decode(found.asked.tenant, one.namespace)
        seen = found.asked.kind != "key" or found.asked.context.reaches(one.tier, place)
        yield PlannedMemory(one.key if seen else None, place, one.tier, ALIKE)


def _changed(held: Sequence[Filed], found: Found, how: Forgetting) -> list[tuple[Any, list[Any]]]:
    """The files that hold something that goes, each with the lines that stay."""
    tenant, options = found.asked.tenant, how.options
    several = []
    for one in held:
        left = archive_lines.without(
            one, lambda line: found.goes(archive_lines.known(line, tenant, options))
        )
        if left is not None:
            several.append((one.file, left))
    return several


def forget(asked: Asked, how: Forgetting) -> Flow[ForgetReceipt]:
    """Forget what is asked for, and answer the receipt.

    What an earlier call left to be removed, of whatever it was asked, is removed first. What was
    forgotten before, and of which nothing has come since, answers its receipt.

    Raises:
        InvalidInputError: if a key means nothing, now and before.
    """
    key = yield from _keyed(asked)
    elsewhere = tuple(map(str, (yield from clean(asked.tenant))))
    earlier = yield from finish(asked.tenant, key.named, how)
    asked = _with_earlier(asked, earlier)
    if asked.kind == "tenant":
        receipt = yield from forget_tenant(asked, how, key)
    else:
        receipt = yield from _forget(asked, how, key)
    nothing = not any(receipt.counts.values()) and not receipt.files and not receipt.scrubbed
    if earlier is not None and nothing:
        return replace(earlier, unfinished=elsewhere)
    yield from finish(asked.tenant, key.named, how)
    return replace(receipt, unfinished=elsewhere)


def _keyed(asked: Asked) -> Flow[Keyed]:
    """The hashes of the tenant, and that of what is asked."""
    hashes, secret = yield from hashes_of(asked.tenant)
    named = asked.name if asked.subject is None else "\0".join(_spelled(asked.subject))
    return Keyed(hashes, secret, hashes.exact(f"{asked.kind}\0{named}"))


def _spelled(subject: Subject) -> list[str]:
    """Return the names of a subject in one order, whatever order they were given in."""
    return sorted(" ".join(one) for one in subject.names)


def _with_earlier(asked: Asked, earlier: ForgetReceipt | None) -> Asked:
    """With what was forgotten by the same name before, of which a file may be left."""
    if earlier is not None:
        return replace(asked, earlier=dict.fromkeys(earlier.ids, EARLIER))
    if asked.kind == "key" and not asked.under:
        raise InvalidInputError(
            f"there is no memory {asked.name!r} in tenant {asked.context.tenant!r}, and none was "
            "rejected, made room or is archived: nothing was forgotten"
        )
    return asked


def _latest(rows: Sequence[Row], named: str) -> ForgetReceipt | None:
    """The latest receipt of a question, among rows of forgettings."""
    of_it = (ForgetReceipt.of_json(row[2]) for row in rows if row[1] == named)
    return next(of_it, None)


@begun_anew
def _forget(asked: Asked, how: Forgetting, key: Keyed) -> Flow[ForgetReceipt]:
    """Do it: look, write files, and take all of it away in one transaction."""
    held = yield from archive_lines.read((yield from archives(asked.tenant)), how.files)
    first = yield from memories(asked, held, how)
    yield Query((), commit=True)
    vectors = yield from vectors_of(first, how)
    changed = _changed(held, first, how)
    files = yield from archive_lines.rewrite(changed, asked.tenant, how.files)
    now = yield from _locked(first, held, how)
    if now.reach.values != first.reach.values or now.lines != first.lines:
        raise ConflictError("what is to be forgotten changed meanwhile; nothing was changed")
    found = yield from traces(now)
    counts = yield from _take_away(found, how, vectors)
    receipt = _receipt(found, counts, files, how, key)
    threads = sorted(found.threads) if how.checkpointer is not None else []
    urls = [one.file.url for one in files]
    renamed = archive_lines.replace_call(asked.tenant, files)
    yield from record(receipt, Pending(urls, threads), key, how.now, [renamed])
    how.advance(len(found.ids))
    return replace(receipt, threads=tuple(threads)) if threads else receipt


def _locked(first: Found, held: Sequence[Filed], how: Forgetting) -> Flow[Found]:
    """The same, looked at again while all who write these keys, move, or archive wait."""
    tenant = first.asked.tenant
    several = [*first.forgotten, *(first.known[one] for one in first.reach.rewritten)]
    keys = [(tenant, "", LOCK), *((tenant, one.namespace, one.key) for one in several)]
    held_calls = (Call(name, {"tenant": tenant}) for name in ("hold_recalls", "hold_archives"))
    *_, rows = yield Query((NO_HURRY, lock_call(keys, how.options), *held_calls))
    if dict(rows) != {one.file.archive: one.file.checksum for one in held}:
        raise ConflictError("an archive was written meanwhile; nothing was changed")
    return (yield from memories(first.asked, held, how))


def _take_away(found: Found, how: Forgetting, vectors: Mapping[str, Any]) -> Flow[dict[str, int]]:
    """Take everything out of the database, in the transaction that is open; how many rows."""
    tenant = found.asked.tenant
    gone = {"tenant": tenant, "ids": found.ids, "user": found.asked.user}
    actor = how.options.audit.actor
    log = {
        "tenant": tenant,
        "ids": sorted(found.meant.ids),
        "entries": found.logged,
        "named": actor is None or not found.meant.names(actor),
    }
    traces = _trace_calls(tenant, found.scrubbing)
    rows, _, *others, ((counted_before,),) = yield Query(
        (
            Call("forget_memories", gone),
            Call("audit_forget", log),
            *traces.values(),
            Call("is_counted", {"tenant": tenant}),
        )
    )
    unquoted = yield from _done(quote_calls(found))
    if len(unquoted) != len(found.quoting):
        raise ConflictError("what quotes it changed meanwhile; nothing was changed")
    yield from _done(rewrite_calls(found, how, vectors))
    if counted_before:
        again = {"tenant": tenant, "exact_limit": how.options.exact_limit}
        yield Query((Call("count_tenant", again),))
    taken = Counter(dict(rows))
    taken.update({table: each[0][0] for table, each in zip(traces, others, strict=True)})
    return {**taken, "audit": len(found.logged)}


def _trace_calls(tenant: str, of: Scrubbing) -> dict[str, Call]:
    """Return the calls that clear other tables, by table; each answers how many rows went."""
    own: dict[str, Any] = {"tenant": tenant}
    events = {
        **own,
        "gone": of.gone,
        "events": [one.event for one in of.changed],
        "ids": [one.id for one in of.changed],
        "targets": [one.target for one in of.changed],
        "details": details(of.changed),
    }
    states = {
        **own,
        "owners": [one.owner for one in of.states],
        "kinds": [one.kind for one in of.states],
        "names": [one.name for one in of.states],
    }
    recalls = {
        **own,
        "turns": [one.turn for one in of.recalls],
        "recalls": [one.recall for one in of.recalls],
    }
    shown = {**own, "runs": [one.run for one in of.shown], "ids": [one.id for one in of.shown]}
    waiting = {**own, "ids": of.intentions, "held": of.held}
    return {
        "events": Call("forget_events", events),
        "states": Call("forget_states", states),
        "recalls": Call("forget_recalls", recalls),
        "intentions": Call("forget_waiting", waiting),
        "exposures": Call("forget_shown", shown),
    }


def _done(calls: Iterable[Call]) -> Flow[Rows]:
    """Run these in the transaction that is open; what the first of them answers."""
    several = tuple(calls)
    if not several:
        return []
    answers = yield Query(several)
    return list(answers[0])


def _receipt(
    found: Found,
    counts: Mapping[str, int],
    files: Sequence[Rewritten],
    how: Forgetting,
    key: Keyed,
) -> ForgetReceipt:
    asked, keyed = found.asked, key.hashes
    spoken = [*found.forgotten, *_changed_words(found)]
    return ForgetReceipt(
        receipt=str(uuid4()),
        tenant=asked.tenant,
        kind=asked.kind,
        asked=_name_hash(asked, key),
        names=_name_hashes(asked, key),
        at=how.now.astimezone(UTC).isoformat(),
        ids=tuple(found.ids),
        rewritten=tuple(sorted(found.reach.rewritten)),
        hashes=tuple(sorted({keyed.of(content_of(one.value)) for one in spoken})),
        sentences=tuple(sorted(_sentences(found, keyed))),
        counts=counted(counts),
        scrubbed=found.scrubbed,
        files={one.file.url: one.written.url if one.written else None for one in files},
        named_threads=tuple(sorted(found.threads)) if how.checkpointer is None else (),
    )


def _changed_words(found: Found) -> Iterator[Known]:
    """Those that are rewritten and said something else before."""
    for id_, value in found.reach.values.items():
        if content_of(value) != content_of(found.known[id_].value):
            yield found.known[id_]


def _name_hash(asked: Asked, key: Keyed) -> str:
    """Return the hash of what was asked for; that of a user can be found in what is left."""
    return key.hashes.exact(asked.name) if asked.kind == "user" else key.named


def _name_hashes(asked: Asked, key: Keyed) -> dict[str, int]:
    """Return the hash of each name of a subject, with the number of its words."""
    if asked.subject is None:
        return {}
    return {key.hashes.exact(" ".join(one)): len(one) for one in asked.subject.names}


def _sentences(found: Found, keyed: Hashes) -> set[str]:
    """The hashes of the sentences that say enough to be known again, and nobody else says."""
    texts = {text for one in found.forgotten for text in one.texts}
    said = {tuple(words_of(part)) for text in texts for part in sentences(text) if sought(part)}
    return {keyed.exact(" ".join(one)) for one in said - found.common}


def finish(tenant: str, named: str, how: Forgetting) -> Flow[ForgetReceipt | None]:
    """Remove what earlier calls left to be removed; the latest receipt of the same question.

    Threads stay to be deleted until a checkpointer is given.
    """
    rows = yield from rows_of("forgettings", tenant=tenant, asked=named)
    for receipt, _, _, files, threads in rows:
        if not files and not threads:
            continue
        yield from archive_lines.remove(files, how.files)
        left = list(threads)
        if how.checkpointer is not None:
            yield from delete_threads(how.checkpointer, threads)
            left = []
        how.advance(len(files))
        done = {"tenant": tenant, "receipt": receipt, "files": [], "threads": left}
        yield Query((Call("finish_forgetting", done),), commit=True)
    return _latest(rows, named)
