"""Recalling, remembering and learning as LangSmith's runs, where tracing is on.

A recall is a `retriever` run whose output is documents, also within another verb, and every other
verb a `tool` run. Each hangs below the run it was called in. Vectors are in none, and of a model no
more than its name. With tracing off, a verb is called as it is, and nobody looks at its arguments.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict
from functools import cache, wraps
from inspect import iscoroutinefunction
from typing import Any, Literal, TypeAlias, TypeVar, cast

from langmem_tiers.core.memory import Recollection, as_json, recollection_fields

Verb = TypeVar("Verb", bound=Callable[..., Any])
Result = TypeVar("Result")

_VARIABLES = (
    "LANGSMITH_TRACING",
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING",
    "LANGCHAIN_TRACING_V2",
)


RunType: TypeAlias = Literal["retriever", "tool"]


def traced(run_type: RunType) -> Callable[[Verb], Verb]:
    """Show a verb of an object that has a `context` as a run, named like its blocking twin.

    One of a namespace has that before its name: `reminders.add`.

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
                process_inputs=_inputs,
                process_outputs=cast("Callable[..., dict[Any, Any]]", _outputs),
            )(verb)

        @wraps(verb)
        def call(self: Any, *args: Any, **options: Any) -> Any:
            if is_tracing():
                return run()(self, *args, langsmith_extra=_extra(self, name), **options)
            return verb(self, *args, **options)

        @wraps(verb)
        async def acall(self: Any, *args: Any, **options: Any) -> Any:
            if is_tracing():
                return await run()(self, *args, langsmith_extra=_extra(self, name), **options)
            return await verb(self, *args, **options)

        return cast("Verb", acall if awaited else call)

    return decorate


def trace_recall(
    name: str, coordinator: Any, asked: Mapping[str, Any], flow: Generator[Any, Any, Result]
) -> Generator[Any, Any, Result]:
    """Trace a flow that recalls for another verb, as a retriever run below the verb's."""
    if not is_tracing():
        return (yield from flow)
    from langsmith import trace

    with trace(name, "retriever", inputs=_inputs(asked), **_run_metadata(coordinator)) as run:
        result = yield from flow
        run.end(outputs={"output": _outputs(result)})
        return result


def is_tracing() -> bool:
    """Tell whether runs are traced; LangSmith is loaded only if its variables say so."""
    flags = map(os.environ.get, _VARIABLES)
    if "langsmith.run_helpers" not in sys.modules and "true" not in flags:
        return False
    from langsmith.utils import tracing_is_enabled

    return bool(tracing_is_enabled())


def trace_id() -> str | None:
    """Find the id of the root run of the current trace; None without one."""
    if not is_tracing():
        return None
    from langsmith import get_current_run_tree

    run = get_current_run_tree()
    return None if run is None else str(run.trace_id)


def _extra(of: Any, name: str) -> dict[str, Any]:
    """Return how a trace names and tags a verb; one of a namespace is called `reminders.add`."""
    within = getattr(of, "called", None)
    return {**_run_metadata(of), "name": name if within is None else f"{within}.{name}"}


def _run_metadata(coordinator: Any) -> dict[str, Any]:
    scope = {name: label for name, label in asdict(coordinator.context).items() if label}
    return {"metadata": scope}


def _inputs(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments to a run's inputs, without omitted ones and vectors."""
    return {
        name: _run_json(value)
        for name, value in arguments.items()
        if value is not None
        and not (isinstance(value, tuple) and not value)
        and name != "embedding"
    }


def _outputs(answer: Any) -> Any:
    """Convert a result to a run's outputs; lists of recollections become one."""
    nested = isinstance(answer, list) and any(isinstance(item, list) for item in answer)
    return _run_json([memory for each in answer for memory in each] if nested else answer)


def _run_json(value: Any) -> Any:
    """Convert a value to readable JSON.

    What is not known is named by its type and not looked into: it may hold a key or a vector, or be
    an iterator, which can be read but once.
    """
    if isinstance(value, list):
        return [_run_json(each) for each in value]
    return _document(value) if isinstance(value, Recollection) else as_json(value, _display_name)


def _document(memory: Recollection) -> dict[str, Any]:
    """Convert a recollection to the shape that LangSmith shows as a document."""
    metadata = recollection_fields(memory)
    page = metadata.pop("content")
    return {"page_content": page, "type": "Document", "metadata": metadata}


def _display_name(value: Any) -> str:
    """Name an object; a chat model by its class and its model, without its key."""
    from langchain_core.language_models import BaseChatModel  # loaded where runs are traced alone

    if isinstance(value, BaseException):
        return "".join(traceback.format_exception_only(value)).strip()
    named = type(value).__name__
    if isinstance(value, BaseChatModel):
        asks = getattr(value, "model_name", None) or getattr(value, "model", None)
        return f"{named}({asks})" if isinstance(asks, str) else named
    return str(getattr(value, "__name__", named)) if callable(value) else named
