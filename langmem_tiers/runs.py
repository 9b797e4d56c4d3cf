"""A graph's run: whose memory it is, and how to recall from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypedDict, cast

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig

from langmem_tiers.asking import Asking
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import ConfigurationError, InvalidInputError, InvalidTypeError
from langmem_tiers.memory import MemoryContext, Tier
from langmem_tiers.recall.rank import ProfileFunction
from langmem_tiers.store import TieredStore
from langmem_tiers.types import MemoryTypes

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SCOPE = tuple(one.name for one in fields(MemoryContext))


class RecallOptions(TypedDict, total=False):
    """The options of `MemoryCoordinator.get_context` that a graph may fix; it says what they mean.

    Those that say whose memory is asked, `project_id` and `session_id`, belong to the scope.
    """

    tiers: Sequence[Tier | str] | None
    memory_types: Sequence[str] | None
    tags: Iterable[str]
    agent_id: str | None
    limit: int | None
    max_tokens: int | None
    since: datetime | str | None
    min_importance: float | None
    filter: Mapping[str, Any] | None
    deduplicate: bool
    similarity_threshold: float
    profile: str | ProfileFunction | None
    cutoff: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Whose memory the runs of a graph use, and what makes their coordinators."""

    scope: Mapping[str, str | None] = field(default_factory=dict)
    """Labels by their names in `MemoryContext`; `{name}` stands for a value of `configurable`."""
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator

    def __post_init__(self) -> None:
        """Refuse a template that names nobody."""
        for text in self.scope.values():
            checked_template(text or "")

    def memory(self, runtime: Any, config: RunnableConfig) -> MemoryCoordinator:
        """The coordinator of one run.

        Raises:
            ConfigurationError: if the graph was not compiled with a TieredStore.
            InvalidInputError: if the run does not say whose memory it is.
        """
        context = self.context(runtime.context, config)
        return self.coordinator(_tiered(runtime.store), context=context)

    def context(self, given: Any, config: RunnableConfig) -> MemoryContext:
        """Who asks: the run's context, and over it what the scope names."""
        named = {name: filled(text, config) for name, text in self.scope.items() if text}
        labels = {**_labels(given), **named}
        if "tenant" not in labels:
            raise InvalidInputError(
                "whose memory is it? Run the graph with context=MemoryContext(tenant=…), or name "
                "a tenant here: tenant='{user_id}' takes it from config['configurable']"
            )
        return MemoryContext(**labels)


def checked(options: Mapping[str, Any]) -> RecallOptions:
    """Options that a recall can take; the names of memory types are looked up when it runs.

    Raises:
        InvalidInputError: for what `get_context` does not know or would refuse.
    """
    known = RecallOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise InvalidTypeError(f"there is no option {min(unknown)!r}: use {', '.join(known)}")
    general = {name: one for name, one in options.items() if name != "memory_types"}
    Asking(MemoryTypes()).ask("", MemoryContext(tenant="anyone"), **general)
    return cast("RecallOptions", {"cutoff": False, **options})


def checked_template(text: str) -> str:
    """A text whose braces are all `{name}`.

    Raises:
        InvalidInputError: for any other brace, which would stand for everybody.
    """
    if set("{}") & set(_PLACEHOLDER.sub("", text)):
        raise InvalidInputError(
            f"{text!r} has a brace that is no placeholder: write {{user_id}}, with letters, digits "
            "and underscores, for config['configurable']['user_id']"
        )
    return text


def filled(text: str, config: RunnableConfig) -> str:
    """A text with each `{name}` replaced by that value of `config["configurable"]`.

    Raises:
        InvalidInputError: if there is no such value.
    """
    checked_template(text)
    known = config.get("configurable") or {}

    def value(found: re.Match[str]) -> str:
        if (label := known.get(found[1])) is None:
            named = ", ".join(sorted(name for name in known if not name.startswith("__")))
            raise InvalidInputError(
                f"{text!r} needs config['configurable'][{found[1]!r}], and the run has "
                f"{named or 'nothing'} there"
            )
        return str(label)

    return _PLACEHOLDER.sub(value, text)


def of_state(state: Any, key: str) -> Any:
    """A key of a graph's state, be it a mapping or an object.

    Raises:
        InvalidInputError: if the state has no such key.
    """
    missing = object()
    found = state.get(key, missing) if isinstance(state, Mapping) else getattr(state, key, missing)
    if found is missing:
        raise InvalidInputError(
            f"the graph's state has no {key!r}: add it to the state, or say with query=… where "
            "the question stands"
        )
    return found


def last_question(messages: Sequence[Any]) -> HumanMessage | None:
    """The last message of a human."""
    known = convert_to_messages(messages)
    return next((one for one in reversed(known) if isinstance(one, HumanMessage)), None)


def text_of(message: BaseMessage | None) -> str:
    """What a message says in words; nothing if there is none."""
    return "" if message is None else str(message.text).strip()


def _tiered(store: object) -> TieredStore:
    if isinstance(store, TieredStore):
        return store
    found = "no store" if store is None else f"a {type(store).__name__}"
    raise ConfigurationError(
        f"the graph was compiled with {found}: give compile() or create_agent() a TieredStore, "
        "store=TieredStore.embedded('./.memory') for instance"
    )


def _labels(given: Any) -> dict[str, str]:
    """The labels of a run's context: a MemoryContext, a mapping, or an object that has some."""
    if isinstance(given, Mapping):
        labels = {name: given.get(name) for name in _SCOPE}
    else:
        labels = {name: getattr(given, name, None) for name in _SCOPE}
    return cast("dict[str, str]", {name: one for name, one in labels.items() if one is not None})
