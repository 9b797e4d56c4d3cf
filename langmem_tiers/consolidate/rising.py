"""Whether what belongs to a session becomes the project's."""

from __future__ import annotations

from typing import NamedTuple

from langmem_tiers.consolidate.policy import RisePolicy


class Note(NamedTuple):
    """A memory in short_term, as far as its rise depends on it."""

    importance: float | None = None
    """In 0…1; None if nobody told."""
    access_count: int = 0
    session_ended: bool = False


def rises(note: Note, policy: RisePolicy) -> str | None:
    """Why a note moves to working, in words that many share; None if it stays.

    The first of these that holds: it is important, it was read often, its session has ended. An
    importance that nobody told is never enough.
    """
    if note.importance is not None and note.importance >= policy.min_importance:
        return f"importance >= {policy.min_importance:g}"
    if note.access_count >= policy.min_access_count:
        return f"accesses >= {policy.min_access_count}"
    return "its session ended" if note.session_ended else None
