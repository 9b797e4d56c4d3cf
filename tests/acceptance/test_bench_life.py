"""What the benchmark of a life says: what was shown is held beside what it should be."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.data import records
from benchmarks.life import measure, wrong_with

SHOWN = "- 2026-03-04 user: I moved to Porto\n- 2026-01-02 user: I live in Lisbon"


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
    kinds = Counter(one["kind"] for one in scenarios)
    assert set(kinds.values()) == {9}


def test_an_agent_is_shown_on_later_days_what_it_was_told() -> None:
    (one,) = (one for one in records("life") if one["id"] == "own-a-001")
    asked = list(measure([one], "benchmarks.life_agent"))
    assert len(asked) == sum("ask" in event for event in one["events"])
    assert sum(not one.wrong for one in asked) > len(asked) / 2
