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
from langmem_tiers.core.types import BUILT_IN, MemoryType, MemoryTypes

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
    table = PAGE.read_text(encoding="utf-8").partition("| type |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.split("\n")[2:]]


def shown(row: MemoryType) -> list[str]:
    ttl = "the tier's" if row.ttl is None else f"{row.ttl:g}"
    return [f"`{row.name}`", row.tier, ttl, f"{row.boost:g}", row.title]


def test_the_table_of_the_docs_is_the_registry() -> None:
    assert [cells[:5] for cells in documented()] == [shown(row) for row in MemoryTypes()]
    assert all(len(cells) == 6 and cells[5] for cells in documented())


def test_what_the_specifications_say_of_tiers_and_boosts_holds() -> None:
    types = MemoryTypes()
    assert {one.name for one in types if one.tier is Tier.SHORT_TERM} == {"working"}
    in_long_term = {one.name for one in types if one.tier is Tier.LONG_TERM}
    assert in_long_term == {"interaction", "learning", "achievement"}
    assert {one.name: one.boost for one in types if one.boost != 1} == {"reflexion": 1.5}


def test_a_registered_type_is_found_listed_last_and_replaced_in_its_place() -> None:
    types = MemoryTypes()
    types.register(SOCIAL)
    assert [*types] == [*BUILT_IN, SOCIAL]
    assert "social" not in MemoryTypes()

    mine = MemoryType(name="pattern", tier=Tier.LONG_TERM, title="Mine")
    with pytest.raises(InvalidInputError, match=r"'pattern' is registered already.*replace=True"):
        types.register(mine)
    types.register(mine, replace=True)
    assert types.get("pattern") is mine
    assert [one.name for one in types] == [one.name for one in (*BUILT_IN, SOCIAL)]


def test_an_unknown_type_names_the_nearest_or_all_and_how_to_register() -> None:
    no_name: Any
    for no_name, said in (
        ("reflection", "did you mean 'reflexion'"),
        ("zzz", "known: pattern"),
        (None, "no"),
    ):
        with pytest.raises(InvalidInputError, match=rf"{said}.*register"):
            MemoryTypes().get(no_name)


@given(st.from_regex(r"[a-z][a-z0-9_-]*", fullmatch=True))
def test_a_name_is_a_lower_case_identifier(name: str) -> None:
    assert MemoryType(name=name, tier="working", title="T").tier is Tier.WORKING  # type: ignore[arg-type]
    wrong: Any
    for wrong in ("", name.upper(), f"1{name}", f"-{name}", f"{name} b", f"{name}.b", f"{name}\n"):
        with pytest.raises(InvalidInputError, match="name is lower-case"):
            MemoryType(name=wrong, tier=Tier.WORKING, title="T")


def test_a_type_that_cannot_work_is_refused() -> None:
    several: list[tuple[dict[str, Any], str]] = [
        ({"title": " "}, "title"),
        ({"tier": "forever"}, "short_term, working, long_term"),
        *(({"ttl": ttl}, "TTL") for ttl in (0, math.nan, "60")),
        *(({"boost": boost}, "boost") for boost in (0, None, math.inf)),
    ]
    for wrong, said in several:
        with pytest.raises(InvalidInputError, match=said):
            dataclasses.replace(SOCIAL, **wrong)


def test_what_the_caller_gave_goes_over_what_the_extractor_found() -> None:
    def extract(content: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        of = sorted(given)
        assert isinstance(given, dict)
        given.clear()
        return {"tags": ["found"], "importance": len(content) / 10, "of": of}

    given = {"tags": ["given"], "speaker": None}
    found = dataclasses.replace(SOCIAL, extract=extract).fields("hello", given)
    assert found == {**given, "importance": 0.5, "of": ["speaker", "tags"]}
    assert given == {"tags": ["given"], "speaker": None} == SOCIAL.fields("hello", given)


def test_a_scorer_replaces_the_match_and_what_functions_return_is_checked() -> None:
    answers: list[Any] = [1.0]
    social = dataclasses.replace(
        SOCIAL, score=lambda *_: answers[-1], extract=lambda *_: answers[-1]
    )
    assert social.match(recollection(0.25), "tea") == 1.0
    assert SOCIAL.match(recollection(0.25), "tea") == 0.25
    with pytest.raises(InvalidInputError, match="extractor of memory type 'social'"):
        social.fields("x", {})
    for answer in (1.01, -0.01, math.nan, None, "1", True):
        answers.append(answer)
        with pytest.raises(InvalidInputError, match="scorer of memory type 'social'"):
            social.match(recollection(), "tea")


@pytest.mark.parametrize("wrong", [{"tier": -1}, {"ttl": -1.0}, {"boost": -1.0}, {"title": " "}])
def test_what_is_wrong_with_a_type_of_an_endless_name_is_said_in_short(
    wrong: dict[str, Any],
) -> None:
    with pytest.raises(InvalidInputError, match="type") as refused:
        dataclasses.replace(SOCIAL, name="x" * 500_000, **wrong)
    assert len(str(refused.value)) < 200


def test_a_message_that_repeats_what_was_given_keeps_its_beginning_and_its_end() -> None:
    said = str(InvalidInputError(f"the source {'x' * 500_000} is none: choose another name"))
    assert len(said) < 2_000
    assert said.startswith("the source xxx")
    assert said.endswith("xxx is none: choose another name")
    assert str(InvalidInputError("it is short")) == "it is short"
