"""What the benchmark of a life says: what was shown is held beside what it should be."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.data import records
from benchmarks.life import measure, wrong_with

SHOWN = "2026-03-04:\n- I moved to Porto\n2026-01-02:\n- I live in Lisbon"


@pytest.mark.parametrize(
    ("checks", "wrong"),
    [
        ({"shown": ["porto", "lisbon"], "tokens": 20}, []),
        ({"shown": ["Faro"]}, ["lacks 'Faro'"]),
        ({"hidden": ["Faro"]}, []),
        ({"hidden": ["Lisbon"]}, ["shows 'Lisbon'"]),
        ({"any": ["Faro", "Porto"]}, []),
        ({"any": ["Faro"]}, ["has none of ['Faro']"]),
        ({"order": [["Porto", "Lisbon"]]}, []),
        ({"order": [["Lisbon", "Porto"]]}, ["'Porto' before 'Lisbon'"]),
        ({"order": [["Faro", "Porto"]]}, ["lacks 'Faro'"]),
        ({"nothing": True}, ["shows something where nothing is needed"]),
        ({"tokens": 10}, ["more than 10 tokens"]),
    ],
)
def test_what_is_shown_is_held_beside_what_it_should_be(checks: object, wrong: list[str]) -> None:
    assert wrong_with(SHOWN, checks) == wrong  # type: ignore[arg-type]
    assert wrong_with("", {"nothing": True}) == []


def test_every_scenario_can_be_passed_by_what_was_said_in_it() -> None:
    scenarios = records("life")
    assert len({one["id"] for one in scenarios}) == len(scenarios)
    for one in scenarios:
        times = [event["at"] for event in one["events"]]
        assert times == sorted(times)
        said = ""
        for event in one["events"]:
            known = said.casefold()
            for needed in (*event.get("shown", ()), *(a for a, _ in event.get("order", ()))):
                assert needed.casefold() in known, (one["id"], needed)
            said += f"{event.get('say', event.get('ask', ''))}\n{event.get('reply', '')}\n"


def test_three_hands_wrote_three_scenarios_of_each_kind_and_a_fourth_those_that_were_few() -> None:
    written: dict[str, Counter[str]] = {}
    for one in records("life"):
        written.setdefault(one["writer"], Counter())[one["kind"]] += 1

    fourth = written.pop("life-d")
    assert fourth == {"correct": 8, "intention": 8, "noise": 8, "retract": 12}
    kinds = {kind for several in written.values() for kind in several}
    assert len(kinds) == 16
    assert written == {f"life-{hand}": dict.fromkeys(kinds, 3) for hand in "abc"}


def test_an_agent_is_shown_on_later_days_what_it_was_told() -> None:
    (one,) = (one for one in records("life") if one["id"] == "own-a-001")
    asked = list(measure([one], "benchmarks.life_agent"))
    assert len(asked) == sum("ask" in event for event in one["events"])
    assert sum(not one.wrong for one in asked) > len(asked) / 2
