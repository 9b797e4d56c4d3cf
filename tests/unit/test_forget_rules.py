"""What repeats a text, how far forgetting reaches, and what becomes of events and states."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.forget.find import (
    CAME_OF_IT,
    REPEATS,
    TWIN,
    UNTOUCHED,
    DerivedEdge,
    Lineage,
    closure,
)
from langmem_tiers.forget.forgetting import check_checkpointer
from langmem_tiers.forget.passages import FORGOTTEN_HERE, Passages, Subject, words_of
from langmem_tiers.forget.receipt import ForgetReceipt, checked_receipt
from langmem_tiers.forget.text_places import EventRow, MemoryRow, Scrubber, StateRow
from langmem_tiers.remember.tombstones import KeyedHashes

LONG = "Quibbleton keeps the spare key under the third pot beside the back door."


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        (LONG, True),
        (LONG.upper(), True),
        (f"I heard: “{LONG}” Really?", True),
        (LONG[:40], True),
        ("the spare key under the", True),
        ("He keeps the spare key under the third pot, they say", True),
        ("the spare key", False),
        ("under a pot beside a door", False),
        ("", False),
    ],
)
def test_a_text_repeats_a_sentence_seven_words_in_a_row_or_is_a_part_of_it(
    text: str,
    repeats: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert Passages([LONG]).repeated_in(text) is repeats


def test_what_says_too_little_is_sought_in_no_other_text() -> None:
    said = Passages(["Yes.", "Thank you!"])
    assert not said.repeated_in("Yes. And thank you!")
    assert Passages(["Unquestionably."]).repeated_in("She said unquestionably so")


def test_a_sentence_that_others_say_too_is_not_forgotten() -> None:
    common = frozenset({tuple(words_of("The shop closes at six."))})
    said = Passages([f"{LONG} The shop closes at six."], common=common)
    assert not said.repeated_in("The shop closes at six.")
    assert said.repeated_in(f"The shop closes at six. {LONG}")


@given(st.lists(st.sampled_from([LONG, "The shop closes at six.", "Bye now.", "日本語です。"])))
def test_it_is_repeated_wherever_it_stands_and_by_nothing_else(parts: list[str]) -> None:
    assert Passages([LONG]).repeated_in("\n".join(parts)) is (LONG in parts)


def test_a_key_is_replaced_where_it_can_be_nothing_else() -> None:
    said = Passages([], ["tax", "ada-1815-x"])
    told = {"reasons": ["superseded by tax", "as ada-1815-x: says", "it is 'tax'"], "key": "tax"}
    assert said.scrubbed(told) == {
        "reasons": ["superseded by tax", f"as {FORGOTTEN_HERE}: says", f"it is '{FORGOTTEN_HERE}'"],
        "key": FORGOTTEN_HERE,
    }
    assert said.scrubbed("superseded by tax", related=True) == f"superseded by {FORGOTTEN_HERE}"
    assert said.scrubbed({"tax": 1, "ada-1815-x": [2, None]}) == {
        FORGOTTEN_HERE: 1,
        f"{FORGOTTEN_HERE} 2": [2, None],
    }


@pytest.mark.parametrize(
    ("value", "speaker", "meant"),
    [
        ({"content": "I met Ada Lovelace's aunt"}, None, True),
        ({"content": "I met Ada. Lovelace was out"}, None, True),
        ({"content": "x", "metadata": {"who": ["ADA  LOVELACE"]}}, None, True),
        ({"content": "x", "entities": ["ada lovelace"]}, None, True),
        ({"content": "x"}, "Ada Lovelace", True),
        ({"content": "Adam Lovelace"}, "Ada", False),
        ({"content": "Lovelace, Ada"}, None, False),
    ],
)
def test_a_subject_is_who_speaks_an_entity_or_a_phrase(
    value: dict[str, Any],
    speaker: str | None,
    meant: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert (Subject("Ada Lovelace").is_meant_by(value, speaker) is not None) is meant


def known(id_: int, content: str, state: str | None = None) -> MemoryRow:
    value = {"content": content}
    return MemoryRow(id_, "working", "_.", f"k{id_}", value, state, None, None, None)


def reached(
    asked: int, several: list[MemoryRow], kin: list[DerivedEdge]
) -> tuple[dict[int, str], ...]:
    by_id = {one.id: one for one in several}

    def said(erased: Any) -> Passages:
        return Passages(text for one in erased for text in by_id[one].texts)

    return closure({asked: "asked"}, Lineage(by_id, kin), said)


def test_what_came_from_it_alone_goes_however_far_and_in_whatever_circle() -> None:
    several = [known(number, f"Number {number} says its own.") for number in range(1, 5)]
    kin = [
        DerivedEdge(2, 1, derived=True, kind="derived"),
        DerivedEdge(3, 2, derived=True, kind="derived"),
        DerivedEdge(2, 3, derived=True, kind="derived"),
    ]
    assert reached(1, several, [*kin[:2], DerivedEdge(4, 3, derived=False, kind="promoted")]) == (
        {1: "asked", 2: CAME_OF_IT, 3: CAME_OF_IT, 4: CAME_OF_IT},
        {},
    )
    erased, suspect = reached(1, several[:3], kin)
    assert (set(erased), set(suspect)) == ({1}, {2, 3})


def test_what_came_from_others_too_goes_if_it_repeats_it_and_is_suspect_if_not() -> None:
    several = [
        known(1, LONG),
        known(2, "The shop closes at six."),
        known(3, f"{LONG} The shop closes at six."),
        known(4, LONG.lower()),
        known(5, "It all fits."),
        known(6, "And so on."),
    ]
    kin = [
        DerivedEdge(one, source, derived=True, kind="derived")
        for one in (3, 4, 5)
        for source in (1, 2)
    ]
    assert reached(1, several, [*kin, DerivedEdge(6, 4, derived=True, kind="derived")]) == (
        {1: "asked", 3: REPEATS, 4: REPEATS, 6: CAME_OF_IT},
        {5: UNTOUCHED},
    )


def test_twins_go_and_what_was_there_before_a_reinforcement_is_suspect() -> None:
    several = [
        known(1, LONG),
        known(2, LONG, "consolidated"),
        known(3, "Pots are red. They are old."),
        known(4, "Pots are red. They are old."),
        known(5, "Other words."),
    ]
    kin = [
        DerivedEdge(1, 2, derived=False, kind="merged"),
        DerivedEdge(3, 1, derived=True, kind="reinforced"),
        DerivedEdge(3, 4, derived=True, kind="promoted"),
        DerivedEdge(3, 5, derived=True, kind="promoted"),
    ]
    erased, suspect = reached(1, several, kin)
    assert erased == {1: "asked", 2: TWIN}
    assert suspect == {3: UNTOUCHED}
    assert reached(3, several, kin) == ({3: "asked", 4: TWIN}, {})


def scrubber(**options: Any) -> Scrubber:
    given = {"erased": frozenset({1, 2}), "passages": Passages([LONG], ["k1"])}
    return Scrubber(**{**given, **options})


def test_events_about_what_goes_alone_go_and_others_name_it_no_more() -> None:
    judge = scrubber().without
    assert judge(EventRow("e", "derived", 1, None, {})) is None
    assert judge(EventRow("e", "merged", 1, 2, {})) is None
    other = EventRow("e", "promoted", 3, 4, {"reasons": ["fine"]})
    assert judge(other) is other
    told = {"sources": [1, 3], "versions": {"1": "x", "3": "y"}, "reasons": ["from k1, k3"]}
    assert judge(EventRow("e", "promoted", 1, 3, told)) == EventRow(
        "e",
        "promoted",
        None,
        3,
        {"sources": [3], "versions": {"3": "y"}, "reasons": [f"from {FORGOTTEN_HERE}, k3"]},
    )
    assert judge(EventRow("e", "rejected", 9, None, {"reasons": [LONG]})) is None


def test_another_users_rows_are_not_about_it() -> None:
    judge = scrubber(owner="ada")
    ben = EventRow("turn/x/1", "committed", None, None, {"user_id": "ben", "said": LONG})
    assert judge.without(ben) is ben
    assert not judge.is_state_gone(StateRow("_._.@ben.", "message", "m", {"content": LONG}))
    assert judge.is_state_gone(StateRow("_._.@ada.", "message", "m", {"content": LONG}))
    assert judge.is_state_gone(StateRow("_._.", "message", "k1", {}))
    assert StateRow("p.s%2E1.@ada.", "message", "m", {}).session == "s.1"
    assert StateRow("agent.", "goal", "g", {}).session is None


def test_all_of_a_users_turns_and_states_go() -> None:
    judge = scrubber(user="ada", turns=("t",))
    assert judge.without(EventRow("turn/t/1", "tracked", None, None, {"turn": "t"})) is None
    assert judge.without(EventRow("turn/t/2", "committed", None, None, {"user_id": "ada"})) is None
    assert judge.is_state_gone(StateRow("agent.@ada.", "spend", "2026-03-01", {"amount": 1}))


def test_hashes_are_of_a_key_and_of_what_a_text_says() -> None:
    one, other = KeyedHashes(b"a" * 32), KeyedHashes(b"b" * 32)
    assert one.of(" Tea,  HOT. ") == one.of("tea, hot")
    assert one.of("tea") != other.of("tea")
    assert one.exact("Tea") != one.exact("tea")
    assert len(one.of("tea")) == 64


def test_what_is_no_receipt_and_no_checkpointer_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no receipt"):
        ForgetReceipt.of_json({"receipt": "x"})
    with pytest.raises(InvalidInputError, match="a receipt is what"):
        checked_receipt("x")
    with pytest.raises(InvalidTypeError, match="delete_thread"):
        check_checkpointer(object())
