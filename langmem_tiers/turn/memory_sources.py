"""Show the past in a turn: the last messages, and the memories that matter now.

Such memories answer the prompt, or match its circumstances.

A follow-up question says half of what it means, and the conversation has the other half: a recall
asks for the words of earlier stages as well. A memory gains thereby at most half of the best score
for the prompt alone: one that answers the prompt less than half as well never comes before the
best.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langmem_tiers.agent_state.models import MAX_MESSAGES, Message, StateOwner, read_snapshot
from langmem_tiers.coordinator import recall as recalls
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.recall import recall_query
from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import ASSISTANT_ROLES, Recollection
from langmem_tiers.core.options import RECALL_OPTIONS
from langmem_tiers.core.texts import printable_line
from langmem_tiers.core.tracing import trace_recall
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.postgres.flow import Flow, single, unit
from langmem_tiers.recall.matching import Candidate
from langmem_tiers.recall.prompt_text import clean_label, layout_fields, short_label
from langmem_tiers.recall.recall import QueryVectors, RecallQuery
from langmem_tiers.turn.layout import CUT, EPISODES, Fragment, Section

WEIGHT: Final = 0.5
"""Share of a memory's score in the circumstances that counts: our own choice."""
MOST_WORDS: Final = 8
"""Words of earlier stages in one question; the time grows with them: our own choice."""
_TELLING: Final = re.compile(r"\w{4,}|\w*[A-Z0-9]{2,}\w*")
"""Topic words: no short ones, but for abbreviations and numbers."""
MOST_INFORMED: Final = 10
"""Memories that an earlier stage's words find at most."""
LEAST_MATCH: Final = 0.15
"""Least match, a chance to be evidence, with the cut-off: our own choice."""
LEAST_INFORMED_MATCH: Final = 0.2
"""Least match if only an earlier stage's words find it: above memories that share no word with
them."""
NEWEST: Final = 10
"""Number of the newest memories that get room by rank; the others get what is left: our own
choice."""
_LAST: Final = 2
"""Messages at the end of a conversation whose words are asked for."""
_LIMIT: Final = 20
"""Messages that are shown unless a stage says otherwise."""
_AFTER_AN_EXCHANGE: Final = 2.5
"""Rank of the summary: it gets room after the last two messages."""
_SUMMED_UP: Final = 1_500
"""Characters of the summary of the earlier conversation: some 400 tokens, our own choice."""
_BEGINNING, _END = 80, 60
"""Characters of a message's two ends in a summary: our own choice."""
_LISTED: Final = re.compile(r"^- (.+?)(?: \(\d+% done\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Source that recalls memories by its stage's options and the turn's filters.

    An empty prompt asks for the newest, which then do not count as accessed. Options are those of
    `get_context`; `other_than` names memory types to leave out, `informed_by` the earlier stages
    whose words it asks for as well, those of a tuple together; `own` asks for the agent's own
    memories, if an agent is named. With `newest` the newest memories follow those that answer, up
    to the limit, and do not count as accessed.
    """

    name: str
    known_options: ClassVar = (*RECALL_OPTIONS, "other_than", "informed_by", "own", "newest")

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """Recall the memories that matter for a prompt, best first."""
        options = dict(metadata["options"])
        beginning = memory.tiered_store.options.bounds.truncate_query(prompt)
        stages = options.pop("informed_by", ())
        types = _allowed_types(options, metadata["filters"], memory)
        if types == []:
            return Section()
        if options.pop("own", False) and metadata["agent_id"] is not None:
            options["agent_id"] = metadata["agent_id"]
        newest = options.pop("newest", False)
        asked = {**options, **metadata["filters"], "memory_types": types}
        ask = recall_query(memory, beginning, **asked)
        alone = ask.blank or ask.max_tokens is not None
        questions = {} if alone else circumstance_queries(metadata["sections"], stages)
        recalled = unit(
            _recall_with_circumstances(
                ask, questions, metadata, memory, newest=newest and not alone
            )
        )
        about = {"query": beginning, "informed_by": questions or None, **asked}
        memories = yield from trace_recall(f"recall {self.name}", memory, about, recalled)
        late = [
            newest and place >= NEWEST and not memory.score for place, memory in enumerate(memories)
        ]
        told_of = zip(memories, late, strict=True)
        return Section(
            tuple(Fragment.of_memory(memory, self.name, rank=n) for memory, n in told_of)
        )


def _recall_with_circumstances(
    ask: RecallQuery,
    questions: Mapping[str, str],
    metadata: Mapping[str, Any],
    memory: MemoryCoordinator,
    *,
    newest: bool,
) -> Flow[list[Recollection]]:
    """Recall by the prompt and its circumstances, and perhaps the newest; embed a text once."""
    store = memory.tiered_store
    few = min(ask.limit, MOST_INFORMED)
    asks = [
        ask,
        *(
            replace(ask, query=question, embedding=None, limit=few)
            for question in questions.values()
        ),
    ]
    asks += [replace(ask, query="", embedding=None)] if newest else []
    vectors: QueryVectors = metadata["vectors"]
    turn = metadata["turn"]
    if ask.blank:
        # these are shown whatever is asked: no accesses
        (latest,) = yield from recalls.recall(memory, asks, lambda _: True, turn=turn)
        return latest
    rows: dict[object, Candidate] = {}

    def noted(row: Candidate) -> bool:
        rows[row.place] = row
        return True  # it counts as accessed once, below, if it is among the best

    answers = yield from recalls.recall(memory, asks, noted, vectors, turn=turn)
    direct, *informed = map(list, answers)
    recent = informed.pop() if newest else []
    if ask.floor and vectors.failed is None:
        direct = [memory for memory in direct if memory.match >= LEAST_MATCH]
        informed = [
            [memory for memory in each if memory.match >= LEAST_INFORMED_MATCH] for each in informed
        ]
    memories = merge_circumstances(direct, dict(zip(questions, informed, strict=True)), ask.limit)
    yield from store.flows.mark_read(
        [rows[memory.place] for memory in memories], store.flows.moment()
    )
    there = {memory.place for memory in memories}
    others = [memory for memory in recent if memory.place not in there]
    return [*memories, *others][: ask.limit]


def _allowed_types(
    options: dict[str, Any], filters: Mapping[str, Any], memory: MemoryCoordinator
) -> list[str] | None:
    """Return the memory types that a stage may recall, as far as the filters allow."""
    left_out = options.pop("other_than", None)
    own = options.pop("memory_types", None)
    if own is None and left_out is not None:
        own = [kind.name for kind in memory.types if kind.name not in left_out]
    wanted = filters.get("memory_types")
    if own is None:
        return None if wanted is None else list(wanted)
    return [name for name in own if wanted is None or name in wanted]


def circumstance_queries(
    sections: Mapping[str, Section], stages: Iterable[str | Sequence[str]]
) -> dict[str, str]:
    """Make questions of what these stages say; a tuple of stages shares one.

    Each holds a few words: of the end of a conversation, of the beginning of a list.
    """
    questions = {}
    for stage in stages:
        names = (stage,) if isinstance(stage, str) else stage
        saying = [name for name in names if len(sections.get(name, ()))]
        words = list[str]()
        for name in saying:
            section, most = sections[name], MOST_WORDS // len(saying)
            if name == "conversation":
                texts = [
                    fragment.text for fragment in section if fragment.fields.get("speaker")
                ] or [str(section)]
                texts, most = texts[-_LAST:], max(1, most // _LAST)
            else:
                texts = [" ".join(_LISTED.findall(str(section)) or [str(section)])]
            words += [word for text in texts for word in _TELLING.findall(text)[:most]]
        if words:
            questions[" and ".join(saying)] = " ".join(words)
    return questions


def merge_circumstances(
    direct: Sequence[Recollection], informed: Mapping[str, Sequence[Recollection]], limit: int
) -> list[Recollection]:
    """Merge memories found by the prompt and by its circumstances, best first.

    The explanation of a memory has the gain by a stage; of several stages the one with the greatest
    gain counts.
    """
    best = max((memory.score for memory in direct), default=None)
    merged = {memory.place: memory for memory in direct}
    added: dict[tuple[tuple[str, ...], str], tuple[float, str]] = {}
    for stage, memories in informed.items():
        for memory in memories:
            more = WEIGHT * (memory.score if best is None else min(best, memory.score))
            added[memory.place] = max(added.get(memory.place, (0.0, "")), (more, stage))
            merged.setdefault(memory.place, replace(memory, match=0.0, score=0.0, explanation={}))
    for place, (more, stage) in added.items():
        memory, terms = merged[place], {stage: more} if more else {}
        merged[place] = replace(
            memory, score=memory.score + more, explanation={**memory.explanation, **terms}
        )
    return sorted(merged.values(), key=lambda memory: -memory.score)[:limit]


# The conversation


@dataclass(frozen=True, slots=True)
class Conversation:
    """Source of the last messages, word for word, after a summary of the earlier ones.

    The messages are those given to the turn, which are not shown where the model sees them; without
    any, the session's of the last hour, else its memories. Stage options: `limit` messages, none
    older than `minutes`, and whether there is a `summary`.
    """

    known_options: ClassVar = ("limit", "minutes", "summary")

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """Return the conversation so far, oldest first, without the prompt itself."""
        options = metadata["options"]
        messages = metadata["messages"]
        seen = messages is not None and not metadata["show_messages"]
        fragments = (
            (yield from _read_session(metadata, memory))
            if messages is None
            else list(_message_fragments(messages))
        )
        last_role = fragments[-1].fields["speaker"].lower() if fragments else ""
        if last_role not in ASSISTANT_ROLES and fragments and fragments[-1].text == prompt:
            fragments.pop()
        fragments = [
            fragment
            for fragment in fragments
            if _is_recent(fragment, metadata["now"], options.get("minutes"))
        ]
        begin = max(0, len(fragments) - options.get("limit", _LIMIT))
        older = fragments[:begin] if options.get("summary", True) else []
        ages = zip(range(len(fragments) - begin, 0, -1), fragments[begin:], strict=True)
        # the newest get room first; the summary comes after the last exchange
        last = [replace(fragment, rank=age) for age, fragment in ages]
        summary = [_sum_up(older)] if older else []
        return Section(tuple(replace(fragment, seen=seen) for fragment in (*summary, *last)))


def _read_session(metadata: Mapping[str, Any], memory: MemoryCoordinator) -> Flow[list[Fragment]]:
    """Read the last hour's messages of the session; without any, its memories.

    If the context names an agent, other agents' messages are left out.
    """
    if memory.context.session_id is None:
        return []
    limit = metadata["options"].get("limit", _LIMIT)
    owner, agent = StateOwner.from_context(memory.context), memory.context.agent_id
    most = MAX_MESSAGES if metadata["options"].get("summary", True) else limit
    snapshot = yield from unit(read_snapshot(owner, metadata["now"], limit=most, agent_id=agent))
    if snapshot.messages:
        return list(_message_fragments(snapshot.messages))
    spoken = {"session_id": memory.context.session_id, "speaker": {"$gt": ""}}
    own = {"memory_types": EPISODES, "agent_id": agent, "limit": limit, "filter": spoken}
    ask = recall_query(memory, "", **own)
    # these are shown in any case: no accesses
    spoken_memories = unit(
        single(recalls.recall(memory, [ask], lambda _: True, turn=metadata["turn"]))
    )
    memories = yield from trace_recall(
        "recall conversation", memory, {"filter": spoken}, spoken_memories
    )
    return [
        Fragment(
            text=memory.content,
            source="conversation",
            version=memory.updated_at.isoformat(),
            rationale="said in this session",
            key=memory.key,
            fields={**layout_fields(memory), "stamp": f"[{memory.when.isoformat()}] "},
        )
        for memory in sorted(memories, key=_time_order)
    ]


def _time_order(memory: Recollection) -> tuple[datetime, int, str]:
    turn = memory.value.get("turn")
    return memory.when, turn if isinstance(turn, int) else 0, memory.key


def _message_fragments(messages: Iterable[Any]) -> Iterable[Fragment]:
    """Yield messages of people and the assistant as fragments."""
    for message in messages:
        role, text, when = _read_message(message)
        if role is None or not text.strip():
            continue
        key = getattr(message, "id", None)
        named = message.name if isinstance(message, HumanMessage) else None
        yield Fragment(
            text=replace_unstorable(text),
            source="conversation",
            version=when,
            rationale="said in this conversation",
            key=None if key is None else str(key),
            fields={
                "speaker": short_label(named or role),
                "role": short_label(role).upper(),
                "when": clean_label(when),
                "stamp": f"[{clean_label(when)}] " if when else "",
            },
        )


def _read_message(message: Any) -> tuple[str | None, str, str]:
    """Return the role, the text and the time of a message; the time is empty if unknown."""
    match message:
        case str():
            return "user", message, ""
        case Message():
            return message.role, message.content, message.at.isoformat()
        case SystemMessage() | ToolMessage():
            return None, "", ""
        case BaseMessage():
            kinds = ((HumanMessage, "user"), (AIMessage, "assistant"))
            role = next(
                (name for kind, name in kinds if isinstance(message, kind)), str(message.type)
            )
            return role, str(message.text), str(message.additional_kwargs.get("timestamp", ""))
        case {"content": str(content)}:
            when = message.get("timestamp", "")
            moment = when.isoformat() if isinstance(when, datetime) else str(when)
            return str(message.get("role", "user")), content, moment
    raise InvalidTypeError(
        "a message is LangChain's, or a mapping with role and content, not "
        f"{type(message).__name__}"
    )


def _is_recent(fragment: Fragment, now: datetime, minutes: float | None) -> bool:
    """Tell whether a message is from the last minutes, as far as its time is known."""
    when = fragment.fields.get("when")
    if minutes is None or not when:
        return True
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return True
    return moment.tzinfo is None or moment > now - timedelta(minutes=minutes)


def _sum_up(older: Sequence[Fragment]) -> Fragment:
    """Sum up earlier messages: both ends of the last ones, word for word."""
    lines: list[str] = []
    room = _SUMMED_UP
    for fragment in reversed(older):
        line = f"- {fragment.fields['speaker']}: {_cut_middle(fragment.text)}"
        room -= len(line)
        if room < 0:
            break
        lines.insert(0, line)
    head = f"Earlier in this conversation, {len(older)} messages:"
    left_out = len(older) - len(lines)
    more = [f"- and {left_out} more before"] if left_out else []
    return Fragment(
        text="\n".join([head, *more, *lines]),
        source="conversation",
        version=older[-1].version,
        rationale=f"sums up {len(older)} earlier messages",
        rank=_AFTER_AN_EXCHANGE,
        fields={"speaker": "summary", "role": "SUMMARY"},
    )


def _cut_middle(text: str) -> str:
    """Return both ends of a text in one line: a question or decision often comes last."""
    line = printable_line(text)
    if len(line) <= _BEGINNING + len(CUT) + _END:
        return line
    return f"{line[:_BEGINNING].rstrip()} {CUT} {line[-_END:].lstrip()}"
