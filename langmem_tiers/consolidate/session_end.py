"""A session ends: what it noted becomes memories of its project, and the notes are cleared.

A note is a memory of type `working`. Lifted notes, and a digest of all of them, are kept in one
transaction with their removal, so that whatever happens the notes are there, or what became of
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.consolidate import lease, steps
from langmem_tiers.consolidate.models import Summariser, Summary
from langmem_tiers.consolidate.steps import Cycle, StoredMemory
from langmem_tiers.core.context import MemoryContext, user_labels
from langmem_tiers.core.errors import ConflictError
from langmem_tiers.core.memory import Place, Source, Tier
from langmem_tiers.core.reading import head_and_tail, normalise, strip_invisible
from langmem_tiers.core.values import batches, provenance_of, source_of, trust_of
from langmem_tiers.postgres.flow import (
    Call,
    Flow,
    Rows,
    ask_model,
    off_loop,
    retried_on_conflict,
    rows_of,
)
from langmem_tiers.remember.new import write_of
from langmem_tiers.remember.transaction import write_if
from langmem_tiers.store.write import LOCK, Write

ENDED = "its session ended"
WORKING = "working"
"""The memory type that a session's end clears."""
DIGEST_LENGTH = 8_000
"""Characters of a digest, beyond which it goes on in another memory."""
SHORT_LENGTH = 80
"""Characters of a note in the digest that is stored for itself."""
MIN_IMPORTANCE = 0.7
"""The importance, as somebody told it, from which on a note is lifted."""
PINNED = "it is pinned"
RECALLED = "it was recalled in more than one turn"
STATED = "the user stated it"
NO_REASON = "nobody pinned it, told that it is important, or recalled it in more than one turn"
LEARNED = "the model learned it"
_EXCLUDED_STATES = ("retracted", "suspect", "quarantined")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """What became of a session that has ended."""

    session_id: str
    semantic: tuple[str, ...] = ()
    """Keys of what was lifted: it is known in other sessions."""
    episodic: tuple[str, ...] = ()
    """Keys of the digest: what happened. A long one has several parts."""
    cleared: int = 0
    """Memories of type `working` that were removed."""
    risen: int = 0
    """Memories of other types that moved from short_term to working."""
    moves: tuple[str, ...] = ()
    """What `learning.rollback` takes, one for each that has risen."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why something was lifted, and how often."""
    not_kept: Mapping[str, int] = field(default_factory=dict)
    """Why a note is in the digest alone, and how often."""
    expired_unread: int = 0
    """Memories of the session that had expired before anybody read them, as far as they are still
    to be removed."""

    def __str__(self) -> str:
        """What was kept, cleared and moved, in one line, and one for each reason."""
        head = (
            f"session {self.session_id}: {self.cleared} notes cleared, {len(self.semantic)} kept, "
            f"{len(self.episodic)} digest{'s' if len(self.episodic) != 1 else ''}, "
            f"{self.risen} moved to working"
            + (f", {self.expired_unread} expired unread" if self.expired_unread else "")
        )
        others = {f"not kept: {why}": often for why, often in self.not_kept.items()}
        counts = [*sorted(self.reasons.items()), *sorted(others.items())]
        return "\n".join([head, *(f"  {often:>5,}  {why}" for why, often in counts)])


class EndedSession(NamedTuple):
    """A session that has ended, and how to go about it."""

    cycle: Cycle
    session: str
    projects: Sequence[str] | None
    """Those whose session it is, an empty name for none; None for all."""
    namespaces: Sequence[str]
    """Its own, as the database names them."""
    user_id: str | None
    """Who ends it: what is another user's stays."""
    summariser: Summariser | None = None
    stated: bool = False
    """Whether what the user stated is lifted too, as the specification's hook does."""

    @property
    def params(self) -> dict[str, Any]:
        """Whose session it is, as statements ask for it."""
        projects = None if self.projects is None else list(self.projects)
        whose = {"session": self.session, "projects": projects, "user_id": self.user_id}
        return {**self.cycle.params, **whose}


class ReadVersion(NamedTuple):
    """A memory as it was read."""

    id: int
    namespace: str
    key: str
    version: str
    state: str | None

    @classmethod
    def of(cls, memories: Sequence[StoredMemory]) -> list[ReadVersion]:
        """These, as they were read."""
        return [
            cls(memory.id, memory.namespace, memory.key, memory.version, memory.state)
            for memory in memories
        ]


class KeptMemory(NamedTuple):
    """A memory that a session leaves, in working."""

    namespace: str
    key: str
    value: dict[str, Any]
    reason: str | None = None
    """Why it is lifted; None of a digest."""
    sources: Sequence[Sequence[str]] = ()
    """What stays of that, by stored namespace and key."""


class SessionContents(NamedTuple):
    """What a session left."""

    notes: list[StoredMemory]
    """What is cleared."""
    kept: list[KeptMemory]
    passed_over: list[str]
    """Why each of the notes that are not kept is not."""
    rising: list[StoredMemory]
    remarks: list[StoredMemory]
    """What else was said in it and a model read; it stays."""
    expired_unread: int
    """How many there are that expired before anybody read them."""


@retried_on_conflict
def end_session(ended: EndedSession) -> Flow[SessionReport]:
    """Keep what is worth it, clear the notes and let the rest rise, in one transaction.

    Raises:
        ModelError: if the summariser gave nothing usable; nothing was changed.
        ConflictError: if the session went on meanwhile, ten times.
    """
    left, cycle = (yield from read_session(ended)), ended.cycle
    moves = [steps.move_id(cycle, "session_end", memory.id) for memory in left.rising]
    if left.notes or left.rising or left.remarks:
        recorded = read_event_calls(cycle, [memory.id for memory in left.remarks])
        if left.rising:
            rise = {
                **cycle.params,
                "ids": [memory.id for memory in left.rising],
                "events": moves,
                "reasons": [ENDED for _ in moves],
                "ttl": cycle.options.tier_ttl.get(Tier.WORKING),
            }
            recorded.insert(0, Call("record_rises", rise))
        notes, stay = ReadVersion.of(left.notes), ReadVersion.of([*left.rising, *left.remarks])
        if not (yield from store_kept(cycle, left.kept, notes, stay, recorded=recorded)):
            raise ConflictError(f"the session {ended.session!r} went on meanwhile: end it again")
    return SessionReport(
        session_id=ended.session,
        semantic=tuple(kept.key for kept in left.kept if kept.reason is not None),
        episodic=tuple(kept.key for kept in left.kept if kept.reason is None),
        cleared=len(left.notes),
        risen=len(left.rising),
        moves=tuple(moves),
        reasons=steps.count_reasons(kept.reason for kept in left.kept if kept.reason is not None),
        not_kept=steps.count_reasons(left.passed_over),
        expired_unread=left.expired_unread,
    )


def read_notes(ended: EndedSession) -> Flow[list[StoredMemory]]:
    """What a session has noted so far, in order; what never was so is left out."""
    memories, _ = yield from _read_memories(ended)
    notes = [memory for memory in memories if memory.memory_type == WORKING]
    return [note for project in notes_by_project(ended.session, notes) for note in project.notes]


def _read_memories(ended: EndedSession) -> Flow[tuple[list[StoredMemory], int]]:
    """The notes of a session and what else of it is in short_term; and what expired unread."""
    own = list(ended.namespaces)
    rows = yield from rows_of("session_memories", **ended.params, namespaces=own)
    memories = yield from steps.read_memories(
        ended.cycle, [number for number, gone, _ in rows if not gone]
    )
    return memories, sum(gone and not was_read for _, gone, was_read in rows)


def read_session(ended: EndedSession) -> Flow[SessionContents]:
    """What a session left, and what is to be kept of it; a summariser is asked here."""
    memories, expired_unread = yield from _read_memories(ended)
    notes = [memory for memory in memories if memory.memory_type == WORKING]
    rising = [
        memory for memory in memories if memory.memory_type != WORKING and memory.state is None
    ]
    ids = [note.id for note in notes]
    rows = yield from rows_of("recalled_again", tenant=ended.cycle.tenant, ids=ids)
    recalled, remarks = frozenset(row[0] for row in rows), list[StoredMemory]()
    summariser = ended.summariser
    if summariser is not None and ended.session:  # what else was said in it: each thing once
        rows = yield from rows_of("session_said", **ended.params)
        remarks = yield from steps.read_memories(ended.cycle, [row[0] for row in rows])
    kept: list[KeptMemory] = []
    passed_over: list[str] = []
    for project in notes_by_project(ended.session, notes, recalled, remarks):
        summary: Summary | None = None
        if summariser is not None:
            summed_up = project.summarised
            summary = yield from ask_model(summariser, summed_up)
        lifted, others = yield from off_loop(
            partial(choose_kept, project, summary, stated=ended.stated),
            sum(len(note.content) for note in project.notes),
        )
        kept += lifted
        passed_over += others
    return SessionContents(notes, kept, passed_over, rising, remarks, expired_unread)


def store_kept(
    cycle: Cycle,
    kept: Sequence[KeptMemory],
    notes: Sequence[ReadVersion],
    stay: Sequence[ReadVersion] = (),
    *,
    recorded: Sequence[Call] = (),
    asked: Sequence[Call] = (),
) -> Flow[bool]:
    """Store what is kept and clear the notes, in one transaction, if all is as it was read.

    What rises and what was read of what is to `stay` is `recorded` with it. A guard that is `asked`
    says whether the cycle may write.
    """
    involved = [*notes, *stay]
    gone = [
        Write(place=Place(cycle.tenant, note.namespace), key=note.key, value=None) for note in notes
    ]
    held = {**cycle.params, "ids": sorted(memory.id for memory in involved)}

    def stands(answers: list[Rows]) -> bool:
        rows, before, *guarded = answers
        for guard_rows in guarded:
            lease.check_guard(guard_rows, cycle.tenant)
        there = [steps.LockedMemory(*row) for row in rows]
        now = {
            memory.id: (steps.format_version(memory.updated_at), memory.state)
            for memory in there
            if memory.alive
        }
        as_read = all(now.get(memory.id) == (memory.version, memory.state) for memory in involved)
        return as_read and not before

    applied = yield from write_if(
        [*kept_writes(cycle, kept), *gone],
        options=cycle.options,
        moment=cycle.moment,
        keys=[(cycle.tenant, "", LOCK), *((cycle.tenant, *memory[1:3]) for memory in involved)],
        calls=(Call("hold_memories", held), Call("read_before", held), *asked),
        stands=stands,
        further=lambda _: recorded,
    )
    return applied is not None


def kept_writes(cycle: Cycle, memories: Sequence[KeptMemory]) -> list[Write]:
    """The puts of what is memory."""
    return [
        replace(
            write_of(
                memory.value,
                place=Place(cycle.tenant, memory.namespace),
                key=memory.key,
                index=cycle.options.index,
                tier=Tier.WORKING,
            ),
            sources=tuple((Place(cycle.tenant, at), key) for at, key in memory.sources),
        )
        for memory in memories
    ]


def read_event_calls(cycle: Cycle, ids: Sequence[int]) -> list[Call]:
    """That a model has read these."""
    events = [steps.move_id(cycle, "read", id_) for id_ in ids]
    params = {**cycle.params, "ids": ids, "events": events, "reason": ENDED}
    return [Call("record_reads", params)] if ids else []


# ---- what is kept of notes: what is lifted, and all of it as a digest -------------------------


class ProjectNotes(NamedTuple):
    """The notes of a session in one project, in order."""

    namespace: str
    """The project's, or of a user's own in it, as the database names it."""
    session: str
    notes: tuple[StoredMemory, ...]
    recalled: frozenset[int] = frozenset()
    """Those that were recalled in more than one turn."""
    remarks: tuple[StoredMemory, ...] = ()
    """What else was said in it, which stays as it is."""

    @property
    def summarised(self) -> list[StoredMemory]:
        """All that is summed up, in order."""
        return sorted((*self.notes, *self.remarks), key=_time_order)

    def kept_key(self, kind: str, which: str | int) -> str:
        """Name what is kept of these very notes, the same each time."""
        notes = [[memory.namespace, memory.key, memory.version] for memory in self.summarised]
        name = [kind, which, self.namespace, self.session, notes]
        return str(uuid5(NAMESPACE_OID, json.dumps(name)))

    def kept_sources(self, memories: Sequence[StoredMemory]) -> list[tuple[str, str]]:
        """Which of these stay, so that what is drawn from them can be taken back with them."""
        ids = {memory.id for memory in self.remarks}
        return [(memory.namespace, memory.key) for memory in memories if memory.id in ids]


def notes_by_project(
    session: str,
    notes: Iterable[StoredMemory],
    recalled: frozenset[int] = frozenset(),
    remarks: Iterable[StoredMemory] = (),
) -> list[ProjectNotes]:
    """Notes, and what else was said, by their project. What never was so is left out."""
    others = {memory.id: memory for memory in remarks}
    memories = sorted(
        (memory for memory in (*notes, *others.values()) if memory.state not in _EXCLUDED_STATES),
        key=lambda memory: (_project_namespace(memory), *_time_order(memory)),
    )
    projects = []
    for at, grouped in groupby(memories, _project_namespace):
        some = list(grouped)
        own = tuple(memory for memory in some if memory.id not in others)
        beside = tuple(memory for memory in some if memory.id in others)
        projects.append(ProjectNotes(at, session, own, recalled, beside))
    return projects


def choose_kept(
    project: ProjectNotes, summary: Summary | None = None, *, stated: bool = False
) -> tuple[list[KeptMemory], list[str]]:
    """Return what is kept of notes, and why each of the others is not lifted.

    Those that are lifted are kept once each, and a digest of all; those that say the same and are
    not lifted are told of once.

    A note is lifted by the first of these that holds: it is pinned, somebody told that it is
    important, or it was recalled in more than one turn. Where what the user `stated` is lifted too
    and no model says what was learned, so is each note of the user's that does not ask. The keys
    follow from the notes alone, so that the same notes, as a retry finds them, are stored once.
    """
    facts: list[KeptMemory] = []
    passed_over: list[str] = []
    same: dict[object, list[StoredMemory]] = {}
    for note in project.notes:
        if note.state is None:  # those together that one speaker noted in equal texts
            who = note.speaker, source_of(note.value), trust_of(note.value)
            same.setdefault((normalise(note.content), *who), []).append(note)
    for equal_notes in same.values():
        why = _lift_reason(equal_notes, project.recalled, stated=stated and summary is None)
        if why is None:
            passed_over.append(NO_REASON)
        else:
            key = project.kept_key("fact", equal_notes[0].key)
            facts.append(KeptMemory(project.namespace, key, _fact_value(equal_notes), why))
    if summary is not None:
        known_texts = {normalise(fact.value["content"]) for fact in facts}
        facts += _concept_memories(project, summary, known_texts)
    lifted = {fact.value["content"] for fact in facts}
    return [*facts, *_digest_memories(project, lifted, summary)], passed_over


def _time_order(memory: StoredMemory) -> tuple[datetime, int, int]:
    return memory.happened_at, (memory.turn or 0) if memory.speaker else 0, memory.id


def user_suffix(user_id: str | None) -> str:
    """The end of a namespace that is a user's own, behind the project's label; else nothing."""
    return "".join(f"{label}." for label in user_labels(user_id))


def _project_namespace(memory: StoredMemory) -> str:
    """The namespace of its project, or of its user's own in it."""
    label, dot, _ = memory.namespace.partition(".")
    own = user_suffix(memory.user_id)
    if dot and f"{label}." != own:
        return f"{label}.{own}"
    project = memory.value.get("project_id")
    named = project if isinstance(project, str) and project else None
    return f"{MemoryContext(tenant='_', project_id=named).namespace(Tier.WORKING)[1]}.{own}"


def _lift_reason(
    notes: Sequence[StoredMemory], recalled: frozenset[int], *, stated: bool
) -> str | None:
    """Why a note is lifted that these tell together; None if it is not.

    Where what the user `stated` counts, a note that ends with a question mark does not.
    """
    if any(note.value.get("pinned") is True for note in notes):
        return PINNED
    importances = [note.importance for note in notes if note.importance is not None]
    if max(importances, default=0.0) >= MIN_IMPORTANCE:
        return f"importance >= {MIN_IMPORTANCE:g}"
    if any(note.id in recalled for note in notes):
        return RECALLED
    first = notes[0]
    if not stated or first.value.get("source", Source.USER) != Source.USER:
        return None
    asks = (
        strip_invisible(head_and_tail(first.content))
        .rstrip()
        .endswith(("?", "\N{ARABIC QUESTION MARK}"))
    )
    return None if asks else STATED


def _fact_value(notes: Sequence[StoredMemory]) -> dict[str, Any]:
    """The value of a memory that says what these do, in the words of the first."""
    first = notes[0]
    value = {name: entry for name, entry in first.value.items() if name not in ("turn", "text")}
    return {
        **value,
        "content": first.content,
        "memory_type": "semantic",
        "occurred_at": first.happened_at.isoformat(),
        **_common_fields(notes),
        "metadata": _fact_metadata(first.value.get("metadata")),
    }


def _concept_memories(
    project: ProjectNotes, summary: Summary, known_texts: set[str]
) -> Iterator[KeptMemory]:
    """What a model learned, but for what says the same as what is stored anyhow."""
    for concept in summary.concepts:
        if normalise(concept.content) in known_texts:
            continue
        known_texts.add(normalise(concept.content))
        sources = [project.summarised[place] for place in concept.notes]
        value = _derived_value(sources, concept.content, "semantic") | {
            **_common_fields(sources),
            "occurred_at": max(each.happened_at for each in sources).isoformat(),
            "metadata": _fact_metadata(
                {"notes": [_shorten_note(each.content) for each in sources]}
            ),
        }
        key = project.kept_key("concept", concept.content)
        yield KeptMemory(project.namespace, key, value, LEARNED, project.kept_sources(sources))


def _derived_value(sources: Sequence[StoredMemory], content: str, kind: str) -> dict[str, Any]:
    """The value of a memory that tells of these: their tags, and what all say of their session."""
    whose = {}
    for name in ("project_id", "session_id", "agent_id"):
        names = {
            source.value.get(name) for source in sources if isinstance(source.value.get(name), str)
        }
        if len(names) == 1:
            whose[name] = names.pop()
    return {
        **whose,
        **provenance_of(source.value for source in sources),
        "content": content,
        "memory_type": kind,
        "occurred_at": sources[0].happened_at.isoformat(),
        **_common_fields(sources, rated=False),
        "metadata": {"promoted_from": WORKING},
    }


def _common_fields(memories: Sequence[StoredMemory], *, rated: bool = True) -> dict[str, Any]:
    """The tags of all, and the highest importance that was told, if there are any."""
    lists = (memory.value.get("tags") for memory in memories)
    tags = [tag for some in lists if isinstance(some, list) for tag in some if isinstance(tag, str)]
    importances = [
        memory.importance for memory in memories if rated and memory.importance is not None
    ]
    shared = {"tags": list(dict.fromkeys(tags)), "importance": max(importances, default=None)}
    return {name: entry for name, entry in shared.items() if entry not in ([], None)}


def _fact_metadata(metadata: object) -> dict[str, Any]:
    """The metadata of what was learned: that it is a fact, if nobody told of which kind it is."""
    own = metadata if isinstance(metadata, Mapping) else {}
    return {"category": "fact", **own, "promoted_from": WORKING}


def _digest_memories(
    project: ProjectNotes, lifted: set[str], summary: Summary | None
) -> Iterator[KeptMemory]:
    """What happened, in order; in several parts if it is long. What stays is not told again."""
    parts = list(
        batches((_digest_line(note, lifted) for note in project.notes), len, DIGEST_LENGTH)
    ) or [[]]
    memories = project.notes if summary is None else project.summarised
    first, last = (f"{memories[place].happened_at:%Y-%m-%d %H:%M}" for place in (0, -1))
    for number, lines in enumerate(parts, 1):
        name = f"Session {project.session}" if project.session else "Notes"
        head = f"{name}, {first} to {last} UTC"
        if len(parts) > 1:
            head += f", part {number} of {len(parts)}"
        summary_lines = [summary.content] if summary is not None and number == 1 else []
        value = _derived_value(
            memories, "\n".join([f"{head}:", *summary_lines, *lines]), "episodic"
        )
        key = project.kept_key("digest", number)
        yield KeptMemory(
            project.namespace,
            key,
            value,
            None,
            project.kept_sources(memories if summary_lines else ()),
        )


def _digest_line(note: StoredMemory, lifted: set[str]) -> str:
    """A note in the digest: in short if it is stored for itself, else in its own words."""
    content = _shorten_note(note.content) if note.content in lifted else note.content
    who = f"{note.speaker}: " if note.speaker else ""
    return f"- {note.happened_at.astimezone(UTC):%Y-%m-%d %H:%M} {who}{content}"


def _shorten_note(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT_LENGTH else f"{line[: SHORT_LENGTH - 1].rsplit(' ', 1)[0]}…"
