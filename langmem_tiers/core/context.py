"""Whose memory it is: tenant, project, session and agent, and the labels that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.zones import zone_of

ABSENT = "_"
"""The label that stands for a project or a session that was not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContext:
    """Who remembers and who asks; a graph's `context_schema`.

    Namespaces nest: what is remembered in short_term belongs to `(tenant, project, session)`, in
    working to `(tenant, project)`, in long_term to the tenant. A recall looks under the same
    prefix in each tier, so a memory that rises through the tiers is still found. The agent is
    recorded on the memory and is not part of the namespace. Give each user a tenant: its projects
    share what is in long_term. `timezone` is the user's, such as "Europe/Berlin": what is said of
    days and hours is read in it; UTC if not given.

    Example:
        ```python
        from langmem_tiers import MemoryContext

        context = MemoryContext(tenant="acme", project_id="billing", session_id="chat-7")
        ```
    """

    tenant: str
    agent_id: str | None = None
    project_id: str | None = None
    session_id: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a label."""
        for name in ("tenant", "agent_id", "project_id", "session_id"):
            given = getattr(self, name)
            if given is None and name != "tenant":
                continue
            if not isinstance(given, str):
                raise InvalidTypeError(f"{name} is a string, not {type(given).__name__}")
            if not given:
                raise InvalidInputError(f"{name} is empty: leave it out, or name one")
        if self.tenant == "langgraph":
            raise InvalidInputError(
                "LangGraph keeps the tenant 'langgraph' to itself: name another"
            )
        if self.timezone is not None:
            zone_of(self.timezone)

    @property
    def zone(self) -> ZoneInfo:
        """The user's time zone."""
        return zone_of(self.timezone or "UTC")

    def namespace(self, tier: Tier) -> tuple[str, ...]:
        """Where memories of a tier are written, and the prefix under which they are sought.

        LangGraph's labels hold no dots: one in a name becomes `%2E`, and `%` becomes `%25`. A
        name that is `_`, which stands for none, becomes `%5F`.
        """
        names = (self.tenant, self.project_id, self.session_id)
        depth = {Tier.SHORT_TERM: 3, Tier.WORKING: 2, Tier.LONG_TERM: 1}[tier]
        return tuple(ABSENT if name is None else label_of(name) for name in names[:depth])

    def reaches(self, tier: Tier | str, namespace: tuple[str, ...]) -> bool:
        """Whether a memory that is there is reached by its key.

        What is in long_term is everybody's in the tenant, and so is what belongs to no project; all
        else is reached from its own project alone.
        """
        tenant, project = self.namespace(Tier.WORKING)
        if namespace[0] != tenant:
            return False
        return tier == Tier.LONG_TERM or namespace[1:2] in ((), (project,))

    @property
    def looks_after(self) -> tuple[str, ...]:
        """The prefix of what somebody looks after here: a project, or all, if none is named."""
        return self.namespace(Tier.LONG_TERM if self.project_id is None else Tier.WORKING)

    @property
    def root(self) -> str:
        """The tenant as the first label of every namespace."""
        return self.namespace(Tier.LONG_TERM)[0]


def label_of(name: str) -> str:
    """The label that stands for a name in a namespace; two names never have the same."""
    return name.replace("%", "%25").replace(".", "%2E") if name != ABSENT else "%5F"


def named_by(label: str) -> str | None:
    """The name that stands in a namespace as this label; None if none was named."""
    if label == ABSENT:
        return None
    return ABSENT if label == "%5F" else label.replace("%2E", ".").replace("%25", "%")
