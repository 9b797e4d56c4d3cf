"""Who an agent is: four queries, side by side, to a mapping or to somebody's own daemon."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from langchain_core.runnables.config import ContextThreadPoolExecutor

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.turn.fragment import Fragment, Section

QUERIES: Final = (
    ("What is my core identity and charter?", False),
    ("What mandates apply to my current mode?", True),
    ("What capabilities do I have?", True),
    ("What governance rules apply?", False),
)
"""What an identity is asked, and whether it is told the current mode."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the agent is and what it may do: four queries, which run side by side.

    Of a mapping, or of an object with `query(question, metadata)`. Each answers
    `{"items": [{"id", "content", "rationale"}], "effective_at": …}`.
    """

    answers: Any

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Section]:
        """The answers, in the order of the queries; an item that two of them name stands once."""
        del prompt, memory
        mode = metadata["mode"]
        if isinstance(self.answers, Mapping):
            found = _of_mapping(self.answers, mode)
        else:
            query = self.answers.query
            asked = [(text, {"current_mode": mode} if moded else {}) for text, moded in QUERIES]
            found = yield Ask(lambda: _side_by_side(query, asked), lambda: _gathered(query, asked))
        items: dict[str, Fragment] = {}
        for (question, _), answer in zip(QUERIES, found, strict=True):
            for one in items_of(answer, "identity", question):
                items.setdefault(one.key or one.text, one)
        return Section(tuple(items.values()))


def items_of(answer: Any, name: str, question: str) -> Iterator[Fragment]:
    """The items that a daemon answered, each with its id, version and rationale.

    Raises:
        InvalidTypeError: for an answer of another form.
    """
    if not isinstance(answer, Mapping) or not isinstance(answer.get("items", ()), Sequence):
        raise InvalidTypeError(
            f"{name} answers {question!r} with {{'items': […], 'effective_at': …}}, not "
            f"{short(answer)}"
        )
    effective = answer.get("effective_at")
    version = effective.isoformat() if isinstance(effective, datetime) else str(effective or "")
    for place, one in enumerate(answer.get("items", ())):
        if not isinstance(one, Mapping) or not isinstance(one.get("content"), str):
            raise InvalidTypeError(
                f"an item of {name} is a mapping with id, content and rationale, not {short(one)}"
            )
        key = None if one.get("id") is None else str(one["id"])
        why = str(one.get("rationale") or question)
        yield Fragment.own(f"- {one['content']}", name, why, rank=place, key=key, version=version)


def _of_mapping(answers: Mapping[str, Any], mode: str | None) -> list[Any]:
    """What a mapping answers to the four queries; `mandates` may be one for each mode."""
    mandates = answers.get("mandates", ())
    if isinstance(mandates, Mapping):
        always, current = mandates.get("*", ()), () if mode is None else mandates.get(mode, ())
        mandates = (*always, *current)
    found = (answers.get("identity", ()), mandates, answers.get("capabilities", ()))
    listed = (*found, answers.get("governance", ()))
    effective = answers.get("effective_at")
    return [{"items": [_item(one) for one in each], "effective_at": effective} for each in listed]


def _item(one: Any) -> Any:
    return {"content": one} if isinstance(one, str) else one


def _side_by_side(query: Any, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    with naming("identity"), ContextThreadPoolExecutor(len(asked)) as pool:
        waiting = [pool.submit(called, query, text, given) for text, given in asked]
        return [one.result() for one in waiting]


async def _gathered(query: Any, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    with naming("identity"):
        return list(await asyncio.gather(*(awaited(query, text, given) for text, given in asked)))


@contextmanager
def naming(source: str) -> Iterator[None]:
    """What a source raises goes on, with a note that names the source."""
    try:
        yield
    except Exception as error:  # a user's source can raise anything; it goes on with a note
        error.add_note(f"raised by the source {source!r} of the turn")
        raise


def called(verb: Any, *given: Any) -> Any:
    """What a function answers at once.

    Raises:
        InvalidInputError: if it must be awaited.
    """
    answer = verb(*given)
    if isinstance(answer, Future):
        return answer.result()
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise InvalidInputError(
            "a source is async and cannot be asked here: use `async with` and "
            "aassemble_context, or give it a blocking twin, `remember`"
        )
    return answer


async def awaited(verb: Any, *given: Any) -> Any:
    """What a function answers; one that blocks does so in a thread."""
    if inspect.iscoroutinefunction(verb):
        return await verb(*given)
    answer = await asyncio.to_thread(verb, *given)
    if isinstance(answer, Future):
        return await asyncio.wrap_future(answer)
    return await answer if inspect.isawaitable(answer) else answer
