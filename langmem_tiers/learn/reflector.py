"""What a model draws from a turn: lessons, from what failed, was judged or was corrected in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field, model_validator

from langmem_tiers.core import prompts
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Source
from langmem_tiers.core.reading import shortened
from langmem_tiers.core.structured import trimmed, way_to_ask
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.learn.reflexion import FAILED_ATTEMPT, FailedAttempt, Reflexion, stable_key
from langmem_tiers.recall.fence import quoted
from langmem_tiers.remember.new import NewMemory

_MOST_KINDS: Final = 10
"""Kinds of failures of one turn that a model is shown, the last: our own choice."""
_LONGEST: Final = 400
"""Characters of an answer that a lesson keeps as what was tried: our own choice."""


class Kind(NamedTuple):
    """The failures of one turn that have one signature."""

    attempts: Sequence[FailedAttempt]

    def key(self, context: MemoryContext) -> str:
        """Return the key of its lesson, whatever its words."""
        one = self.shown
        what = (one.task_id, one.approach, one.error, one.succeeded_with or "")
        return stable_key(context, FAILED_ATTEMPT, REFLEXION, *what)

    @property
    def shown(self) -> FailedAttempt:
        """Return the one that stands for all: the last, if one worked later the last of those."""
        known = [one for one in self.attempts if one.succeeded_with is not None]
        return (known or self.attempts)[-1]


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
    def kinds(self) -> list[Kind]:
        """Return its failures, those of one signature together."""
        found: dict[str, list[FailedAttempt]] = {}
        for one in dict.fromkeys(self.attempts):
            found.setdefault(str(one.failure), []).append(one)
        return [*map(Kind, found.values())][-_MOST_KINDS:]

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

    def without(self, known: Container[str], context: MemoryContext) -> Experience:
        """Return what no lesson was drawn from yet, by the keys of the lessons that are known."""
        left = [one for one in self.kinds if one.key(context) not in known]
        rest = replace(self, attempts=[each for one in left for each in one.attempts])
        return replace(rest, before="", failed=False) if self.key(context) in known else rest


class Drawn(NamedTuple):
    """A lesson, and the kind of failure that it is of; None if it is of the answer."""

    lesson: Reflexion
    kind: Kind | None
    number: int = 0
    """Which of the lessons of the answer it is."""

    def to_memory(self, told: Experience, context: MemoryContext) -> NewMemory:
        """Return it as it is stored; the user whom the turn was for owns it.

        It may hold a user's words. Without a user the project owns it.
        """
        own = None if context.user_id is None else True
        key = told.key(context, self.number) if self.kind is None else self.kind.key(context)
        made = self.lesson.to_memory(context, personal=own, source=Source.AGENT, trust=told.trust)
        return replace(made, key=key)


class Reflector(NamedTuple):
    """What draws lessons from a turn and what is known already, by a model of the caller's."""

    call: Callable[[Experience, Sequence[str]], list[Drawn]]
    acall: Callable[[Experience, Sequence[str]], Awaitable[list[Drawn]]]


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
    def _listed(cls, said: Any) -> Any:
        """Take a lesson that stands in no list for the only one, as small models answer so."""
        alone = isinstance(said, dict) and "lessons" not in said and "improved_approach" in said
        return {"lessons": [said]} if alone else said


def reflector_of(model: BaseChatModel) -> Reflector:
    """A reflector that asks a chat model once; both functions raise `ModelError` without an answer.

    The reasons, the improvements and the tags are the model's; task, approach and failure stay
    the turn's. Of long texts the model is shown the head and the tail.

    Example:
        ```python
        from langmem_tiers.learn.reflector import Experience, reflector_of

        drawn = reflector_of(model).call(Experience(attempts=[attempt]), [])
        ```
    """
    return Reflector(*way_to_ask(model, Reflected, _Turn))


class _Turn(NamedTuple):
    """A turn of which lessons are to be drawn."""

    told: Experience
    known: Sequence[str]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        parts = "\n".join(self._parts())
        return [
            SystemMessage(prompts.REFLECT),
            HumanMessage(prompts.REFLECT_TURN.format(parts=parts)),
        ]

    def _parts(self) -> Iterator[str]:
        told = self.told
        if told.corrects:
            yield prompts.REFLECT_BEFORE.format(text=_shown(told.before))
        if told.asked:
            yield prompts.REFLECT_ASKED.format(text=_shown(told.asked))
        for number, kind in enumerate(told.kinds, start=1):
            said = {name: _shown(text) for name, text in asdict(kind.shown).items()}
            times = len(kind.attempts)
            yield prompts.REFLECT_ATTEMPT.format(number=number, times=times, **said)
        if told.answered:
            yield prompts.REFLECT_ANSWERED.format(text=_shown(told.answered))
        if told.failed:
            yield prompts.REFLECT_JUDGED
        yield from (prompts.REFLECT_KNOWN.format(text=_shown(one)) for one in self.known)

    def read(self, answer: Reflected) -> list[Drawn]:
        """What an answer says; of each kind of failure the first lesson.

        Raises:
            InvalidInputError: if a lesson teaches nothing, or is of no attempt that there is.
        """
        of_kinds: dict[int, Drawn] = {}
        of_answer: list[Drawn] = []
        for one in answer.lessons:
            place = self._place(one)
            if place is not None and place not in of_kinds:
                kind = self.told.kinds[place]
                of_kinds[place] = Drawn(self._lesson(one, kind), kind)
            elif not one.attempts:
                of_answer.append(Drawn(self._lesson(one, None), None, len(of_answer)))
        return [*of_kinds.values(), *of_answer]

    def _place(self, one: OneLesson) -> int | None:
        """The kind of failure that a lesson is of: the only one there is, if it says nothing."""
        several = len(self.told.kinds)
        if any(not 0 < number <= several for number in one.attempts):
            raise InvalidInputError(f"the attempts of a lesson are numbers from 1 to {several}")
        if one.attempts:
            return one.attempts[0] - 1
        return 0 if several == 1 else None

    def _lesson(self, one: OneLesson, kind: Kind | None) -> Reflexion:
        told = self.told
        tried = told.answered if told.failed or not told.before else told.before
        task = shortened(" ".join(told.asked.split()), 200) or "a turn without a question"
        attempt = None if kind is None else kind.shown
        return Reflexion(
            task_id=task if attempt is None else attempt.task_id,
            original_approach=shortened(tried, _LONGEST) if attempt is None else attempt.approach,
            failure_reason=one.failure_reason.strip(),
            improved_approach=one.improved_approach.strip(),
            tags=tuple(one.tags),
            failure=None if attempt is None else attempt.failure,
        )


def _shown(text: str | None) -> str:
    return prompts.NOT_KNOWN if text is None else quoted(trimmed(text))
