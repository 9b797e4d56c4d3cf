"""Memory types: what is built in is what is documented, and users add their own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.core.types import BUILT_IN, MemoryType, MemoryTypes, TypeRow

PAGE = Path(__file__).parents[2] / "docs" / "types.md"
NOW = datetime(2026, 5, 4, tzinfo=UTC)
SOCIAL = MemoryType(name="social", tier=Tier.LONG_TERM, title="People")


def recollection(match: float = 0.25) -> Recollection:
    return Recollection(
        key="k",
        namespace=("acme",),
        tier=Tier.LONG_TERM,
        memory_type="social",
        content="@ada likes tea",
        value={},
        created_at=NOW,
        updated_at=NOW,
        match=match,
    )


def documented() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| type |")) + 2
    rows = lines[start : lines.index("", start)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def shown(row: TypeRow) -> list[str]:
    ttl = "the tier's" if row.ttl is None else f"{row.ttl:g}"
    return [f"`{row.name}`", row.tier, ttl, f"{row.boost:g}", row.title]


def test_the_table_of_the_docs_is_the_registry() -> None:
    assert [cells[:5] for cells in documented()] == [shown(row) for row in MemoryTypes().table()]
    assert all(len(cells) == 6 and cells[5] for cells in documented())


def test_what_the_specifications_say_of_tiers_and_boosts_holds() -> None:
    types = MemoryTypes()
    in_tier = {tier: {one.name for one in types if one.tier is tier} for tier in Tier}

    assert in_tier[Tier.SHORT_TERM] == {"working"}
    assert in_tier[Tier.LONG_TERM] == {"interaction", "learning", "achievement"}
    assert {"pattern", "reflexion", "relationship"} < in_tier[Tier.WORKING]
    assert [one.name for one in types if one.boost != 1] == ["reflexion"]
    assert types.get("reflexion").boost == 1.5


def test_built_in_names_and_titles_are_unique() -> None:
    assert len({one.name for one in BUILT_IN}) == len({one.title for one in BUILT_IN}) == 12


def test_a_registered_type_is_found_listed_last_and_shown_in_the_table() -> None:
    types = MemoryTypes()
    types.register(SOCIAL)

    assert types.get("social") is SOCIAL
    assert "social" in types
    assert [*types] == [*BUILT_IN, SOCIAL]
    assert len(types) == len(BUILT_IN) + 1
    assert types.table()[-1] == ("social", Tier.LONG_TERM, None, 1.0, "People")


def test_registering_changes_no_other_registry() -> None:
    MemoryTypes().register(SOCIAL)

    assert "social" not in MemoryTypes()


def test_a_name_that_is_taken_is_refused_and_changes_nothing() -> None:
    types = MemoryTypes()

    with pytest.raises(InvalidInputError, match=r"'skill' is registered already.*replace=True"):
        types.register(MemoryType(name="skill", tier=Tier.LONG_TERM, title="Mine"))

    assert [*types] == [*BUILT_IN]


def test_replacing_a_type_keeps_its_place() -> None:
    types = MemoryTypes()
    mine = MemoryType(name="pattern", tier=Tier.LONG_TERM, title="Mine")
    types.register(mine, replace=True)

    assert types.get("pattern") is mine
    assert [one.name for one in types] == [one.name for one in BUILT_IN]


def test_types_may_be_registered_while_iterating() -> None:
    types = MemoryTypes([SOCIAL])
    for one in types:
        types.register(dataclasses.replace(one, name=f"{one.name}-2"))

    assert [one.name for one in types] == ["social", "social-2"]


def test_an_unknown_type_names_the_nearest_known_one_and_how_to_register() -> None:
    with pytest.raises(InvalidInputError, match=r"did you mean 'reflexion'\?.*register"):
        MemoryTypes().get("reflection")


def test_a_type_unlike_any_other_lists_the_known_ones_and_how_to_register() -> None:
    with pytest.raises(InvalidInputError, match=r"known: pattern, reflexion, .*register"):
        MemoryTypes().get("zzz")


@pytest.mark.parametrize("name", [None, 5, ["pattern"], ""])
def test_what_is_no_name_is_no_known_type(name: Any) -> None:
    assert name not in MemoryTypes()
    with pytest.raises(InvalidInputError, match="no memory type"):
        MemoryTypes().get(name)


@given(st.from_regex(r"[a-z][a-z0-9_-]*", fullmatch=True))
def test_every_lower_case_identifier_is_a_name(name: str) -> None:
    assert MemoryType(name=name, tier=Tier.WORKING, title="T").name == name


@pytest.mark.parametrize("name", ["", "Social", "1st", "_x", "-x", "a b", "a.b", "é", "a\n", None])
def test_other_names_are_refused(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="name is lower-case"):
        MemoryType(name=name, tier=Tier.WORKING, title="T")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"title": " "}, "title"),
        ({"tier": "forever"}, "short_term, working, long_term"),
        ({"tier": None}, "short_term, working, long_term"),
        ({"ttl": 0}, "TTL"),
        ({"ttl": math.nan}, "TTL"),
        ({"ttl": True}, "TTL"),
        ({"ttl": "60"}, "TTL"),
        ({"ttl": math.inf}, "TTL"),
        ({"boost": 0}, "boost"),
        ({"boost": -1.5}, "boost"),
        ({"boost": None}, "boost"),
        ({"boost": math.inf}, "boost"),
    ],
)
def test_a_type_that_cannot_work_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        dataclasses.replace(SOCIAL, **wrong)


def test_a_type_may_name_its_tier_as_text() -> None:
    tier: Any = "short_term"

    assert MemoryType(name="kept", tier=tier, title="Kept").tier is Tier.SHORT_TERM


def test_what_the_caller_gave_goes_over_what_the_extractor_found() -> None:
    def extract(content: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"tags": ["found"], "importance": len(content) / 10, "of": sorted(given)}

    social = dataclasses.replace(SOCIAL, extract=extract)
    given = {"tags": ["given"], "speaker": None}

    assert social.fields("hello", given) == {
        "tags": ["given"],
        "speaker": None,
        "importance": 0.5,
        "of": ["speaker", "tags"],
    }
    assert given == {"tags": ["given"], "speaker": None}


def test_an_extractor_cannot_change_what_the_caller_gave() -> None:
    def extract(_: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        assert isinstance(given, dict)
        given.clear()
        return {}

    assert dataclasses.replace(SOCIAL, extract=extract).fields("x", {"a": 1}) == {"a": 1}


def test_without_an_extractor_the_fields_are_the_given_ones() -> None:
    assert SOCIAL.fields("hello", {"tags": ["a"]}) == {"tags": ["a"]}


def test_an_extractor_that_returns_no_mapping_is_refused() -> None:
    def extract(_content: str, _given: Mapping[str, Any]) -> Any:
        return ["tags"]

    with pytest.raises(InvalidInputError, match="extractor of memory type 'social'"):
        dataclasses.replace(SOCIAL, extract=extract).fields("x", {})


def test_what_a_users_function_raises_reaches_the_caller() -> None:
    def extract(_content: str, _given: Mapping[str, Any]) -> Mapping[str, Any]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        dataclasses.replace(SOCIAL, extract=extract).fields("x", {})


def test_a_scorer_replaces_the_match() -> None:
    def score(memory: Recollection, query: str) -> float:
        return 1.0 if query in memory.content else 0.0

    social = dataclasses.replace(SOCIAL, score=score)

    assert social.match(recollection(), "tea") == 1.0
    assert social.match(recollection(), "coffee") == 0.0
    assert SOCIAL.match(recollection(0.25), "coffee") == 0.25


@pytest.mark.parametrize("wrong", [1.01, -0.01, math.nan, None, "1", True])
def test_a_score_outside_of_0_to_1_is_refused(wrong: Any) -> None:
    def score(_memory: Recollection, _query: str) -> Any:
        return wrong

    with pytest.raises(InvalidInputError, match="scorer of memory type 'social'"):
        dataclasses.replace(SOCIAL, score=score).match(recollection(), "tea")
