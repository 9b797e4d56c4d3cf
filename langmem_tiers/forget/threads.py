"""The threads of a checkpointer, of LangGraph's kind, that go along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.postgres.flow import Ask, Flow


def check_checkpointer(given: object) -> None:
    """Refuse what cannot delete a thread.

    Raises:
        InvalidTypeError: then.
    """
    if given is not None and not (
        callable(getattr(given, "delete_thread", None))
        and callable(getattr(given, "adelete_thread", None))
    ):
        raise InvalidTypeError(
            "checkpointer is a LangGraph checkpointer, which has delete_thread, not "
            f"{type(given).__name__}"
        )


def delete_threads(checkpointer: Any, threads: Sequence[str]) -> Flow[None]:
    """Delete threads with all their checkpoints; those that are not there are none."""
    for one in threads:
        yield Ask(
            partial(checkpointer.delete_thread, one), partial(checkpointer.adelete_thread, one)
        )
