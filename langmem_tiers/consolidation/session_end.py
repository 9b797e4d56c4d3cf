"""The end of a session: its notes become memories of its project, and are cleared.

A note is a memory of type `working`. One transaction stores the lifted notes and a digest of all,
and removes the notes. So either the notes are there, or the memories that replace them.
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

from langmem_tiers.consolidation import lease, steps
from langmem_tiers.consolidation.judges import Summariser, Summary
from langmem_tiers.consolidation.steps import Cycle, StoredMemory
from langmem_tiers.core.context import MemoryContext, user_labels
from langmem_tiers.core.errors import ConflictError
from langmem_tiers.core.memory import Place, Source, Tier
from langmem_tiers.core.texts import head_and_tail, normalise, strip_invisible
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
from langmem_tiers.remember.commit import commit_if
from langmem_tiers.remember.new_memory import write_of_value
from langmem_tiers.store.write import LOCK, Write

ENDED = "its session ended"
WORKING = "working"
"""The memory type that a session's end clears."""
DIGEST_LENGTH = 8_000
"""The most characters of a digest; a longer one goes on in another memory."""
SHORT_LENGTH = 80
"""The most characters of a lifted note in the digest, as it is stored for itself."""
MIN_IMPORTANCE = 0.7
"""The stated importance from which on a note is lifted."""
PINNED = "it is pinned"
RECALLED = "it was recalled in more than one turn"
STATED = "the user stated it"
NO_REASON = "nobody pinned it, told that it is important, or recalled it in more than one turn"
LEARNED = "the model learned it"
_EXCLUDED_STATES = ("retracted", "suspect", "quarantined")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport:
    """The report of a session that has ended."""

    session_id: str
    semantic: tuple[str, ...] = ()
    """Keys of the lifted memories, which other sessions recall."""
    episodic: tuple[str, ...] = ()
    """Keys of the digest of events. A long one has several parts."""
    cleared: int = 0
    """Memories of type `working` that were removed."""
    risen: int = 0
    """Memories of other types that moved from short_term to working."""
    moves: tuple[str, ...] = ()
    """Moves that `learning.rollback` takes, one for each memory that has risen."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """The reasons for which notes were lifted, with their numbers."""
    not_kept: Mapping[str, int] = field(default_factory=dict)
    """The reasons why notes are in the digest alone, with their numbers."""
    expired_unread: int = 0
    """Memories of the session that expired before anybody read them, and are not removed yet."""

    def __str__(self) -> str:
        """Return a line with the counts, and one for each reason."""
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
    """A session that has ended, and the options for its end."""

    cycle: Cycle
    session: str
    projects: Sequence[str] | None
    """The projects of the session, an empty name for none; None for all."""
    namespaces: Sequence[str]
    """The session's own, in the database's form."""
    user_id: str | None
    """The user who ends it; memories of other users stay."""
    summariser: Summariser | None = None
    stated: bool = False
    """Lift statements of the user too, as the specification's hook does."""

    @property
    def params(self) -> dict[str, Any]:
        """Return the parameters by which statements find the session."""
        projects = None if self.projects is None else list(self.projects)
        whose = {"session": self.session, "projects": projects, "user_id": self.user_id}
        return {**self.cycle.params, **whose}


class ReadVersion(NamedTuple):
    """The version and state of a memory when it was read."""

    id: int
    namespace: str
    key: str
    version: str
    state: str | None

    @classmethod
    def of(cls, memories: Sequence[StoredMemory]) -> list[ReadVersion]:
        """Return the versions of memories."""
        return [
            cls(memory.id, memory.namespace, memory.key, memory.version, memory.state)
            for memory in memories
        ]


class KeptMemory(NamedTuple):
    """A memory in working that is stored at a session's end."""

    namespace: str
    key: str
    value: dict[str, Any]
    reason: str | None = None
    """The reason why it is lifted; None for a digest."""
    sources: Sequence[Sequence[str]] = ()
    """Its sources that stay, by stored namespace and key."""


class SessionContents(NamedTuple):
    """The memories of an ended session, and what becomes of them."""

    notes: list[StoredMemory]
    """Notes to clear."""
    kept: list[KeptMemory]
    """Memories to store in their place."""
    passed_over: list[str]
    """The reason for each note that is not lifted."""
    rising: list[StoredMemory]
    remarks: list[StoredMemory]
    """Other memories that were said in it, and that the summariser read; they stay."""
    expired_unread: int
    """Memories that expired before anybody read them."""


@retried_on_conflict
def end_session(ended: EndedSession) -> Flow[SessionReport]:
    """Keep important notes, clear all notes and let the rest rise, in one transaction.

    Raises:
        ModelError: if the summariser gave nothing usable; nothing was changed.
        ConflictError: if the session went on meanwhile, ten times.
    """
    contents, cycle = (yield from read_session(ended)), ended.cycle
    moves = [steps.move_id(cycle, "session_end", memory.id) for memory in contents.rising]
    if contents.notes or contents.rising or contents.remarks:
        recorded = read_event_calls(cycle, [memory.id for memory in contents.remarks])
        if contents.rising:
            rise = {
                **cycle.params,
                "ids": [memory.id for memory in contents.rising],
                "events": moves,
                "reasons": [ENDED for _ in moves],
                "ttl": cycle.options.tier_ttl.get(Tier.WORKING),
            }
            recorded.insert(0, Call("record_rises", rise))
        notes, stay = (
            ReadVersion.of(contents.notes),
            ReadVersion.of([*contents.rising, *contents.remarks]),
        )
        if not (yield from store_kept(cycle, contents.kept, notes, stay, recorded=recorded)):
            raise ConflictError(f"the session {ended.session!r} went on meanwhile: end it again")
    return SessionReport(
        session_id=ended.session,
        semantic=tuple(kept.key for kept in contents.kept if kept.reason is not None),
        episodic=tuple(kept.key for kept in contents.kept if kept.reason is None),
        cleared=len(contents.notes),
        risen=len(contents.rising),
        moves=tuple(moves),
        reasons=steps.count_reasons(
            kept.reason for kept in contents.kept if kept.reason is not None
        ),
        not_kept=steps.count_reasons(contents.passed_over),
        expired_unread=contents.expired_unread,
    )


def read_notes(ended: EndedSession) -> Flow[list[StoredMemory]]:
    """Return the notes of a session so far, in order, without those in `_EXCLUDED_STATES`."""
    memories, _ = yield from _read_memories(ended)
    notes = [memory for memory in memories if memory.memory_type == WORKING]
    return [note for project in notes_by_project(ended.session, notes) for note in project.notes]


def _read_memories(ended: EndedSession) -> Flow[tuple[list[StoredMemory], int]]:
    """Return the session's notes and memories in short_term, and how many expired unread."""
    own = list(ended.namespaces)
    rows = yield from rows_of("session_memories", **ended.params, namespaces=own)
    memories = yield from steps.read_memories(
        ended.cycle, [number for number, gone, _ in rows if not gone]
    )
    return memories, sum(gone and not was_read for _, gone, was_read in rows)


def read_session(ended: EndedSession) -> Flow[SessionContents]:
    """Read the memories of a session and choose those to keep; a summariser is asked here."""
    memories, expired_unread = yield from _read_memories(ended)
    notes = [memory for memory in memories if memory.memory_type == WORKING]
    rising = [
        memory for memory in memories if memory.memory_type != WORKING and memory.state is None
    ]
    ids = [note.id for note in notes]
    rows = yield from rows_of("recalled_again", tenant=ended.cycle.tenant, ids=ids)
    recalled, remarks = frozenset(row[0] for row in rows), list[StoredMemory]()
    summariser = ended.summariser
    if summariser is not None and ended.session:  # other memories that were said in it, each once
        rows = yield from rows_of("session_said", **ended.params)
        remarks = yield from steps.read_memories(ended.cycle, [row[0] for row in rows])
    kept: list[KeptMemory] = []
    passed_over: list[str] = []
    for project in notes_by_project(ended.session, notes, recalled, remarks):
        summary: Summary | None = None
        if summariser is not None:
            summary = yield from ask_model(summariser, project.summarised)
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
    """Store memories and clear the notes, in one transaction, if all are as they were read.

    The transaction makes the calls `recorded` too, about memories that `stay`. Guards in `asked`
    check that the cycle may write. Return False if something changed.
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

    applied = yield from commit_if(
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
    """Return the writes that store these memories."""
    return [
        replace(
            write_of_value(
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
    """Return the call that records that a model has read these memories."""
    events = [steps.move_id(cycle, "read", id_) for id_ in ids]
    params = {**cycle.params, "ids": ids, "events": events, "reason": ENDED}
    return [Call("record_reads", params)] if ids else []


# ---- memories made of notes: lifted notes, concepts, and a digest of all ----------------------


class ProjectNotes(NamedTuple):
    """The notes of a session in one project, in order."""

    namespace: str
    """The project's, or a user's own in it, in the database's form."""
    session: str
    notes: tuple[StoredMemory, ...]
    recalled: frozenset[int] = frozenset()
    """Ids of the notes that were recalled in more than one turn."""
    remarks: tuple[StoredMemory, ...] = ()
    """Other memories that were said in it; they stay as they are."""

    @property
    def summarised(self) -> list[StoredMemory]:
        """Return all memories that are summed up, in order."""
        return sorted((*self.notes, *self.remarks), key=_time_order)

    def kept_key(self, kind: str, which: str | int) -> str:
        """Return a key for a memory made of these very notes, the same each time."""
        notes = [[memory.namespace, memory.key, memory.version] for memory in self.summarised]
        name = [kind, which, self.namespace, self.session, notes]
        return str(uuid5(NAMESPACE_OID, json.dumps(name)))

    def kept_sources(self, memories: Sequence[StoredMemory]) -> list[tuple[str, str]]:
        """Return the places of sources that stay: their retraction reaches what came from them."""
        ids = {memory.id for memory in self.remarks}
        return [(memory.namespace, memory.key) for memory in memories if memory.id in ids]


def notes_by_project(
    session: str,
    notes: Iterable[StoredMemory],
    recalled: frozenset[int] = frozenset(),
    remarks: Iterable[StoredMemory] = (),
) -> list[ProjectNotes]:
    """Group notes and remarks by their project, without those in `_EXCLUDED_STATES`."""
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
    """Return the memories to keep of notes, and why each other note is not lifted.

    Each lifted note is kept once, and a digest has all of them. Equal notes that are not lifted
    count once.

    A note is lifted for the first reason that holds: it is pinned, somebody told that it is
    important, or it was recalled in more than one turn. With `stated`, and without a summary, each
    note of the user's that asks nothing is lifted too. The keys follow from the notes alone, so
    that a retry stores the same notes once.
    """
    facts: list[KeptMemory] = []
    passed_over: list[str] = []
    notes_by_text: dict[object, list[StoredMemory]] = {}
    for note in project.notes:
        if note.state is None:  # equal texts of one speaker are lifted together
            who = note.speaker, source_of(note.value), trust_of(note.value)
            notes_by_text.setdefault((normalise(note.content), *who), []).append(note)
    for equal_notes in notes_by_text.values():
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
    """Return the end of a user's own namespace, behind the project's label; else nothing."""
    return "".join(f"{label}." for label in user_labels(user_id))


def _project_namespace(memory: StoredMemory) -> str:
    """Return the namespace of its project, or of its user's own in it."""
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
    """Return why equal notes are lifted; None if they are not.

    With `stated`, a statement of the user suffices; a note that ends with a question mark is none.
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
    """Return the value of a memory that stands for equal notes, in the words of the first."""
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
    """Make memories of what a model learned, without texts that are stored anyhow."""
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
    """Return the value of a memory from sources: their tags, and the ids that all of them share."""
    owners = {}
    for name in ("project_id", "session_id", "agent_id"):
        names = {
            source.value.get(name) for source in sources if isinstance(source.value.get(name), str)
        }
        if len(names) == 1:
            owners[name] = names.pop()
    return {
        **owners,
        **provenance_of(source.value for source in sources),
        "content": content,
        "memory_type": kind,
        "occurred_at": sources[0].happened_at.isoformat(),
        **_common_fields(sources, rated=False),
        "metadata": {"promoted_from": WORKING},
    }


def _common_fields(memories: Sequence[StoredMemory], *, rated: bool = True) -> dict[str, Any]:
    """Return the tags of all and the highest stated importance, if there are any."""
    lists = (memory.value.get("tags") for memory in memories)
    tags = [tag for some in lists if isinstance(some, list) for tag in some if isinstance(tag, str)]
    importances = [
        memory.importance for memory in memories if rated and memory.importance is not None
    ]
    shared = {"tags": list(dict.fromkeys(tags)), "importance": max(importances, default=None)}
    return {name: entry for name, entry in shared.items() if entry not in ([], None)}


def _fact_metadata(metadata: object) -> dict[str, Any]:
    """Return the metadata of a lifted memory; its category is "fact" unless somebody told one."""
    own = metadata if isinstance(metadata, Mapping) else {}
    return {"category": "fact", **own, "promoted_from": WORKING}


def _digest_memories(
    project: ProjectNotes, lifted: set[str], summary: Summary | None
) -> Iterator[KeptMemory]:
    """Make the digest of the notes, in order; a long one has several parts.

    Remarks stay by themselves, so no line repeats them.
    """
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
    """Return a note's line in the digest: shortened if it is stored for itself, else whole."""
    content = _shorten_note(note.content) if note.content in lifted else note.content
    who = f"{note.speaker}: " if note.speaker else ""
    return f"- {note.happened_at.astimezone(UTC):%Y-%m-%d %H:%M} {who}{content}"


def _shorten_note(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT_LENGTH else f"{line[: SHORT_LENGTH - 1].rsplit(' ', 1)[0]}…"
