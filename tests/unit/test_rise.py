"""What of a session becomes the project's, and why."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.consolidate.policy import RisePolicy
from langmem_tiers.consolidate.rise import Note, rises

POLICY = RisePolicy()
NOTES = st.builds(Note, st.none() | st.floats(0, 1), st.integers(0, 9), st.booleans())


def test_importance_accesses_or_the_end_of_its_session_suffice_alone() -> None:
    assert rises(Note(importance=0.6), POLICY) == "importance >= 0.6"
    assert rises(Note(access_count=3), POLICY) == "accesses >= 3"
    assert rises(Note(session_ended=True), POLICY) == "its session ended"


def test_a_note_of_a_running_session_stays_unless_it_has_shown_something() -> None:
    assert rises(Note(importance=0.59, access_count=2), POLICY) is None


def test_an_importance_that_nobody_told_is_never_enough() -> None:
    assert rises(Note(), RisePolicy(min_importance=0)) is None


@settings(derandomize=True)
@given(NOTES, st.floats(0, 1), st.integers(0, 9))
def test_more_of_anything_never_holds_a_note_back(
    note: Note, importance: float, reads: int
) -> None:
    more = Note(max(note.importance or 0, importance), note.access_count + reads, note[2])
    if rises(note, POLICY):
        assert rises(more, POLICY)
        assert rises(note._replace(session_ended=True), POLICY)
