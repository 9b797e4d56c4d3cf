"""Recalling and remembering as LangSmith's runs, where tracing is on.

A recall is a `retriever` run whose output is documents, remembering a `tool` run. Each hangs
below the run it was called in. Vectors are in none. With tracing off, a verb is called as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, is_dataclass
from functools import cache, wraps
from inspect import iscoroutinefunction
from typing import Any, Literal, TypeVar, cast

from langmem_tiers.documents import facts
from langmem_tiers.memory import Recollection

Verb = TypeVar("Verb", bound=Callable[..., Any])

_VARIABLES = (
    "LANGSMITH_TRACING",
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING",
    "LANGCHAIN_TRACING_V2",
)


def traced(run_type: Literal["retriever", "tool"]) -> Callable[[Verb], Verb]:
    """Show a verb of an object that has a `context` as a run, named like its blocking twin.

    Example:
        ```python
        @traced("tool")
        async def adelete_memory(self, key: str) -> bool: ...
        ```
    """

    def decorate(verb: Verb) -> Verb:
        awaited = iscoroutinefunction(verb)
        name = verb.__name__.removeprefix("a") if awaited else verb.__name__

        @cache
        def run() -> Callable[..., Any]:
            from langsmith import traceable

            return traceable(
                run_type=run_type,
                name=name,
                process_inputs=_inputs,
                process_outputs=cast("Callable[..., dict[Any, Any]]", _outputs),
            )(verb)

        return cast("Verb", _awaited(verb, run) if awaited else _blocking(verb, run))

    return decorate


def untraced() -> AbstractContextManager[Any]:
    """Within it nothing is traced: what runs has a run of its own already."""
    if not tracing():
        return nullcontext()
    from langsmith import tracing_context

    return tracing_context(enabled=False)


def tracing() -> bool:
    """Whether runs are traced here; LangSmith is loaded only if its variables say so."""
    if "langsmith.run_helpers" not in sys.modules and not any(
        os.environ.get(name) == "true" for name in _VARIABLES
    ):
        return False
    from langsmith.utils import tracing_is_enabled

    return bool(tracing_is_enabled())


def _blocking(verb: Callable[..., Any], run: Callable[[], Callable[..., Any]]) -> Any:
    @wraps(verb)
    def call(self: Any, *given: Any, **options: Any) -> Any:
        if not tracing():
            return verb(self, *given, **options)
        return run()(self, *given, langsmith_extra=_scope(self), **options)

    return call


def _awaited(verb: Callable[..., Awaitable[Any]], run: Callable[[], Callable[..., Any]]) -> Any:
    @wraps(verb)
    async def call(self: Any, *given: Any, **options: Any) -> Any:
        if not tracing():
            return await verb(self, *given, **options)
        return await run()(self, *given, langsmith_extra=_scope(self), **options)

    return call


def _scope(coordinator: Any) -> dict[str, Any]:
    scope = {name: label for name, label in asdict(coordinator.context).items() if label}
    return {"metadata": scope}


def _inputs(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, less what was left out."""
    return {name: _plain(one) for name, one in given.items() if one is not None and one != ()}


def _outputs(answer: Any) -> Any:
    found = list(_documents(answer)) if isinstance(answer, list) else []
    return found or _plain(answer)


def _documents(answer: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Recollections in the shape that LangSmith shows as documents; of lists, all of theirs."""
    for one in answer:
        if isinstance(one, Recollection):
            metadata = facts(one)
            yield {
                "page_content": metadata.pop("content"),
                "type": "Document",
                "metadata": metadata,
            }
        elif isinstance(one, list):
            yield from _documents(one)


def _plain(one: Any) -> Any:
    if is_dataclass(one) and not isinstance(one, type):
        return asdict(one)
    if isinstance(one, list):
        return [_plain(each) for each in one]
    return getattr(one, "__name__", one) if callable(one) else one
