"""Make attempts and lessons of failures: what was tried, what cured it, and what was learned.

No model decides which later call cured a failure. A rule compares the two calls, not their meaning:
the later one has to be another try of the same call, and nothing else can have been the cure. A
failed attempt is evidence. A person draws a lesson from it, or a model that is shown a turn.
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
from langmem_tiers.core.chat_models import make_asker, trim_middle
from langmem_tiers.core.checks import checked_label, normalised_tags
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Source, Tier, encode_namespace
from langmem_tiers.core.settings import BOOKKEEPING
from langmem_tiers.core.texts import head_and_tail, shorten_line
from langmem_tiers.core.types import ATTEMPT, REFLEXION
from langmem_tiers.learning.signature import Signature, signature
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.prompt_text import escape_fences
from langmem_tiers.remember.new_memory import ContentPart, NewMemory, checked_text
from langmem_tiers.store.write import LOCK, lock_call

# ---- cures, and failures that pass by themselves ---------------------------------------------


class TriedCall(NamedTuple):
    """A tool call and its result."""

    tool: str
    arguments: Mapping[str, Any]
    error: str | None
    """None if it worked."""
    step: int
    """Position of the message that made the call. Calls of one message do not know each other's
    results."""


def find_cure(place: int, calls: Sequence[TriedCall]) -> int | None:
    """Return the position of the call that cured the failed one at `place`; None if it is unclear.

    It has to be the first call, of any tool, that worked after the failure: a call between may have
    been the cure. It has the same tool, was made once the failure was known, and shares an
    argument. A failure that passes by itself has no cure: its error names such a condition (see
    `is_transient_failure`), or the same call worked later.
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
    """Tell whether two calls share an argument that names something; a switch names nothing."""
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
"""Names of the system errors that pass by themselves, with their numbers."""
_NUMBERS: Final = "|".join(map(str, _SYSTEM_ERRORS.values()))
_PHRASES: Final = (
    # names in the SQL standard and Postgres
    *("serialization failure", "lock not available", "query canceled", "too many connections"),
    *("cannot connect now", "connection exception", "connection failure", "deadlock"),
    *("deadline exceeded", "rate limit", "timed out"),
    # messages of resolvers (glibc, BSD), SQLite, Postgres, libpq, Node, dpkg and nginx
    *("temporary failure in name resolution", "name or service not known"),
    *("nodename nor servname provided", "could not serialize access", "could not obtain lock"),
    *("server closed the connection", "socket hang up", "could not get lock"),
    "service temporarily unavailable",
    *(HTTPStatus(code).phrase for code in (408, 425, 429, 500, 502, 503, 504)),
    *(os.strerror(number) for name, number in _SYSTEM_ERRORS.items() if hasattr(errno, name)),
)
_SQLSTATE: Final = r"08\w{3}|40001|40P01|53300|55P03|57014|57P0[123]"
_PARTS: Final = "Connect|NameResolution|BrokenPipe|Throttled|Throttling"
"""Parts of the names of classes of such errors."""
_CODES: Final = r"408|425|429|5\d\d"


def _condition_pattern(condition: str) -> str:
    """Return a pattern for a condition in words, in snake_case or in CamelCase."""
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
    """Tell whether the text of a failure names a condition that passes by itself."""
    failure = head_and_tail(failure)
    return bool(_IDENTIFIER.search(failure) or _CONDITION.search(failure))


# ---- attempts and lessons --------------------------------------------------------------------

PATTERN = "pattern"
"""The memory type of an approach that worked."""
FAILED_ATTEMPT = "failed-attempt"
"""The tag of failed attempts."""
_LESSON_FIELDS: Final = ("task_id", "original_approach", "failure_reason", "improved_approach")
LESSON_FROM = "Lesson from "
"""Beginning of the text of a lesson."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflexion:
    """A lesson learned from a failure, with the fields of the specification.

    Raises:
        InvalidInputError: if a field is empty or no text.

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
    """Signature of the failure. The same failure recalls the lesson."""

    def __post_init__(self) -> None:
        """Check that the lesson has all its texts."""
        for name in _LESSON_FIELDS:
            checked_text(getattr(self, name), name)
        if not isinstance(self.failure, Signature | None):
            raise InvalidTypeError(f"failure is a Signature, not {type(self.failure).__name__}")
        object.__setattr__(self, "tags", tuple(normalised_tags(self.tags)))

    def to_memory_format(self) -> str:
        """Return the lesson as the text that is stored, embedded, and shown to a model."""
        return (
            f"{LESSON_FROM}{self.task_id}\nTried: {self.original_approach}\n"
            f"Failed because: {self.failure_reason}\nDo instead: {self.improved_approach}"
        )

    def to_memory(self, context: MemoryContext, **further: Any) -> NewMemory:
        """Return a new memory of the lesson. The same lesson has the same key."""
        fields = {name: getattr(self, name) for name in _LESSON_FIELDS}
        return NewMemory(
            content=self.to_memory_format(),
            parts=tuple(map(ContentPart, fields.values())),
            memory_type=REFLEXION,
            key=stable_key(context, REFLEXION, *fields.values()),
            tags=self.tags,
            further={**fields, **failure_fields(self.failure)},
            **further,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """A failed approach with its error, and the approach that succeeded later, if any.

    Raises:
        InvalidInputError: if a field is empty or no text that can be stored.
    """

    task_id: str
    approach: str
    error: str
    """The error as it was reported."""
    tool: str | None = None
    succeeded_with: str | None = None
    """The approach that worked at last."""

    def __post_init__(self) -> None:
        """Check that the attempt has its texts."""
        for name in ("task_id", "approach", "error"):
            checked_text(getattr(self, name), name)
        checked_label(self.tool, "a tool")
        if self.succeeded_with is not None:
            checked_text(self.succeeded_with, "succeeded_with")

    @property
    def failure(self) -> Signature:
        """Return the signature of the failure."""
        return signature(self.error, tool=self.tool)

    def key(self, context: MemoryContext) -> str:
        """Return the key of the attempt's memory."""
        return stable_key(context, FAILED_ATTEMPT, self.task_id, self.approach, self.error)

    def to_memory(self, context: MemoryContext) -> NewMemory:
        """Return a new memory of the attempt. The same attempt has the same key."""
        worked = self.succeeded_with
        failure_text = f"{self.approach} failed: {self.error}"
        later = "" if worked is None else f"; later {worked} worked"
        fields = {"task_id": self.task_id, "tried": self.approach, "worked": worked}
        return NewMemory(
            content=f"Asked: {self.task_id}\n{failure_text}{later}",
            parts=(
                *(ContentPart(text, Source.AGENT) for text in fields.values() if text is not None),
                ContentPart(self.error),
            ),
            memory_type=ATTEMPT,
            key=self.key(context),
            tags=(FAILED_ATTEMPT,),
            source=Source.TOOL,
            further={**fields, **failure_fields(self.failure)},
        )


def failure_fields(failure: Signature | None) -> dict[str, str]:
    """Return the fields of a value that describe its failure; without a message only the tool."""
    if failure is None:
        return {}
    tool = {} if failure.tool is None else {"tool": failure.tool}
    has_text = failure.error or failure.template
    return {"signature": str(failure), **tool} if has_text else tool


def stable_key(context: MemoryContext, *parts: str) -> str:
    """Return a key that is the same for the same parts in the same project."""
    whose = [context.tenant, context.project_id or ""]
    return str(uuid5(NAMESPACE_OID, json.dumps([*whose, *parts])))


def record_lessons(
    pairs: Sequence[tuple[str, str]], context: MemoryContext, options: StoreOptions, now: datetime
) -> Flow[None]:
    """Record that failed attempts live on in their lessons, by pairs of keys.

    The lesson of a retracted attempt becomes suspect.
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


# ---- lessons that a model draws --------------------------------------------------------------

_MOST_KINDS: Final = 10
"""The most kinds of failures of a turn that a model is shown, the last ones: our own choice."""
_LONGEST: Final = 400
"""The most characters of an answer that a lesson keeps as its approach: our own choice."""


class FailureKind(NamedTuple):
    """The failures of a turn with the same signature."""

    attempts: Sequence[FailedAttempt]

    def key(self, context: MemoryContext) -> str:
        """Return the key of its lesson, independent of the lesson's words."""
        attempt = self.example
        what = (attempt.task_id, attempt.approach, attempt.error, attempt.succeeded_with or "")
        return stable_key(context, FAILED_ATTEMPT, REFLEXION, *what)

    @property
    def example(self) -> FailedAttempt:
        """Return the attempt that represents all: the last cured one, else the last."""
        cured = [attempt for attempt in self.attempts if attempt.succeeded_with is not None]
        return (cured or self.attempts)[-1]


@dataclass(frozen=True, kw_only=True)
class Experience:
    """The question, answers and failures of a turn."""

    attempts: Sequence[FailedAttempt] = ()
    asked: str = ""
    """The user's message."""
    answered: str = ""
    """The agent's answer and calls."""
    before: str = ""
    """The agent's answer before the message, which the user may correct."""
    failed: bool = False
    """True if somebody judged that the turn failed."""
    trust: float = 1.0
    """Trust of what the turn heard, in 0…1."""

    @cached_property
    def kinds(self) -> list[FailureKind]:
        """Return the failures by signature, the last kinds."""
        by_signature: dict[str, list[FailedAttempt]] = {}
        for attempt in dict.fromkeys(self.attempts):
            by_signature.setdefault(str(attempt.failure), []).append(attempt)
        return [*map(FailureKind, by_signature.values())][-_MOST_KINDS:]

    @property
    def teaches(self) -> bool:
        """Tell whether a model could draw a lesson from the turn."""
        return bool(self.attempts or (self.failed and self.answered) or self.corrects)

    @property
    def corrects(self) -> bool:
        """Tell whether the user's message may correct an answer."""
        return bool(self.before and self.asked)

    def key(self, context: MemoryContext, number: int = 0) -> str:
        """Return the key of a lesson of the answer, independent of the lesson's words."""
        what = (self.before, self.asked, self.answered, str(number))
        return stable_key(context, FAILED_ATTEMPT, REFLEXION, *what)

    def without_lessons(self, known_keys: Container[str], context: MemoryContext) -> Experience:
        """Return the experience without the parts whose lessons are known, by their keys."""
        left = [kind for kind in self.kinds if kind.key(context) not in known_keys]
        rest = replace(self, attempts=[each for kind in left for each in kind.attempts])
        return replace(rest, before="", failed=False) if self.key(context) in known_keys else rest


class DrawnLesson(NamedTuple):
    """A lesson and its kind of failure; None for a lesson of the answer."""

    lesson: Reflexion
    kind: FailureKind | None
    number: int = 0
    """Position among the lessons of the answer."""

    def to_memory(self, experience: Experience, context: MemoryContext) -> NewMemory:
        """Return a new memory of the lesson.

        The user of the turn owns it, since it may have the user's words; without one the project.
        """
        own = None if context.user_id is None else True
        key = experience.key(context, self.number) if self.kind is None else self.kind.key(context)
        made = self.lesson.to_memory(
            context, personal=own, source=Source.AGENT, trust=experience.trust
        )
        return replace(made, key=key)


class Reflector(NamedTuple):
    """Functions that draw lessons from a turn, given the known ones, with a model of the caller."""

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
        """Accept a single lesson without a list, which small models return."""
        alone = (
            isinstance(answer, dict) and "lessons" not in answer and "improved_approach" in answer
        )
        return {"lessons": [answer]} if alone else answer


def reflector_of(model: BaseChatModel) -> Reflector:
    """Return a reflector that asks a chat model once. It raises `ModelError` without an answer.

    The model writes the reasons, improvements and tags; task, approach and failure are those of
    the turn. The model is shown the head and the tail of long texts.

    Example:
        ```python
        from langmem_tiers.learning.reflexion import Experience, reflector_of

        drawn = reflector_of(model).call(Experience(attempts=[attempt]), [])
        ```
    """
    return Reflector(*make_asker(model, Reflected, _LessonRequest))


class _LessonRequest(NamedTuple):
    """A request to draw lessons from a turn."""

    experience: Experience
    known_lessons: Sequence[str]

    def messages(self) -> list[BaseMessage]:
        """Return the messages to the model."""
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
        """Return the lessons of an answer, the first for each kind of failure.

        Raises:
            InvalidInputError: if a lesson lacks a text, or names an unknown attempt.
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
        """Return the position of a lesson's kind of failure; by default that of the only kind."""
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
