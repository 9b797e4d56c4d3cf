"""How a turn asks its sources, in order, whatever they are: flows, functions, or daemons."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from langmem_tiers.core.answering import answer_awaited
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.values import storable
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.turn.fragment import Fragment, Section
from langmem_tiers.turn.layout import Layout, Stage


def filled(
    layout: Layout,
    sources: Mapping[str, Any],
    prompt: str,
    told: Mapping[str, Any],
    memory: MemoryCoordinator,
) -> Flow[list[tuple[Stage, Section]]]:
    """What the sources of a layout answer, in its order, each told what the earlier ones did.

    A source has `remember(prompt, metadata)`, whose answer may be awaited, and may have an
    `aremember`; or it has a `flow`, which is given the turn's memory as well. It answers a text, a
    `Section`, or None for nothing. `metadata` holds the turn's `mode`, `filters`, `messages` and
    the stage's `options`, and under `sections` what every earlier stage answered, by name.
    """
    sections: dict[str, Section] = {}
    for stage in layout.stages:
        about = {"options": stage.options, "title": stage.title, "sections": dict(sections)}
        source = sources[stage.source]
        with naming(stage.source):
            sections[stage.source] = yield from asked(
                stage.source, source, prompt, {**told, **about}, memory
            )
    return [(stage, sections[stage.source]) for stage in layout.stages]


def asked(
    name: str, source: Any, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
) -> Flow[Section]:
    """What a source answers, as a section."""
    if callable(getattr(source, "flow", None)):
        answer = yield from source.flow(prompt, metadata, memory)
    else:
        verb = getattr(source, "remember", None)
        averb = getattr(source, "aremember", None) or verb
        answer = yield Ask(
            partial(answer_of, verb or averb, prompt, metadata),
            partial(answer_awaited, averb, prompt, metadata),
        )
    return section_of(answer, name, metadata["title"])


def section_of(answer: Any, name: str, title: str) -> Section:
    """An answer as a section; text is data, and a heading of its own goes.

    Raises:
        InvalidTypeError: for what is neither text, nor a section, nor nothing.
    """
    if answer is None:
        return Section()
    if isinstance(answer, Section):
        return answer
    if isinstance(answer, str):
        text = storable(answer).strip().removeprefix(title).strip()
        why = "what its source answered"
        return Section((Fragment(text=text, source=name, rationale=why),) if text else ())
    if isinstance(answer, Mapping) and "items" in answer:
        return Section(tuple(items_of(answer, name, "what its source answered")))
    raise InvalidTypeError(
        f"the source {name!r} answers a text, a Section or None, not {type(answer).__name__}"
    )


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


@contextmanager
def naming(source: str) -> Iterator[None]:
    """What a source raises goes on, with a note that names the source."""
    try:
        yield
    except Exception as error:  # a user's source can raise anything; it goes on with a note
        error.add_note(f"raised by the source {source!r} of the turn")
        raise


def answer_of(verb: Any, *given: Any) -> Any:
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


def checked_parameters(name: str, verb: Callable[..., Any]) -> None:
    """Refuse a source's verb that cannot be told the prompt and the metadata.

    Raises:
        InvalidTypeError: for one of other parameters.
    """
    try:
        signature = inspect.signature(verb)
    except (TypeError, ValueError):  # of what is not written in Python, nothing is known
        return
    try:
        signature.bind("", {})
    except TypeError as error:
        raise InvalidTypeError(
            f"the source {name!r} takes (prompt, metadata), not {signature}"
        ) from error
