"""What a failure leaves: an attempt, which is evidence, and a lesson that somebody drew from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid4, uuid5

from langmem_tiers.core.checks import label, normalised_tags
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.memory import Source, Tier
from langmem_tiers.core.namespaces import encode
from langmem_tiers.core.types import ATTEMPT, REFLEXION
from langmem_tiers.learn.signature import Signature, signature
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.remember.new import NewMemory, Part, checked_text
from langmem_tiers.store.write import LOCK, lock_call

PATTERN = "pattern"
"""The memory type of what worked."""
FAILED_ATTEMPT = "failed-attempt"
"""The tag of attempts that failed."""
_TAUGHT: Final = ("task_id", "original_approach", "failure_reason", "improved_approach")
LESSON_FROM = "Lesson from "
"""How the text of a lesson begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflexion:
    """A lesson learned from a failure, with the fields of the specification.

    Raises:
        InvalidInputError: for a field that is empty or no text.

    Example:
        ```python
        from langmem_tiers import Reflexion

        lesson = Reflexion(
            task_id="task-456",
            original_approach="Compared passwords with ==",
            failure_reason="A timing attack reads them",
            improved_approach="Use secrets.compare_digest",
        )
        print(lesson.to_memory_format())
        ```
    """

    task_id: str
    original_approach: str
    failure_reason: str
    improved_approach: str
    tags: tuple[str, ...] = ()
    failure: Signature | None = None
    """What failed, without its accidents: the same failure recalls the lesson."""

    def __post_init__(self) -> None:
        """Refuse what teaches nothing."""
        for name in _TAUGHT:
            checked_text(getattr(self, name), name)
        if not isinstance(self.failure, Signature | None):
            raise InvalidTypeError(f"failure is a Signature, not {type(self.failure).__name__}")
        object.__setattr__(self, "tags", tuple(normalised_tags(self.tags)))

    def to_memory_format(self) -> str:
        """The lesson as the text that is stored, embedded, and shown to a model."""
        return (
            f"{LESSON_FROM}{self.task_id}\nTried: {self.original_approach}\n"
            f"Failed because: {self.failure_reason}\nDo instead: {self.improved_approach}"
        )

    def to_memory(self, context: MemoryContext, **further: Any) -> NewMemory:
        """The lesson as something to be stored; the same lesson has the same key."""
        fields = {name: getattr(self, name) for name in _TAUGHT}
        return NewMemory(
            content=self.to_memory_format(),
            parts=tuple(map(Part, fields.values())),
            memory_type=REFLEXION,
            key=stable_key(context, REFLEXION, *fields.values()),
            tags=self.tags,
            further={**fields, **failure_fields(self.failure)},
            **further,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """What was tried and how it failed; and what succeeded later, if anything did.

    Raises:
        InvalidInputError: for a field that is empty or no text that can be stored.
    """

    task_id: str
    approach: str
    error: str
    """The real error, as it was reported."""
    tool: str | None = None
    succeeded_with: str | None = None
    """What was done when the same thing worked at last."""

    def __post_init__(self) -> None:
        """Refuse what says nothing."""
        for name in ("task_id", "approach", "error"):
            checked_text(getattr(self, name), name)
        label(self.tool, "a tool")
        if self.succeeded_with is not None:
            checked_text(self.succeeded_with, "succeeded_with")

    @property
    def failure(self) -> Signature:
        """What failed, without its accidents."""
        return signature(self.error, tool=self.tool)

    def key(self, context: MemoryContext) -> str:
        """The key that it is kept under."""
        return stable_key(context, FAILED_ATTEMPT, self.task_id, self.approach, self.error)

    def to_memory(self, context: MemoryContext) -> NewMemory:
        """The attempt as it is kept, and shown; the same attempt has the same key."""
        worked = self.succeeded_with
        said = f"{self.approach} failed: {self.error}"
        later = "" if worked is None else f"; later {worked} worked"
        told = {"task_id": self.task_id, "tried": self.approach, "worked": worked}
        return NewMemory(
            content=f"Asked: {self.task_id}\n{said}{later}",
            parts=(
                *(Part(one, Source.AGENT) for one in told.values() if one is not None),
                Part(self.error),
            ),
            memory_type=ATTEMPT,
            key=self.key(context),
            tags=(FAILED_ATTEMPT,),
            source=Source.TOOL,
            further={**told, **failure_fields(self.failure)},
        )


def failure_fields(failure: Signature | None) -> dict[str, str]:
    """What a stored value says of the failure behind it; of what has but a tool, that."""
    if failure is None:
        return {}
    tool = {} if failure.tool is None else {"tool": failure.tool}
    said = failure.error or failure.template
    return {"signature": str(failure), **tool} if said else tool


def stable_key(context: MemoryContext, *parts: str) -> str:
    """A key that is the same for the same parts in the same project."""
    whose = [context.tenant, context.project_id or ""]
    return str(uuid5(NAMESPACE_OID, json.dumps([*whose, *parts])))


def record_lessons(
    pairs: Sequence[tuple[str, str]], context: MemoryContext, options: StoreOptions, now: datetime
) -> Flow[None]:
    """Note of failed attempts that each lives on in its lesson; `pairs` are their keys.

    The lesson of one that is retracted is suspect.
    """
    if not pairs:
        return
    tenant, places = context.root, [encode(one) for one in context.places(Tier.WORKING)]
    keys = dict.fromkeys(key for pair in pairs for key in pair)
    named = [(*place, key) for place in places for key in keys]
    lock = lock_call([(tenant, "", LOCK), *named], options)
    attempts, lessons_ = (list(column) for column in zip(*dict(pairs).items(), strict=True))
    params = {
        "tenant": tenant,
        "places": [place.namespace for place in places],
        "attempts": attempts,
        "lessons": lessons_,
        "events": [str(uuid4()) for _ in attempts],
        "now": now,
    }
    doubt = Call("doubt", {"tenant": tenant, "ids": [], "events": params["events"]})
    yield Query((lock, Call("record_lessons", params), doubt), commit=True)
