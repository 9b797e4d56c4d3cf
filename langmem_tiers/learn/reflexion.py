"""From a failure to a lesson: what was tried, what cured it, and what somebody drew from it.

Which call that worked later speaks for one that failed is asked of no model: a call's meaning is
not looked at, only whether it was another try of the very call, and whether anything else can have
been the cure. A failed attempt is evidence; a lesson is what a person, or a model that is shown a
turn, draws from it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field, model_validator

from langmem_tiers.core import prompts
from langmem_tiers.core.checks import checked_label, normalised_tags
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Source, Tier, encode_namespace
from langmem_tiers.core.reading import head_and_tail, shorten_line
from langmem_tiers.core.settings import BOOKKEEPING
from langmem_tiers.core.structured import make_asker, trim_middle
from langmem_tiers.core.types import ATTEMPT, REFLEXION
from langmem_tiers.learn.signature import Signature, signature
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.fence import escape_fences
from langmem_tiers.remember.new import NewMemory, Part, checked_text
from langmem_tiers.store.write import LOCK, lock_call

# ---- which call was the cure, and what passes by itself --------------------------------------


class TriedCall(NamedTuple):
    """A tool call, and what came of it."""

    tool: str
    arguments: Mapping[str, Any]
    error: str | None
    """None if it worked."""
    step: int
    """The place of the message that asked for it: its calls know nothing of each other."""


def find_cure(place: int, calls: Sequence[TriedCall]) -> int | None:
    """The place of the call that worked after the one at `place` failed; None if nobody can say.

    It is the first call that worked after the failure, whatever its tool: one that came between may
    have been the cure. It is a call of the same tool, came once the failure was known, and has an
    argument in common with it. What passes by itself teaches nothing: an error that names such a
    condition (see `is_transient`), or a call that worked later as it was.
    """
    failed = calls[place]
    if failed.error is None or is_transient_failure(failed.error):
        return None
    worked = [
        at
        for at, call in enumerate(calls)
        if at > place and call.error is None and call.tool not in BOOKKEEPING
    ]
    as_it_was = (failed.tool, failed.arguments)
    if not worked or any((calls[at].tool, calls[at].arguments) == as_it_was for at in worked):
        return None
    first = calls[worked[0]]
    again = first.tool == failed.tool and first.step > failed.step
    return worked[0] if again and _share_argument(failed.arguments, first.arguments) else None


def _share_argument(failed: Mapping[str, Any], worked: Mapping[str, Any]) -> bool:
    """Whether two calls have an argument in common that names anything; a switch names nothing."""
    shared = (
        failed[name] for name in failed.keys() & worked.keys() if failed[name] == worked[name]
    )
    return any(not isinstance(value, bool) and value not in (None, "", [], {}) for value in shared)


_SYSTEM_ERRORS: Final = {
    name: getattr(module, name)
    for module, names in (
        (errno, "ECONNREFUSED ECONNRESET ECONNABORTED ETIMEDOUT EHOSTUNREACH EHOSTDOWN"),
        (errno, "ENETUNREACH ENETDOWN ENETRESET EAGAIN EPIPE"),
        (socket, "EAI_AGAIN EAI_NONAME"),
    )
    for name in names.split()
    if hasattr(module, name)
}
"""What systems call a condition that passes, and the numbers that they give to it."""
_NUMBERS: Final = "|".join(map(str, _SYSTEM_ERRORS.values()))
_PHRASES: Final = (
    # as the standard and Postgres name them
    *("serialization failure", "lock not available", "query canceled", "too many connections"),
    *("cannot connect now", "connection exception", "connection failure", "deadlock"),
    *("deadline exceeded", "rate limit", "timed out"),
    # what resolvers (glibc, BSD), SQLite, Postgres, libpq, Node, dpkg and nginx print
    *("temporary failure in name resolution", "name or service not known"),
    *("nodename nor servname provided", "could not serialize access", "could not obtain lock"),
    *("server closed the connection", "socket hang up", "could not get lock"),
    "service temporarily unavailable",
    *(HTTPStatus(code).phrase for code in (408, 425, 429, 500, 502, 503, 504)),
    *(os.strerror(number) for name, number in _SYSTEM_ERRORS.items() if hasattr(errno, name)),
)
_SQLSTATE: Final = r"08\w{3}|40001|40P01|53300|55P03|57014|57P0[123]"
_PARTS: Final = "Connect|NameResolution|BrokenPipe|Throttled|Throttling"
"""Parts of names of classes."""
_CODES: Final = r"408|425|429|5\d\d"


def _condition_pattern(condition: str) -> str:
    """A condition as it is written in words, in snake_case or in CamelCase."""
    return r"[\s_-]*".join(map(re.escape, condition.replace("Timeout", "Time out").split()))


_CONDITION: Final = re.compile(
    "|".join(
        (
            *map(_condition_pattern, _PHRASES),
            rf"\bSQLSTATE\W{{0,3}}(?:{_SQLSTATE})\b",
            rf"\b(?:HTTP(?:/[\d.]+)?|status(?:[ _]?code)?|error code)\W{{0,4}}(?:{_CODES})\b",
            rf"\bHTTP[ _]?Error\W{{0,4}}(?:{_CODES})\b",
            r"(?:\A|error|exception)\W{0,4}(?:429|50[234])\b(?! ?[\d.])",
            rf"\b(?:{_CODES}) (?:client|server) error\b",
            r"(?<![\w'\"=-])time-?out(?: exceeded| expired)?(?=\s*(?:$|[.,;:)]))",
            r"\blocked\b",
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)
_IDENTIFIER: Final = re.compile(
    "|".join(
        (
            rf"\b(?:{'|'.join(_SYSTEM_ERRORS)}|ENOTFOUND|SQLITE_BUSY)\b",
            r"\b(?:[A-Z]+_){0,4}(?:DEAD)?LOCK(?:ED)?(?:_[A-Z]+){0,4}\b",
            r"\b(?:UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED)\b",  # gRPC
            rf"\[Errno (?:{_NUMBERS})\]|\(os error (?:{_NUMBERS})\)",
            r"\b(?:[A-Z]\w*Timeout\w*|Timeout(?:Error|Exception|Expired))\b",
            r"\b(?:RemoteDisconnected|gaierror)\b",
            rf"\b(?=\w*?(?:{_PARTS}))[A-Za-z]\w*(?:Error|Exception)\b",
        )
    )
)


def is_transient_failure(failure: str) -> bool:
    """Whether the text of a failure names a condition that passes by itself."""
    failure = head_and_tail(failure)
    return bool(_IDENTIFIER.search(failure) or _CONDITION.search(failure))


# ---- attempts and lessons --------------------------------------------------------------------

PATTERN = "pattern"
"""The memory type of what worked."""
FAILED_ATTEMPT = "failed-attempt"
"""The tag of attempts that failed."""
_LESSON_FIELDS: Final = ("task_id", "original_approach", "failure_reason", "improved_approach")
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
        for name in _LESSON_FIELDS:
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
        fields = {name: getattr(self, name) for name in _LESSON_FIELDS}
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
        checked_label(self.tool, "a tool")
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
        failure_text = f"{self.approach} failed: {self.error}"
        later = "" if worked is None else f"; later {worked} worked"
        fields = {"task_id": self.task_id, "tried": self.approach, "worked": worked}
        return NewMemory(
            content=f"Asked: {self.task_id}\n{failure_text}{later}",
            parts=(
                *(Part(text, Source.AGENT) for text in fields.values() if text is not None),
                Part(self.error),
            ),
            memory_type=ATTEMPT,
            key=self.key(context),
            tags=(FAILED_ATTEMPT,),
            source=Source.TOOL,
            further={**fields, **failure_fields(self.failure)},
        )


def failure_fields(failure: Signature | None) -> dict[str, str]:
    """What a stored value says of the failure behind it; of what has but a tool, that."""
    if failure is None:
        return {}
    tool = {} if failure.tool is None else {"tool": failure.tool}
    has_text = failure.error or failure.template
    return {"signature": str(failure), **tool} if has_text else tool


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
    tenant, places = (
        context.root,
        [encode_namespace(place) for place in context.places(Tier.WORKING)],
    )
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


# ---- what a model draws from a turn ----------------------------------------------------------

_MOST_KINDS: Final = 10
"""Kinds of failures of one turn that a model is shown, the last: our own choice."""
_LONGEST: Final = 400
"""Characters of an answer that a lesson keeps as what was tried: our own choice."""


class FailureKind(NamedTuple):
    """The failures of one turn that have one signature."""

    attempts: Sequence[FailedAttempt]

    def key(self, context: MemoryContext) -> str:
        """Return the key of its lesson, whatever its words."""
        attempt = self.example
        what = (attempt.task_id, attempt.approach, attempt.error, attempt.succeeded_with or "")
        return stable_key(context, FAILED_ATTEMPT, REFLEXION, *what)

    @property
    def example(self) -> FailedAttempt:
        """Return the one that stands for all: the last, if one worked later the last of those."""
        cured = [attempt for attempt in self.attempts if attempt.succeeded_with is not None]
        return (cured or self.attempts)[-1]


@dataclass(frozen=True, kw_only=True)
class Experience:
    """What a turn went through."""

    attempts: Sequence[FailedAttempt] = ()
    asked: str = ""
    """What the user said."""
    answered: str = ""
    """What the agent answered and called."""
    before: str = ""
    """What the agent had answered before: the user may correct it."""
    failed: bool = False
    """Whether somebody judged that the turn failed."""
    trust: float = 1.0
    """How far is trusted what was heard in it, in 0…1."""

    @cached_property
    def kinds(self) -> list[FailureKind]:
        """Return its failures, those of one signature together."""
        by_signature: dict[str, list[FailedAttempt]] = {}
        for attempt in dict.fromkeys(self.attempts):
            by_signature.setdefault(str(attempt.failure), []).append(attempt)
        return [*map(FailureKind, by_signature.values())][-_MOST_KINDS:]

    @property
    def teaches(self) -> bool:
        """Tell whether there is anything that a model could draw a lesson from."""
        return bool(self.attempts or (self.failed and self.answered) or self.corrects)

    @property
    def corrects(self) -> bool:
        """Tell whether the user's message may correct an answer."""
        return bool(self.before and self.asked)

    def key(self, context: MemoryContext, number: int = 0) -> str:
        """Return the key of a lesson of the answer, whatever its words."""
        what = (self.before, self.asked, self.answered, str(number))
        return stable_key(context, FAILED_ATTEMPT, REFLEXION, *what)

    def without_lessons(self, known_keys: Container[str], context: MemoryContext) -> Experience:
        """Return what no lesson was drawn from yet, by the keys of the lessons that are known."""
        left = [kind for kind in self.kinds if kind.key(context) not in known_keys]
        rest = replace(self, attempts=[each for kind in left for each in kind.attempts])
        return replace(rest, before="", failed=False) if self.key(context) in known_keys else rest


class DrawnLesson(NamedTuple):
    """A lesson, and the kind of failure that it is of; None if it is of the answer."""

    lesson: Reflexion
    kind: FailureKind | None
    number: int = 0
    """Which of the lessons of the answer it is."""

    def to_memory(self, experience: Experience, context: MemoryContext) -> NewMemory:
        """Return it as it is stored; the user whom the turn was for owns it.

        It may hold a user's words. Without a user the project owns it.
        """
        own = None if context.user_id is None else True
        key = experience.key(context, self.number) if self.kind is None else self.kind.key(context)
        made = self.lesson.to_memory(
            context, personal=own, source=Source.AGENT, trust=experience.trust
        )
        return replace(made, key=key)


class Reflector(NamedTuple):
    """What draws lessons from a turn and what is known already, by a model of the caller's."""

    call: Callable[[Experience, Sequence[str]], list[DrawnLesson]]
    acall: Callable[[Experience, Sequence[str]], Awaitable[list[DrawnLesson]]]


class OneLesson(BaseModel):
    """One of the lessons that a model is asked for; all else of it is the turn's own."""

    attempts: list[int] = Field(default_factory=list, description=prompts.LESSON_ATTEMPTS)
    failure_reason: str = Field(description=prompts.FAILURE_REASON)
    improved_approach: str = Field(description=prompts.IMPROVED_APPROACH)
    tags: list[str] = Field(default_factory=list, description=prompts.REFLEXION_TAGS)


class Reflected(BaseModel):
    """What a model is asked for."""

    lessons: list[OneLesson] = Field(description=prompts.LESSONS_DRAWN)

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, answer: Any) -> Any:
        """Take a lesson that stands in no list for the only one, as small models answer so."""
        alone = (
            isinstance(answer, dict) and "lessons" not in answer and "improved_approach" in answer
        )
        return {"lessons": [answer]} if alone else answer


def reflector_of(model: BaseChatModel) -> Reflector:
    """A reflector that asks a chat model once; both functions raise `ModelError` without an answer.

    The reasons, the improvements and the tags are the model's; task, approach and failure stay
    the turn's. Of long texts the model is shown the head and the tail.

    Example:
        ```python
        from langmem_tiers.learn.reflexion import Experience, reflector_of

        drawn = reflector_of(model).call(Experience(attempts=[attempt]), [])
        ```
    """
    return Reflector(*make_asker(model, Reflected, _LessonRequest))


class _LessonRequest(NamedTuple):
    """A turn of which lessons are to be drawn."""

    experience: Experience
    known_lessons: Sequence[str]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        parts = "\n".join(self._parts())
        return [
            SystemMessage(prompts.REFLECT),
            HumanMessage(prompts.REFLECT_TURN.format(parts=parts)),
        ]

    def _parts(self) -> Iterator[str]:
        experience = self.experience
        if experience.corrects:
            yield prompts.REFLECT_BEFORE.format(text=_quote_for_model(experience.before))
        if experience.asked:
            yield prompts.REFLECT_ASKED.format(text=_quote_for_model(experience.asked))
        for number, kind in enumerate(experience.kinds, start=1):
            fields = {name: _quote_for_model(text) for name, text in asdict(kind.example).items()}
            times = len(kind.attempts)
            yield prompts.REFLECT_ATTEMPT.format(number=number, times=times, **fields)
        if experience.answered:
            yield prompts.REFLECT_ANSWERED.format(text=_quote_for_model(experience.answered))
        if experience.failed:
            yield prompts.REFLECT_JUDGED
        yield from (
            prompts.REFLECT_KNOWN.format(text=_quote_for_model(lesson))
            for lesson in self.known_lessons
        )

    def read(self, answer: Reflected) -> list[DrawnLesson]:
        """What an answer says; of each kind of failure the first lesson.

        Raises:
            InvalidInputError: if a lesson teaches nothing, or is of no attempt that there is.
        """
        of_kinds: dict[int, DrawnLesson] = {}
        of_answer: list[DrawnLesson] = []
        for lesson in answer.lessons:
            place = self._place(lesson)
            if place is not None and place not in of_kinds:
                kind = self.experience.kinds[place]
                of_kinds[place] = DrawnLesson(self._lesson(lesson, kind), kind)
            elif not lesson.attempts:
                of_answer.append(DrawnLesson(self._lesson(lesson, None), None, len(of_answer)))
        return [*of_kinds.values(), *of_answer]

    def _place(self, lesson: OneLesson) -> int | None:
        """The kind of failure that a lesson is of: the only one there is, if it says nothing."""
        count = len(self.experience.kinds)
        if any(not 0 < number <= count for number in lesson.attempts):
            raise InvalidInputError(f"the attempts of a lesson are numbers from 1 to {count}")
        if lesson.attempts:
            return lesson.attempts[0] - 1
        return 0 if count == 1 else None

    def _lesson(self, lesson: OneLesson, kind: FailureKind | None) -> Reflexion:
        experience = self.experience
        tried = (
            experience.answered if experience.failed or not experience.before else experience.before
        )
        task = shorten_line(" ".join(experience.asked.split()), 200) or "a turn without a question"
        attempt = None if kind is None else kind.example
        return Reflexion(
            task_id=task if attempt is None else attempt.task_id,
            original_approach=shorten_line(tried, _LONGEST)
            if attempt is None
            else attempt.approach,
            failure_reason=lesson.failure_reason.strip(),
            improved_approach=lesson.improved_approach.strip(),
            tags=tuple(lesson.tags),
            failure=None if attempt is None else attempt.failure,
        )


def _quote_for_model(text: str | None) -> str:
    return prompts.NOT_KNOWN if text is None else escape_fences(trim_middle(text))
