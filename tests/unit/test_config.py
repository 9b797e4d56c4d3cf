"""Options: LangGraph's own index mapping, read strictly."""

from __future__ import annotations

import math
from typing import Any

import pytest

from langmem_tiers import ConfigurationError, Tier, TieredStore
from langmem_tiers.core.config import Distance, StoreOptions, parse_index

GOOD: dict[str, Any] = {"dims": 3, "embed": len}


@pytest.mark.parametrize(
    ("index", "near"),
    [
        ({**GOOD, "field": ["x"]}, "'fields'"),
        ({**GOOD, "distance": "l2"}, "'distance_type'"),
        ({**GOOD, "ann_index": {}}, "'ann_index_config'"),
        ({**GOOD, "ann_index_config": {"kinds": "hnsw"}}, "'kind'"),
        ({**GOOD, "ann_index_config": {"ef_constructions": 9}}, "'ef_construction'"),
        ({**GOOD, "ann_index_config": {"zzz": 9}}, "known: kind, vector_type"),
    ],
)
def test_an_unknown_option_names_the_nearest_known_one(index: dict[str, Any], near: str) -> None:
    with pytest.raises(ConfigurationError, match=near):
        parse_index(index)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dims": 3},
        {"embed": len},
        {**GOOD, "dims": 0},
        {**GOOD, "dims": -1},
        {**GOOD, "dims": "3"},
        {**GOOD, "dims": 3.0},
        {**GOOD, "dims": True},
        {**GOOD, "dims": 20_000},
        {**GOOD, "dims": 4001},
        {**GOOD, "dims": 2001, "ann_index_config": {"vector_type": "vector"}},
        {**GOOD, "fields": "text"},
        {**GOOD, "fields": [1]},
        {**GOOD, "distance_type": "hamming"},
        {**GOOD, "ann_index_config": {"kind": "ivfflat"}},
        {**GOOD, "ann_index_config": {"vector_type": "bit"}},
        {**GOOD, "ann_index_config": {"m": 1}},
        {**GOOD, "ann_index_config": {"ef_construction": 3}},
        {"language": "english; DROP"},
        {"language": 5},
    ],
)
def test_options_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        parse_index(wrong)
    with pytest.raises(ValueError, match=r"\w"):
        TieredStore("", index=wrong)


def test_the_defaults_are_the_ones_documented() -> None:
    index = parse_index(GOOD)
    assert index.fields == ("$",)
    assert index.vector is not None
    assert (index.vector.distance, index.vector.vector_type) == (Distance.COSINE, "halfvec")
    assert index.vector.ann
    assert parse_index({**GOOD, "fields": None}).fields == ("$",)
    assert parse_index({"fields": ["a"]}).vector is None
    assert StoreOptions().tier_ttl == {Tier.SHORT_TERM: 60}


def test_what_langgraph_adds_to_the_mapping_is_let_through() -> None:
    assert parse_index({**GOOD, "__tokenized_fields": []}).vector is not None


@pytest.mark.parametrize("prefix", ["X", "1a", "a-b", "a.b", 'a"', "x" * 41, "pg_x", " "])
def test_schema_prefixes_are_plain_names(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="schema_prefix"):
        TieredStore("", schema_prefix=prefix)


@pytest.mark.parametrize("minutes", [0, -1, math.nan])
def test_a_tier_lives_for_a_positive_time(minutes: float) -> None:
    with pytest.raises(ConfigurationError, match="minutes"):
        TieredStore("", short_term_ttl=minutes)


def test_exact_search_has_a_limit_of_at_least_one() -> None:
    with pytest.raises(ConfigurationError, match="exact_limit"):
        TieredStore("", exact_limit=0)


@pytest.mark.parametrize("distance", list(Distance))
def test_a_nearer_vector_scores_higher(distance: Distance) -> None:
    assert distance.score(0.1) > distance.score(0.2)
    assert Distance.COSINE.score(0.25) == 0.75
