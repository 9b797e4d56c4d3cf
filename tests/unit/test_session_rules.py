"""What of a session's notes is significant, and how the rest is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.consolidation.judges import Concept, Summary
from langmem_tiers.consolidation.session_end import (
    DIGEST_LENGTH,
    LEARNED,
    NO_REASON,
    PINNED,
    RECALLED,
    SHORT_LENGTH,
    STATED,
    KeptMemory,
    choose_kept,
    notes_by_project,
)
from langmem_tiers.consolidation.steps import StoredMemory
from tests.support.stored import NOON, stored


def note(number: int, content: str = "Reading mail", **given: Any) -> StoredMemory:
    """A note of the agent, a minute after the one before it."""
    given.setdefault("source", "agent")
    return stored(number, content, memory_type="working", session_id="chat", **given)


def left(notes: Sequence[StoredMemory], summary: Summary | None = None) -> list[KeptMemory]:
    """What a session leaves in its one project."""
    (home,) = notes_by_project("chat", notes)
    return choose_kept(home, summary)[0]


def facts(notes: Sequence[StoredMemory], summary: Summary | None = None) -> dict[str, str | None]:
    """What it leaves as facts, and why."""
    return {one.value["content"]: one.reason for one in left(notes, summary) if one.reason}


def digest(notes: Sequence[StoredMemory], summary: Summary | None = None) -> str:
    """What it leaves as a digest, its parts one after another."""
    return "\n".join(one.value["content"] for one in left(notes, summary) if not one.reason)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (note(1, importance=0.7), "importance >= 0.7"),
        (note(1, pinned=True), PINNED),
        (note(1, pinned=True, importance=0.9), PINNED),
        (note(1, importance=0.69, access_count=99), None),
        (note(1, source="user"), None),
        (note(1, pinned="yes"), None),
        (note(1, importance=True), None),
        (note(1, pinned=True, state="superseded"), None),
        (note(1, importance=1.0, state="consolidated"), None),
    ],
)
def test_a_note_is_lifted_as_somebody_pinned_it_or_told_that_it_is_important(
    one: StoredMemory, why: str | None
) -> None:
    assert facts([one]) == ({one.value["content"]: why} if why else {})


def test_a_note_is_lifted_that_was_recalled_in_more_than_one_turn_and_no_other() -> None:
    notes = [note(1), note(2, "Sorting mail"), note(3, "reading mail.")]
    (home,) = notes_by_project("chat", notes, frozenset({3}))
    keeps, passed_over = choose_kept(home)
    assert [(one.value["content"], one.reason) for one in keeps[:-1]] == [
        ("Reading mail", RECALLED)
    ]
    assert passed_over == [NO_REASON]


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (note(1, source="user"), STATED),
        (note(1, source="agent"), None),
        (note(1, "Is the timeout of the mailer 30s?", source="user"), None),
        (note(1, "Where? \N{FULLWIDTH QUESTION MARK} ", source="user"), None),
        (note(1, "Where is it? The template lives in the finance folder.", source="user"), STATED),
        (note(1, "Where is it?", source="user", importance=0.8), "importance >= 0.7"),
    ],
)
def test_the_hook_of_the_specification_lifts_what_the_user_stated_too(
    one: StoredMemory, why: str | None
) -> None:
    (home,) = notes_by_project("chat", [one])
    keeps, _ = choose_kept(home, stated=True)
    assert [each.reason for each in keeps] == [*([why] if why else []), None]
    by_a_model, _ = choose_kept(home, Summary("It was mended.", ()), stated=True)
    assert STATED not in [each.reason for each in by_a_model]


def test_what_is_noted_again_is_lifted_once_with_what_all_of_it_says() -> None:
    notes = [
        note(1, "Reading mail", tags=["a"], importance=0.2),
        note(2, "Sorting mail", tags=["b"]),
        note(3, "reading mail.", tags=["c", "a"], importance=0.8),
    ]
    (one, _) = left(notes)
    assert one.reason == "importance >= 0.7"
    assert one.value == {
        "content": "Reading mail",
        "memory_type": "semantic",
        "session_id": "chat",
        "source": "agent",
        "tags": ["a", "c"],
        "importance": 0.8,
        "occurred_at": "2026-03-01T12:01:00+00:00",
        "metadata": {"category": "fact", "promoted_from": "working"},
    }
    assert "reading mail." in digest(notes)


def test_a_fact_keeps_all_that_its_note_says_but_its_turn() -> None:
    own = {"speaker": "Anna", "turn": 3, "entities": ["mail"], "metadata": {"n": 1}, "mood": "good"}
    (one, _) = left([note(1, "It is so", importance=0.9, **own)])
    assert one.value["metadata"] == {"category": "fact", "n": 1, "promoted_from": "working"}
    assert {name: one.value.get(name) for name in ("speaker", "turn", "entities", "mood")} == {
        "speaker": "Anna", "turn": None, "entities": ["mail"], "mood": "good",
    }  # fmt: skip


def test_a_note_of_any_shape_is_kept() -> None:
    odd = [
        note(1, importance="high", tags="loose", metadata="none", speaker=7),
        note(2)._replace(value={"memory_type": "working", "text": "By its text"}),
        note(3)._replace(value={"memory_type": "working", "n": 1}),
        note(4, access_count=9)._replace(value={"memory_type": "working", "n": [2]}),
    ]
    told = digest(odd)
    assert all(text in told for text in ("Reading mail", "By its text", '"n": 1', '"n": [2]'))


def test_a_digest_tells_in_order_who_noted_what_when() -> None:
    notes = [
        note(2, "Second\nof two lines", speaker="Anna"),
        note(1, "First"),
        note(3, "Long before", occurred_at=NOON - timedelta(days=1)),
    ]
    assert digest(notes).splitlines() == [
        "Session chat, 2026-02-28 12:00 to 2026-03-01 12:02 UTC:",
        "- 2026-02-28 12:00 Long before",
        "- 2026-03-01 12:01 First",
        "- 2026-03-01 12:02 Anna: Second",
        "of two lines",
    ]
    told = digest([note(1, "word " * 50, importance=1.0)]).splitlines()[1]
    assert told.endswith("word…")  # of what is kept as a fact
    assert len(told) < SHORT_LENGTH + 20


def test_what_never_was_so_is_not_told() -> None:
    notes = [note(1, "Right"), note(2, "Wrong", state="retracted", importance=1.0)]
    assert "Wrong" not in digest(notes)
    assert facts(notes) == {}
    assert notes_by_project("chat", notes[1:]) == []


def test_notes_belong_to_the_project_of_their_namespace_else_to_the_one_they_name() -> None:
    found = notes_by_project(
        "chat",
        [
            note(1),
            note(2, namespace="billing."),
            note(3, namespace="", project_id="ship.ping"),
            note(4, namespace=""),
        ],
    )
    assert [(one.namespace, len(one.notes)) for one in found] == [
        ("_.", 1), ("billing.", 2), ("ship%2Eping.", 1),
    ]  # fmt: skip


def test_what_a_model_learned_is_kept_beside_the_notes_it_comes_from() -> None:
    notes = [
        note(1, "The mailer hangs", tags=["a"], agent_id="one"),
        note(2, "Raised a limit", tags=["b"], agent_id="two", importance=0.4),
        note(3, "The timeout of the mailer is 30s", importance=0.7),
        note(4, "It works now", source="user"),
    ]
    summary = Summary(
        "It was mended.",
        (
            Concept("A mailer that hangs needs a limit", (0, 1)),
            Concept("the timeout of the mailer is 30s!", (2,)),
            Concept("a mailer that hangs needs a limit.", (1,)),
        ),
    )
    assert facts(notes, summary) == {
        "The timeout of the mailer is 30s": "importance >= 0.7",
        "A mailer that hangs needs a limit": LEARNED,
    }
    (learned,) = [one.value for one in left(notes, summary) if one.reason == LEARNED]
    assert learned == {
        "content": "A mailer that hangs needs a limit",
        "memory_type": "semantic",
        "session_id": "chat",
        "occurred_at": "2026-03-01T12:02:00+00:00",
        "tags": ["a", "b"],
        "importance": 0.4,
        "metadata": {
            "category": "fact",
            "notes": ["The mailer hangs", "Raised a limit"],
            "promoted_from": "working",
        },
    }
    assert digest(notes, summary).splitlines()[1] == "It was mended."


texts = st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=12)


@settings(deadline=None, max_examples=40)
@given(texts, st.randoms(use_true_random=False))
def test_each_note_is_told_in_full_and_the_same_notes_leave_the_same(
    contents: list[str], random: Any
) -> None:
    notes = [
        note(n, one, importance=[None, 0.9][n % 2], pinned=n % 3 == 0)
        for n, one in enumerate(contents)
    ]
    found = left(notes)
    shuffled = [*notes]
    random.shuffle(shuffled)
    assert left(shuffled) == found
    told = [one.value["content"] for one in found]
    assert all(any(content in one for one in told) for content in contents)
    keys = {one.key for one in found}
    assert len(keys) == len(found)
    later = [one._replace(updated_at=NOON + timedelta(days=1)) for one in notes]
    assert not keys & {one.key for one in left(later)}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 2 * DIGEST_LENGTH), min_size=1, max_size=12))
def test_no_part_of_a_digest_is_longer_than_it_need_be(sizes: list[int]) -> None:
    notes = [note(n, f"{n}" + "x" * size) for n, size in enumerate(sizes)]
    parts = [one.value["content"] for one in left(notes) if one.reason is None]
    slack = 200
    assert all(len(one) <= DIGEST_LENGTH + slack or one.count("\n- ") == 1 for one in parts)
    assert sum(one.count("\n- ") for one in parts) == len(sizes)
