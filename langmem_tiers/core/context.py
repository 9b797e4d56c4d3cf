"""The context of a memory: tenant, project, session, agent and user, and their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from langmem_tiers.core.checks import (
    MAX_NAMESPACE_BYTES,
    checked_flag,
    checked_list,
    checked_strings,
    utf8_bytes,
    zone_of,
)
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import TIERS, Place, Tier, decode_namespace

T = TypeVar("T")

ABSENT = "_"
"""The label that stands for a project or a session that was not named."""
_DEPTHS: Final = {Tier.SHORT_TERM: 2, Tier.WORKING: 1, Tier.LONG_TERM: 0}
"""Names behind the tenant in a tier's namespace."""
USER_PREFIX = "@"
"""The prefix of the last label of a user's own namespace."""
USER_PLACEHOLDER = "{user_id}"
"""The place of the user in a template of namespaces; `*` stands for any label."""


class Caller(NamedTuple):
    """A caller in any session: a user of a tenant, in a project."""

    tenant: str
    user_id: str | None
    project_id: str | None


def _explain_fields(kind: type[T]) -> type[T]:
    """Let a class name its fields in the error for missing or unknown ones.

    LangGraph makes a context of whatever mapping a client sends.
    """
    make = kind.__init__
    names = list(kind.__annotations__)

    @wraps(make)
    def named(self: T, **fields: Any) -> None:
        if unknown := fields.keys() - set(names):
            raise InvalidTypeError(
                f"a context has no {short(min(unknown), 40)}: use {', '.join(names)}"
            )
        if "tenant" not in fields:
            raise InvalidTypeError(
                "whose memory is it? The context names no tenant: MemoryContext(tenant='acme'), "
                "or context={'tenant': 'acme'} for a run"
            )
        make(self, **fields)

    setattr(kind, make.__name__, named)
    return kind


@_explain_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContext:
    """The tenant, project, session, agent and user of a call; a graph's `context_schema`.

    Namespaces nest: what is remembered in short_term belongs to `(tenant, project, session)`, in
    working to `(tenant, project)`, in long_term to the tenant. A recall looks under the same
    prefix in each tier, so a memory that rises through the tiers is still found. The agent is
    recorded on the memory and is not part of the namespace.

    Users of one tenant share what its team learns, and nothing that one of them says: with a
    `user_id` what is personal (see `MemoryType.personal`) is written behind a further label,
    `@ada`, and a recall finds that user's own and what is shared. Without one it finds what is
    shared. Users who share nothing get a tenant each. `timezone` is the user's, such as
    "Europe/Berlin": what is said of days and hours is read in it; UTC if not given.

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
    user_id: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a label."""
        for name in ("tenant", "agent_id", "project_id", "session_id", "user_id"):
            value = getattr(self, name)
            if value is None and name != "tenant":
                continue
            if not isinstance(value, str):
                raise InvalidTypeError(f"{name} is a string, not {type(value).__name__}")
            if not value:
                way = "name one" if name == "tenant" else "leave it out, or name one"
                raise InvalidInputError(f"{name} is empty: {way}")
            utf8_bytes(value, name)
        if self.tenant == "langgraph":
            raise InvalidInputError(
                "LangGraph keeps the tenant 'langgraph' to itself: name another"
            )
        if utf8_bytes(self.user_id or "", "user_id") > MAX_NAMESPACE_BYTES:
            raise InvalidInputError(f"user_id has {MAX_NAMESPACE_BYTES} bytes of UTF-8 at most")
        if self.timezone is not None:
            zone_of(self.timezone)

    @property
    def zone(self) -> ZoneInfo:
        """Look up the user's time zone."""
        return zone_of(self.timezone or "UTC")

    def namespace(self, tier: Tier, *, personal: bool = False) -> tuple[str, ...]:
        """Build the namespace that a tier's memories are written to, the prefix of searches.

        What is `personal` is written behind the label of the user, if one is named. LangGraph's
        labels hold no dots: one in a name becomes `%2E`, and `%` becomes `%25`. A name that is
        `_`, which stands for none, becomes `%5F`, and `@` at the beginning of one `%40`.
        """
        names = (self.project_id, self.session_id)
        named: object = tier
        depth = _DEPTHS.get(tier) if isinstance(named, str) else None
        if depth is None:
            raise InvalidInputError(
                f"there is no tier {short(tier)}: use one of {', '.join(TIERS)}"
            )
        labels = [ABSENT if name is None else label_of(name) for name in names[:depth]]
        own = user_labels(self.user_id) if checked_flag(personal, "personal") else ()
        return (_escaped(self.tenant), *labels, *own)

    def places(self, tier: Tier) -> tuple[tuple[str, ...], ...]:
        """Build the context's own namespaces in a tier: the shared one and its user's."""
        every = (self.namespace(tier, personal=own) for own in (False, True))
        return tuple(dict.fromkeys(every))

    @property
    def scope_params(self) -> dict[str, str | None]:
        """Build the parameters by which a statement knows the caller: tenant and user."""
        return {"tenant": self.root, "user_id": self.user_id}

    @property
    def caller(self) -> Caller:
        """Build the caller under which a process keeps data between two calls."""
        return Caller(self.tenant, self.user_id, self.project_id)

    def can_reach(self, tier: Tier | str, namespace: tuple[str, ...]) -> bool:
        """Tell whether a memory that is there is reached by its key.

        What is in long_term is everybody's in the tenant, and so is what belongs to no project; all
        else is reached from its own project alone, and what is a user's by that user.
        """
        tenant, project = self.namespace(Tier.WORKING)
        user = user_of(Place(namespace[0], "".join(f"{label}." for label in namespace[1:])))
        if namespace[0] != tenant or user not in (None, self.user_id):
            return False
        shared = namespace[:-1] if user is not None else namespace
        return tier == Tier.LONG_TERM or shared[1:2] in ((), (project,))

    @property
    def managed_prefix(self) -> tuple[str, ...]:
        """Build the prefix that administrative verbs cover: the project's, else the tenant's."""
        return self.namespace(Tier.LONG_TERM if self.project_id is None else Tier.WORKING)

    @property
    def root(self) -> str:
        """Build the first label of every namespace: the tenant, escaped."""
        return self.namespace(Tier.LONG_TERM)[0]


def label_of(name: str) -> str:
    """Build the label of a name in a namespace; two names never share one."""
    label = _escaped(name)
    return f"%40{label[1:]}" if label.startswith(USER_PREFIX) else label


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace(".", "%2E") if name != ABSENT else "%5F"


def name_of_label(label: str) -> str | None:
    """Decode the name of a label in a namespace; None for the label of no name."""
    if label == ABSENT:
        return None
    if label == "%5F":
        return ABSENT
    bare = f"{USER_PREFIX}{label[3:]}" if label.startswith("%40") else label
    return bare.replace("%2E", ".").replace("%25", "%")


def user_labels(user_id: str | None) -> tuple[str, ...]:
    """Build the labels that make a namespace a user's own; none without a user."""
    return () if user_id is None else (f"{USER_PREFIX}{label_of(user_id)}",)


def check_template(template: Sequence[object]) -> None:
    """Refuse a template of namespaces that does not say which label is the user's.

    Raises:
        ConfigurationError: then.
    """
    texts = all(isinstance(label, str) and label for label in template)
    if not texts or template.count(USER_PLACEHOLDER) != 1 or template[0] == USER_PLACEHOLDER:
        raise ConfigurationError(
            "a template of user_namespaces is labels, such as ('memories', "
            f"'{USER_PLACEHOLDER}'): one of "
            f"them, not the first, is {USER_PLACEHOLDER}; not {short(template)}"
        )


def user_of(place: Place, templates: Sequence[Sequence[str]] = ()) -> str | None:
    """Name the user who owns a namespace, by its last label or a template; else None."""
    labels = decode_namespace(*place)
    if len(labels) > 1 and labels[-1].startswith(USER_PREFIX):
        return name_of_label(labels[-1][1:]) or None
    for template in templates:
        pairs = list(zip(template, labels, strict=False))
        if len(pairs) == len(template) and all(
            expected in ("*", USER_PLACEHOLDER, label) for expected, label in pairs
        ):
            return name_of_label(labels[list(template).index(USER_PLACEHOLDER)])
    return None


def checked_templates(value: Any) -> tuple[tuple[str, ...], ...]:
    """Check the types of templates of namespaces; `check_template` checks their content."""
    try:
        templates = checked_list(value, "user_namespaces", "templates")
        return tuple(tuple(checked_strings(template, "a template of it")) for template in templates)
    except InvalidTypeError as error:
        raise ConfigurationError(
            f"{error}; give user_namespaces=[('memories', '{{user_id}}')]"
        ) from error
