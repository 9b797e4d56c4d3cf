"""The turns of a session, and the words of a turn and of those around it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_tiers import MemoryCoordinator, TieredStore
from tests.support.bm25 import Document, bm25, of_postgres
from tests.support.coordinating import coordinator
from tests.support.opening import text_index

SEEDED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_tenants = (f"tenant-{n}" for n in count())


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    """A coordinator in the midst of a session."""
    return coordinator(store, project_id="billing", session_id="chat")


def turns(url: str) -> dict[str, int | None]:
    """The turn of each memory by its key."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT key, turn FROM memory.memories").fetchall()
    return dict(rows)


def said(*names: str, speaker: str = "Ada", **fields: Any) -> list[dict[str, Any]]:
    return [
        {"content": f"about {name}", "key": name, "speaker": speaker, **fields} for name in names
    ]


# Numbering


def test_turns_are_numbered_by_the_order_of_the_batch_and_late_ones_follow(
    memory: MemoryCoordinator, url: str
) -> None:
    memory.store_many(said("z", "a", "m"))
    memory.store_many(said("b", speaker="Ben"))
    late = memory.store("about something late", speaker="Ada").key
    assert turns(url) == {"z": 1, "a": 2, "m": 3, "b": 4, late: 5}


def test_what_was_said_has_a_turn_in_its_session_and_all_else_in_the_order_of_storing(
    store: TieredStore, url: str
) -> None:
    coordinator(store, session_id="chat").store_many(
        [{"content": "a fact", "key": "fact"}, *said("a"), {"content": "more", "key": "more"}]
    )
    coordinator(store).store_many(said("no session"))
    for project in ("one", "two"):
        for session in ("x", "y"):
            here = coordinator(store, project_id=project, session_id=session)
            here.store_many(said(f"{project}-{session}-1", f"{project}-{session}-2"))

    found = turns(url)
    fact, a, more, alone = (found.pop(key) or 0 for key in ("fact", "a", "more", "no session"))
    assert a == 1
    assert more - fact == 1
    assert alone - more == 1  # every coordinator goes on counting, in any session
    assert fact > 1_000
    assert len(found) == 8
    assert all(str(turn) == key[-1] for key, turn in found.items())


def test_a_turn_is_kept_given_or_stored_again_and_the_others_follow_it(
    memory: MemoryCoordinator, url: str
) -> None:
    memory.store_many([*said("seventh", turn=7), *said("next", "after")])
    memory.store_many(said("last"))
    memory.store_many(said("between", turn=4))
    memory.store_many(said("next", speaker="Ben"))
    given_ = {"seventh": 7, "next": 8, "after": 9, "last": 10, "between": 4}
    assert turns(url) == given_
    memory.store_many(said("d"))
    assert (turns(url)["d"] or 0) > 10


def test_concurrent_writers_of_one_session_never_share_a_turn(url: str) -> None:
    with (
        TieredStore(url, index=text_index()) as one,
        TieredStore(url, index=text_index()) as other,
        ThreadPoolExecutor(8) as pool,
    ):
        writers = [coordinator(store, session_id="chat") for store in (one, other)]

        def write(n: int) -> None:
            writers[n % 2].store_many(said(*(f"{n}-{i}" for i in range(n % 3 + 1))))

        list(pool.map(write, range(24)))
    found = [turn or 0 for turn in turns(url).values()]
    assert sorted(found) == list(range(1, len(found) + 1))
    kept = turns(url)
    for n in range(24):
        mine = [kept[f"{n}-{i}"] or 0 for i in range(n % 3 + 1)]
        assert mine == list(range(mine[0], mine[0] + len(mine)))


# The evidence

WORDS = ["kiwi", "plum", "fig", "lime", "pear", "melon"]
TEXTS = st.dictionaries(
    st.sampled_from(WORDS), st.integers(1, 20) | st.integers(1, 3), min_size=1, max_size=5
)
SPOKEN = st.tuples(TEXTS, st.sampled_from(["Ada", "Ben", "user", None]), st.sampled_from("xy"))


def written(counts: dict[str, int]) -> str:
    """A text in which the words stand as often as said, one word after the other in turn."""
    most = max(counts.values())
    return " ".join(word for n in range(most) for word, times in counts.items() if n < times)


@SEEDED
@given(
    spoken=st.lists(SPOKEN, min_size=1, max_size=14),
    asked=st.lists(st.sampled_from([*WORDS, "Ada", "Ben", "user", "cherry"]), min_size=1),
)
def test_the_words_of_turns_score_as_bm25_says(
    store: TieredStore, spoken: list[tuple[dict[str, int], str | None, str]], asked: list[str]
) -> None:
    memory = coordinator(store, next(_tenants))
    memory.store_many(
        {"content": written(counts), "speaker": speaker, "session_id": session, "key": f"{i:02}"}
        for i, (counts, speaker, session) in enumerate(spoken)
    )
    documents = list[Document]()
    for counts, speaker, session in spoken:
        earlier = sum(one.session == session and one.turn is not None for one in documents)
        documents.append(Document(counts, session, earlier + 1 if speaker else None))
    named = {speaker.lower() for _, speaker, _ in spoken if speaker and speaker != "user"}
    words = [word.lower() for word in asked if word.lower() not in named]
    expected = bm25(documents, words)

    found = of_postgres(store, lambda: memory.get_context(" ".join(asked), min_match=0))

    assert [key for key, _ in found] == [f"{i:02}" for i in range(len(spoken))]
    for (_, scores), known in zip(found, expected, strict=True):
        assert scores == pytest.approx(known, rel=1e-6)


def test_an_answer_without_the_word_is_found_by_the_question_before_it(
    store: TieredStore,
) -> None:
    memory = coordinator(store, session_id="chat")
    talk = [
        ("Ada", "Did anybody see the giraffe?"),
        ("Ben", "Near the fountain."),
        ("Ada", "Thanks."),
    ]
    memory.store_many({"speaker": speaker, "content": text} for speaker, text in talk)
    memory.store_many(f"Unrelated fact number {n} of the books" for n in range(20))
    found = memory.get_context("giraffe", limit=2)
    assert {one.content for one in found} == {"Did anybody see the giraffe?", "Near the fountain."}
    assert found[0].evidence["window"] > 0


def test_what_happened_on_a_day_that_is_named_is_found_whatever_it_says(
    store: TieredStore,
) -> None:
    memory = coordinator(store, next(_tenants), session_id="chat")
    noise = [f"What happened on the day of meeting {n}?" for n in range(120)]
    memory.store_many([{"content": one, "speaker": "Ada"} for one in noise])
    memory.store("Zebras swam.", speaker="Ben", key="swam", occurred_at="2023-05-08T23:30:00+00:00")
    asked = "What happened on the day, 8 May 2023?"
    found = [one.key for one in memory.get_context(asked, limit=10, min_match=0)]
    other = memory.get_context(asked.replace("8", "20"), limit=10, min_match=0)
    assert "swam" in found
    assert "swam" not in [one.key for one in other]


def test_talk_that_is_stored_as_text_alone_has_neighbours_and_a_list_of_facts_has_none(
    store: TieredStore,
) -> None:
    talk = coordinator(store, next(_tenants))
    talk.store_many(["Did anybody see the giraffe?", "Near the fountain.", "Thanks."])
    facts = coordinator(store, next(_tenants))
    facts.store_many(["The giraffe is old.", "The fountain is near.", "The gate is shut."])
    fountain = {
        memory: next(
            one.evidence.get("window", 0.0)
            for one in memory.get_context("giraffe", min_match=0)
            if "fountain" in one.content
        )
        for memory in (talk, facts)
    }
    assert fountain[talk] > 0
    assert fountain[facts] == 0
