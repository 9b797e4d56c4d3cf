"""Options: LangGraph's own index mapping, read strictly."""

from __future__ import annotations

import math
from typing import Any

import pytest

from langmem_tiers import Tier, TieredStore
from langmem_tiers.core.config import StoreOptions, parse_index
from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.core.vectors import Distance

GOOD: dict[str, Any] = {"dims": 3, "embed": len}


def test_an_unknown_option_names_the_nearest_known_one() -> None:
    for near, option in (
        ("'distance_type'", {"distance": "l2"}),
        ("'kind'", {"ann_index_config": {"kinds": "hnsw"}}),
        ("known: kind, vector_type", {"ann_index_config": {"zzz": 9}}),
    ):
        with pytest.raises(ConfigurationError, match=near):
            parse_index({**GOOD, **option})


def test_options_that_cannot_work_are_refused() -> None:
    wrong: Any
    for wrong in (
        *({"dims": 3}, {"embed": len}, {"language": "english; DROP"}, {"language": 5}),
        *({**GOOD, "dims": dims} for dims in (0, -1, "3", 3.0, True, 4001)),
        {**GOOD, "dims": 2001, "ann_index_config": {"vector_type": "vector"}},
        *({**GOOD, "fields": fields} for fields in ("text", [1])),
        {**GOOD, "distance_type": "hamming"},
        *(
            {**GOOD, "ann_index_config": each}
            for each in ({"kind": "ivfflat"}, {"vector_type": "bit"}, {"m": 1})
        ),
    ):
        with pytest.raises(ConfigurationError):
            TieredStore("", index=wrong)
    for option, value in (
        *(("schema_prefix", one) for one in ("X", "1a", "a-b", 'a"', "x" * 41, "pg_x", " ")),
        *(("short_term_ttl", minutes) for minutes in (0, -1, math.nan)),
        ("exact_limit", 0),
    ):
        with pytest.raises(ConfigurationError, match=option if "ttl" not in option else "minutes"):
            TieredStore("", **{option: value})  # type: ignore[arg-type]


def test_the_defaults_are_the_ones_documented() -> None:
    index = parse_index(GOOD)
    assert index.fields == ("$",)
    assert index.vector is not None
    assert (index.vector.distance, index.vector.vector_type) == (Distance.COSINE, "halfvec")
    assert index.vector.ann
    assert parse_index({**GOOD, "fields": None}).fields == ("$",)
    assert parse_index({"fields": ["a"]}).vector is None
    assert parse_index({**GOOD, "__tokenized_fields": []}).vector is not None  # LangGraph's own
    assert StoreOptions().tier_ttl == {Tier.SHORT_TERM: 60}


@pytest.mark.parametrize("distance", list(Distance))
def test_a_nearer_vector_scores_higher(distance: Distance) -> None:
    assert distance.score(0.1) > distance.score(0.2)
    assert Distance.COSINE.score(0.25) == 0.75
