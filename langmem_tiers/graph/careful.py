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
_log = logging.getLogger(__name__)


class Careful(NamedTuple):
    """How errors of memory are dealt with: the run goes on after some, and fails by all others.

    It always fails by a defect of this package.
    """

    spares: tuple[type[Exception], ...]
    fails: tuple[type[Exception], ...]
    """Those of them that it fails by all the same."""

    @contextmanager
    def __call__(self, during: str, runtime: Any, told: dict[str, str]) -> Iterator[None]:
        """Do something; where it fails and the run goes on, that is told under its name.

        It is `told`, written to the log, and to a stream of mode `custom` if there is a runtime.
        """
        try:
            yield
        except self.fails:
            raise
        except self.spares as error:
            if _is_defect(error):
                raise
            kind, text = type(error).__name__, "the run goes on without its memory (%s): %s"
            told[during] = f"{kind}: {error}"
            _log.warning(text, during, error, exc_info=not isinstance(error, TieredMemoryError))
            if runtime is not None:
                runtime.stream_writer({"memory": "failed", "during": during, "error": kind})

    def hook(self, name: str, doing: Flow[dict[str, Any]]) -> Flow[dict[str, Any]]:
        """What the hook of that name did, or its `error`."""
        told: dict[str, str] = {}
        with self(name, None, told):
            return (yield from doing)
        return {"error": told[name]}


_GOING_ON: Final = {
    # An agent is built anew for what does not mend itself.
    "continue": Careful((DatabaseError,), (NotSetUpError, MigrationError)),
    # A model's client can raise anything. Not told are mistakes of who built the graph, and what is
    # no error at all.
    "tell": Careful((Exception,), (ConfigurationError, GraphBubbleUp)),
}


def careful_of(on_error: str, goes_on: Literal["continue", "tell"]) -> Careful:
    """How the errors of an agent, or where it is to `tell` of them those of a hook, are dealt with.

    Raises:
        InvalidInputError: for what is neither that word nor `raise`.
    """
    if on_error not in {goes_on, "raise"}:
        raise InvalidInputError(f"on_error is {goes_on!r} or 'raise', not {short(on_error, 40)}")
    return Careful((), ()) if on_error == "raise" else _GOING_ON[goes_on]


def errors_of(state: Any, told: Mapping[str, str], known: object) -> dict[str, Any]:
    """What the state says of errors: those of its turn, if that is `known`, and what is `told`."""
    before: Mapping[str, str] = of_state(state, "memory_errors", None) or {}
    errors = {**(before if known else {}), **told}
    return {} if errors == before else {"memory_errors": errors}


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
