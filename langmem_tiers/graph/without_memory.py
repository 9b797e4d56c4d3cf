"""An agent goes on where Postgres is away or refuses, and tells what it goes on without."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

from langmem_tiers.core.errors import (
    DatabaseError,
    InvalidInputError,
    MigrationError,
    NotSetUpError,
    short,
)
from langmem_tiers.graph.node import of_state

OnError = Literal["continue", "raise"]
"""What becomes of an agent whose memory fails: it goes on without, or it fails as well."""
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
