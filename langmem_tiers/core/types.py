"""The registry of memory types: what is built in, and what a user adds.

A type says where a memory goes when nobody says otherwise, how long it lives there, how much its
match counts, and under which title it stands in an assembled context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from langmem_tiers.core import checks
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Recollection, Tier

Extractor: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Content and the fields given with it, to further fields: entities, importance, tags, …"""

Scorer: TypeAlias = Callable[[Recollection, str], float]
"""A function that scores how well a memory answers a query, in 0…1."""

REFLEXION: Final = "reflexion"
"""The type of a lesson learned from a failure."""
ATTEMPT: Final = "attempt"
"""The type of a call that failed, and of what worked later: evidence, of which no lesson is drawn
yet."""
REFLEXION_BOOST = 1.5
"""Factor of a reflexion's match (specification: `boost_factor`)."""

PROSPECTIVE: Final = "prospective"
"""The type of what is intended: it is raised by itself."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_MAX_TTL_MINUTES = 1e9  # what a put takes
_MAX_BOOST = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryType:
    """One kind of memory.

    Raises:
        InvalidInputError: for a name that is no lower-case identifier, an empty title, a tier
            that is none, or a TTL or boost out of range.

    Example:
        ```python
        from langmem_tiers.core.memory import Tier
        from langmem_tiers.core.types import MemoryType

        social = MemoryType(name="social", tier=Tier.LONG_TERM, title="People")
        ```
    """

    name: str
    tier: Tier
    """The tier of its memories unless the caller names one."""
    title: str
    """The title of its section in an assembled context."""
    ttl: float | None = None
    """Minutes it lives, up to a thousand million; None takes the tier's own."""
    boost: float = 1.0
    """Factor of its memories' matches; the product is capped at 1."""
    personal: bool = True
    """True if it is the own of the user that its context names, if it does; else it is shared."""
    extract: Extractor | None = None
    """Finds further fields of the value; what the caller gave goes over them."""
    score: Scorer | None = None
    """Replaces the match of its memories; without it recall's own is taken."""

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInputError(
                "a memory type's name is lower-case letters, digits, _ and -, and begins with a "
                f"letter, not {short(name)}"
            )
        title: object = self.title
        if not isinstance(title, str) or not title.strip():
            raise InvalidInputError(f"memory type {short(name)} needs a title for its section")
        tier = checks.checked_choice(self.tier, Tier, f"the tier of memory type {short(name)}")
        object.__setattr__(self, "tier", Tier(tier))
        if self.ttl is not None:
            minutes = f"the TTL (minutes) of type {short(name)}"
            checks.checked_number(self.ttl, minutes, 0, _MAX_TTL_MINUTES, but=(0,))
        boost = f"the boost of memory type {short(name)}"
        checks.checked_number(self.boost, boost, 0, _MAX_BOOST, but=(0,))

    def fields(self, content: str, own: Mapping[str, Any]) -> dict[str, Any]:
        """Merge the caller's fields over those that the extractor finds in the content.

        Raises:
            InvalidInputError: if the extractor returns no mapping. What it raises passes through.
        """
        extracted = self.extract(content, dict(own)) if self.extract else {}
        if not isinstance(extracted, Mapping):
            raise InvalidInputError(
                f"the extractor of memory type {short(self.name)} returns a mapping of fields, "
                f"not {short(extracted)}"
            )
        return {**extracted, **own}

    def is_personal(self, user_id: str | None, personal: object = None) -> bool:
        """Tell whether a memory is to be its user's own: as told, else as the type says.

        Raises:
            InvalidInputError: if it is to be, and no user is named.
        """
        own = self.personal if personal is None else checks.checked_flag(personal, "personal")
        if personal and user_id is None:
            raise InvalidInputError("whose is it to be? Name the user: MemoryContext(…, user_id=…)")
        return own

    def match(self, memory: Recollection, query: str) -> float:
        """Score a memory for a query: by the type's own scorer, else by the memory's match.

        Raises:
            InvalidInputError: if the scorer returns no number in 0…1. What it raises passes
                through.
        """
        if self.score is None:
            return memory.match
        score = self.score(memory, query)
        subject = f"what the scorer of memory type {short(self.name)} returns"
        return float(checks.checked_number(score, subject, 0, 1))


# Five types name no tier in their specification: they outlive their session and prove themselves
# in working, from which evidence promotes them. How a thing is done is the team's, all else is what
# somebody said or did, and personal.
BUILT_IN: tuple[MemoryType, ...] = (
    # The coordinator's specification: `store_pattern` and `store_reflexion` insert into working.
    MemoryType(name="pattern", tier=Tier.WORKING, title="Patterns", personal=False),
    MemoryType(
        name=REFLEXION,
        tier=Tier.WORKING,
        title="Lessons",
        boost=REFLEXION_BOOST,
        personal=False,
    ),
    # The five-type specification; the titles of the first two and of `working` are the
    # orchestrator's. A session's end clears `working`, so it alone belongs to the session.
    MemoryType(name="episodic", tier=Tier.WORKING, title="Episodic Memory"),
    MemoryType(name="semantic", tier=Tier.WORKING, title="Semantic Memory"),
    MemoryType(name="procedural", tier=Tier.WORKING, title="Procedures", personal=False),
    MemoryType(name=PROSPECTIVE, tier=Tier.WORKING, title="Plans"),
    MemoryType(name="working", tier=Tier.SHORT_TERM, title="Working Memory"),
    # The agent-memory specification: the four types of its long-term collection, kept for good. But
    # what is known of a person stays in the project until it is promoted: all projects of a tenant
    # read long_term.
    MemoryType(name="interaction", tier=Tier.LONG_TERM, title="Interactions"),
    MemoryType(name="learning", tier=Tier.LONG_TERM, title="Learnings"),
    MemoryType(name="achievement", tier=Tier.LONG_TERM, title="Achievements"),
    MemoryType(name="relationship", tier=Tier.WORKING, title="Relationships"),
    # The orchestrator's specification: skills are extracted from what happened in a turn.
    MemoryType(name="skill", tier=Tier.WORKING, title="Skills", personal=False),
    # What failed, and worked later. It holds the arguments of calls, which may be a user's words.
    MemoryType(name=ATTEMPT, tier=Tier.WORKING, title="Attempts"),
)
_BUILT_IN_BY_NAME = {kind.name: kind for kind in BUILT_IN}


class MemoryTypes:
    """The types that one coordinator knows: a registry of its own, begun with the built-in ones.

    Types come in the order in which they were registered.

    Example:
        ```python
        from langmem_tiers.core.memory import Tier
        from langmem_tiers.core.types import MemoryType, MemoryTypes

        types = MemoryTypes()
        types.register(MemoryType(name="social", tier=Tier.LONG_TERM, title="People"))
        assert types.get("social").title == "People"
        ```
    """

    def __init__(self, types: Iterable[MemoryType] = BUILT_IN) -> None:
        self.scored: dict[str, MemoryType] = {}
        """The types with a scorer of their own, by name."""
        self._types: dict[str, MemoryType] = {}
        if types is BUILT_IN:  # as each coordinator of a graph begins
            self._types |= _BUILT_IN_BY_NAME
            return
        for memory_type in checks.checked_list(types, "types", "memory types"):
            self.register(memory_type)

    def register(self, memory_type: MemoryType, *, replace: bool = False) -> None:
        """Add a type, or with `replace` put it in the place of one that bears its name.

        Raises:
            InvalidInputError: if the name is taken and `replace` is False.
        """
        checks.checked_instance(memory_type, MemoryType, "memory_type")
        if not checks.checked_flag(replace, "replace") and memory_type.name in self._types:
            raise InvalidInputError(
                f"memory type {memory_type.name!r} is registered already: choose another name, "
                "or pass replace=True"
            )
        self._types[memory_type.name] = memory_type
        self.scored = {name: kind for name, kind in self._types.items() if kind.score is not None}

    def get(self, name: str) -> MemoryType:
        """Look up a type by its name.

        Raises:
            InvalidInputError: if none is registered under it.
        """
        if name not in self:
            raise InvalidInputError(
                f"no memory type {short(name)}; {checks.suggest_name(name, self._types)} "
                "(or add one with types.register(MemoryType(name=…, tier=…, title=…)))"
            )
        return self._types[name]

    def learned(self, name: str) -> bool:
        """Tell whether memories of a type tell how things are done, such as lessons and skills."""
        kind = self._types.get(name)
        return kind is not None and not kind.personal

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._types

    def __iter__(self) -> Iterator[MemoryType]:
        return iter(tuple(self._types.values()))

    def __len__(self) -> int:
        return len(self._types)
