"""Check new memories and turn them into writes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.core import checks
from langmem_tiers.core.checks import (
    check_key,
    checked_label,
    checked_share,
    normalised_tags,
    parsed_moment,
    utf8_bytes,
)
from langmem_tiers.core.config import Bounds, IndexOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import (
    ASSISTANT_ROLES,
    TRUST_THRESHOLD,
    USER_ROLES,
    Place,
    Source,
    Tier,
    encode_namespace,
)
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import (
    MAX_TURN,
    SMALL_TALK,
    encode_value,
    read_recall_fields,
    trust_of,
)
from langmem_tiers.postgres.flow import CHARACTERS_ON_LOOP, reading_size
from langmem_tiers.recall.message_intent import classify_message
from langmem_tiers.store.write import Write

FIELD = "content"
"""The name of a memory's one indexed field."""
_TYPED: Final = 300
"""Characters up to which a message counts as typed: our own choice."""
_TALKERS: Final = USER_ROLES | ASSISTANT_ROLES
_PARAGRAPHS: Final = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """A text that is known already, by the key of its memory."""

    content: str
    key: str | None = None
    namespace: tuple[str, ...] | None = None


class ContentPart(NamedTuple):
    """One of the texts that a content was put together of, and whose word it is."""

    text: str
    source: str | None = None
    """The source; None takes that of the whole content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """Something to be remembered, as a caller gives it; `store` says what each field means.

    The gate and reviewers are given it once its text, source, tags and type were checked.
    """

    content: str
    memory_type: str | None = "episodic"
    """The memory type; None takes `episodic`."""
    parts: Sequence[ContentPart] = ()
    """The parts of a composed content: the gate judges each by itself."""
    tier: Tier | None = None
    key: str | None = None
    personal: bool | None = None
    tags: Iterable[str] = ()
    project_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    speaker: str | None = None
    turn: int | None = None
    occurred_at: datetime | str | None = None
    valid_from: datetime | str | None = None
    valid_to: datetime | str | None = None
    derived_from: Iterable[str] = ()
    importance: float | None = None
    entities: Iterable[str] = ()
    context: str | Mapping[str, Any] | None = None
    emotional_valence: str | None = None
    platform_source: str | None = None
    success_metrics: Mapping[str, Any] = field(default_factory=dict)
    source_task: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pinned: bool = False
    source: str = Source.USER
    recalled: Iterable[object] = ()
    """Texts recalled in its run, and the agent's instructions: a repetition of them is no new
    evidence."""
    stored: Sequence[KnownText] = ()
    """Stored texts that might say the same."""
    echoes: Iterable[Sequence[str]] = ()
    """Memories that it repeats, by stored namespace and key; those that exist are its origins."""
    further: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the value beside these, such as `boost`."""
    trust: float = 1.0
    """The most trust in it, in 0…1; the gate lowers it, and sets the next two."""
    held: str | None = None
    """The reason of its quarantine; None if it is not quarantined."""
    threshold: float = TRUST_THRESHOLD
    """Below this trust it is quarantined, should what it is derived from be trusted less."""

    @property
    def beside(self) -> tuple[str, ...]:
        """List the other texts that a prompt may show of it: speaker and circumstances."""
        return tuple(text for text in (self.speaker, self.context) if isinstance(text, str))


def to_write(
    memory: NewMemory,
    *,
    context: MemoryContext,
    types: MemoryTypes,
    index: IndexOptions | None,
    default_ttl: float | None,
    bounds: Bounds | None = None,
) -> Write:
    """Check a memory that was `read_once` and turn it into the write that stores it.

    Raises:
        InvalidInputError: for anything that cannot be stored; nothing was.
    """
    kind = types.get(memory.memory_type or "episodic")
    tier = kind.tier if memory.tier is None else Tier(memory.tier)
    where = context
    for name in _OF_CONTEXT:
        if (own := getattr(memory, name)) is not None:
            where = replace(where, **{name: own})
    value = kind.fields(memory.content, _given_fields(memory, where))
    value = {**value, "content": memory.content, "memory_type": kind.name}
    if "tags" in value:
        value["tags"] = normalised_tags(value["tags"])
    if kind.boost != 1.0:
        value.setdefault("boost", kind.boost)
    if memory.trust < 1.0 or memory.source != Source.USER:
        value["source"] = memory.source
    if memory.trust < 1.0:
        value["trust"] = memory.trust
    if (memory.speaker or "").lower() in _TALKERS:
        value[SMALL_TALK] = round(classify_message(memory.content).talk, 2)
    write = write_of_value(
        value,
        place=encode_namespace(
            where.namespace(tier, personal=kind.is_personal(where.user_id, memory.personal))
        ),
        key=str(uuid4()) if memory.key is None else memory.key,
        index=index,
        tier=tier,
        ttl=math.inf if memory.pinned is True else kind.ttl if default_ttl is None else default_ttl,
        bounds=bounds,
    )
    echoes = tuple((write.place._replace(namespace=at), key) for at, key in memory.echoes)
    return replace(
        write,
        sources=echoes,
        echoes=echoes,
        held=memory.held,
        threshold=memory.threshold,
        has_given_key=memory.key is not None,
        until_session_end=kind.tier == Tier.SHORT_TERM,
    )


def write_of_value(
    value: Mapping[str, Any],
    *,
    place: Place,
    key: str,
    index: IndexOptions | None,
    tier: Tier,
    ttl: float | None = None,
    bounds: Bounds | None = None,
) -> Write:
    """Build the write of a value with a `content`; `ttl` in minutes, the tier's own if None.

    Raises:
        InvalidInputError: if it is not JSON.
    """
    embedded = index is not None and index.vector is not None
    return Write(
        place=place,
        key=key,
        value=encode_value(value, bounds),
        texts=((FIELD, str(value["content"])),) if embedded else (),
        lexical=str(value["content"]) if index is not None else "",
        ttl=ttl,
        tier=tier,
        recall_fields=read_recall_fields(value),
        trust=trust_of(value),
    )


def checked_text(value: object, what: str) -> str:
    """Check a text that is not blank.

    Raises:
        InvalidInputError: for anything else.
    """
    if not isinstance(value, str):
        raise InvalidTypeError(f"{what} is a string, not {type(value).__name__}")
    utf8_bytes(value, what)
    if not value.strip():
        raise InvalidInputError(f"{what} is empty: say it in a sentence")
    return value


def checked_content(content: object, what: str = "content") -> str:
    """Check a content that is not blank, whatever characters it has.

    Raises:
        InvalidInputError: for anything else.
    """
    if not isinstance(content, str):
        raise InvalidTypeError(f"{what} is text, not {type(content).__name__}")
    if not content.strip():
        raise InvalidInputError(f"{what} is empty: there is nothing to remember")
    return content


def _given_fields(memory: NewMemory, where: MemoryContext) -> dict[str, Any]:
    """Collect the given fields in their stored form."""
    fields = {**_checked_dict(memory.further, "further"), **_NOTHING_GIVEN}
    for name, check in _CHECKS.items():
        value = getattr(where if name in _OF_CONTEXT else memory, name)
        if _is_given(name, value):
            fields[name] = check(value, name)
    if memory.turn is not None and memory.speaker is None:
        raise InvalidInputError("a turn is something that somebody said: name the speaker too")
    began, ended = fields["valid_from"], fields["valid_to"]
    if began and ended and began >= ended:
        raise InvalidInputError(
            f"valid_to, {ended.isoformat()}, is not after valid_from, {began.isoformat()}: what "
            "is true at no time is not remembered"
        )
    for name in _TIMES:
        if fields[name] is not None:
            fields[name] = fields[name].isoformat()
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def freeze(memory: NewMemory, bounds: Bounds) -> NewMemory:
    """Make a memory's iterables readable again, and check the fields that the gate reads.

    Raises:
        InvalidInputError: for what is of another kind, empty, or too long.
    """
    bounds.check_content(memory.content)
    checked_content(memory.content)
    read: dict[str, Any] = {}
    for name, check in _READ_ONCE.items():
        value = getattr(memory, name)
        if _is_given(name, value):
            items = bounds.checked_items(value, f"a list of {name}") if name in _LISTS else value
            read[name] = check(items, name)
    return replace(memory, **read)


def size_of(memories: Iterable[NewMemory]) -> int:
    """Estimate the characters to check, up to the limit that matters."""
    size = 0
    for memory in memories:
        lists = [memory.tags, memory.derived_from, memory.entities, memory.recalled]
        mappings = [memory.context, memory.success_metrics, memory.metadata, memory.further]
        size += reading_size([memory.content, *lists, *mappings])
        if size > CHARACTERS_ON_LOOP:
            break
    return size


def derive_from(origin: NewMemory, memory: NewMemory) -> NewMemory:
    """Limit a derived memory to the trust of its origin, and quarantine it as its origin is."""
    held = None if origin.held is None else f"derived: it came from {origin.key}: {origin.held}"
    return replace(
        memory,
        source=origin.source,
        trust=min(memory.trust, origin.trust),
        held=memory.held or held,
    )


def _checked_turn(value: object, what: str) -> int:
    return checks.checked_whole(value, what, 0, MAX_TURN - 1)


def _is_given(name: str, value: object) -> bool:
    """Tell whether a field is to be checked: it is neither None nor as it is where nobody gave it.

    False is no empty list, and an empty list no mapping.
    """
    default = getattr(_DEFAULTS, name)
    return value is not None and (type(value) is not type(default) or value != default)


def _checked_string(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(f"{what} is a string, not {type(value).__name__}")
    return value


def _checked_dict(value: object, what: str) -> dict[str, Any]:
    return {} if value is None else dict(checks.checked_mapping(value, what, "{'a': 1}"))


def _checked_circumstances(value: object, what: str) -> object:
    return value if isinstance(value, str) else _checked_dict(value, what)


def _checked_pinned(value: object, what: str) -> bool | None:
    return checks.checked_flag(value, what) or None


_OF_CONTEXT: Final = ("project_id", "session_id", "agent_id")
"""Fields that a memory may set in place of its context."""
_TIMES: Final = ("occurred_at", "valid_from", "valid_to")
_CHECKS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys((*_OF_CONTEXT, "speaker"), checked_label),
    "tags": checks.checked_strings,
    "turn": _checked_turn,
    **dict.fromkeys(_TIMES, parsed_moment),
    "importance": checked_share,
    "entities": checks.checked_strings,
    "context": _checked_circumstances,
    **dict.fromkeys(("emotional_valence", "platform_source", "source_task"), _checked_string),
    **dict.fromkeys(("success_metrics", "metadata"), _checked_dict),
    "pinned": _checked_pinned,
}
"""The check of each field of a value."""
_LISTS: Final = ("tags", "derived_from", "entities", "recalled")
_READ_ONCE: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "memory_type": lambda value, name: checks.checked_instance(value, str, name),
    "key": lambda value, _: check_key(value),
    **dict.fromkeys(("source", "speaker"), checked_label),
    "trust": checked_share,
    "tags": lambda value, _: tuple(normalised_tags(value)),
    "derived_from": lambda value, name: tuple(
        map(check_key, dict.fromkeys(checks.checked_strings(value, name)))
    ),
    "entities": lambda value, _: value,
    "recalled": lambda value, _: parse_recalled(value),
}
"""The check and conversion of each field that the gate reads."""
_NOTHING_GIVEN: Final = dict.fromkeys(_CHECKS)
_DEFAULTS: Final = NewMemory(content="")


def parse_recalled(values: Iterable[object]) -> tuple[KnownText, ...]:
    """Convert recalled texts, recollections or mappings of their fields for the gate.

    Raises:
        InvalidTypeError: for anything else.
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"recalled is a list of what was recalled, not {short(values)}")
    return tuple(map(_recalled_text, values))


def _recalled_text(value: object) -> KnownText:
    if isinstance(value, KnownText):
        return value
    if isinstance(value, str):
        return KnownText(content=value)
    get = value.get if isinstance(value, Mapping) else partial(getattr, value)
    content, key, labels = get("content", None), get("key", None), get("namespace", None)
    if not isinstance(content, str) or not isinstance(key, str | None):
        raise InvalidTypeError(
            f"what was recalled is a text or a recollection, not {type(value).__name__}: pass what "
            "get_context returned, or the state's `recalled`"
        )
    return KnownText(content=content, key=key, namespace=None if labels is None else tuple(labels))


def pasted_parts(memory: NewMemory) -> tuple[ContentPart, ...]:
    """Find what a user pasted, which is a page's word: what follows the first of its paragraphs.

    A short message is the user's own, however it is laid out.
    """
    if memory.source != Source.USER or len(memory.content) <= _TYPED:
        return ()
    _, *further = _PARAGRAPHS.split(memory.content.strip(), maxsplit=1)
    return tuple(ContentPart(text, Source.WEB) for text in further)
