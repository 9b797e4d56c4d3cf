"""A run goes on where its memory fails, and tells what it goes on without."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any, Final, Literal, NamedTuple

from langmem_tiers.core.errors import (
    ConfigurationError,
    DatabaseError,
    InvalidInputError,
    MigrationError,
    NotSetUpError,
    TieredMemoryError,
    short,
)
from langmem_tiers.graph.extra import GraphBubbleUp
from langmem_tiers.graph.node import of_state
from langmem_tiers.postgres.flow import Flow

OnError = Literal["continue", "raise"]
"""What becomes of an agent whose memory fails: it goes on without, or it fails as well."""
OnHookError = Literal["tell", "raise"]
"""What becomes of an error of a hook: it is told and the run goes on, or it is raised."""
BUILT_WRONG: Final = (NotSetUpError, MigrationError)
"""What does not mend itself: it is raised in any case, to whoever built the agent."""
_log = logging.getLogger(__name__)


class Carefully(NamedTuple):
    """How the errors of the database are dealt with in an agent."""

    on_error: OnError

    @contextmanager
    def __call__(self, during: str, runtime: Any, told: dict[str, str]) -> Iterator[None]:
        """Do something that memory is for; where Postgres fails it, that is `told` and it ends.

        It is written to the log, to a stream of mode `custom`, and under what it was to do to
        `told`. Any error but those of the database is raised.
        """
        try:
            yield
        except BUILT_WRONG:
            raise
        except DatabaseError as error:
            if self.on_error == "raise":
                raise
            kind = type(error).__name__
            told[during] = f"{kind}: {error}"
            _log.warning("the agent goes on without its memory (%s): %s", during, error)
            runtime.stream_writer({"memory": "failed", "during": during, "error": kind})


def carefully(on_error: OnError) -> Carefully:
    """How errors are dealt with, checked.

    Raises:
        InvalidInputError: for what is neither `continue` nor `raise`.
    """
    if on_error not in {"continue", "raise"}:
        raise InvalidInputError(f"on_error is 'continue' or 'raise', not {short(on_error, 40)}")
    return Carefully(on_error)


def errors_of(state: Any, told: Mapping[str, str], known: object) -> dict[str, Any]:
    """What the state says of errors: those of its turn, if that is `known`, and what is `told`."""
    before: Mapping[str, str] = of_state(state, "memory_errors", None) or {}
    errors = {**(before if known else {}), **told}
    return {} if errors == before else {"memory_errors": errors}


class Careful(NamedTuple):
    """How the errors of a hook are dealt with."""

    on_error: OnHookError

    def __call__(self, name: str, doing: Flow[dict[str, Any]]) -> Flow[dict[str, Any]]:
        """Go through what a hook of that name does; what it did, or what went wrong."""
        try:
            return (yield from doing)
        except (ConfigurationError, GraphBubbleUp):
            raise  # a mistake of who built the graph, or no error at all
        except Exception as refused:  # a model's client can raise anything; no answer is lost by it
            if self.on_error == "raise" or _is_defect(refused):
                raise
            ours = isinstance(refused, TieredMemoryError)  # whose message says it all
            _log.warning(
                "the hook %r did not do all of its work: %s", name, refused, exc_info=not ours
            )
            return {"error": f"{type(refused).__name__}: {refused}"}


def _is_defect(error: Exception) -> bool:
    """Whether code of this package raised it, itself or through Python's own, and not on purpose.

    What a model's client or any other code raises is none, nor is what the machine refuses.
    """
    if isinstance(error, TieredMemoryError | OSError):
        return False
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    packages = [name.partition(".")[0] for name in modules]
    raised_by = [one for one in packages if one not in sys.stdlib_module_names]
    return raised_by[-1:] == ["langmem_tiers"]


def careful_of(on_error: OnHookError) -> Careful:
    """How errors are dealt with, checked.

    Raises:
        InvalidInputError: for what is neither `tell` nor `raise`.
    """
    if on_error not in {"tell", "raise"}:
        raise InvalidInputError(f"on_error is 'tell' or 'raise', not {short(on_error, 40)}")
    return Careful(on_error)
