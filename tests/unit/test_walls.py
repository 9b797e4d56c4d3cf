"""What is sent before statements behind the wall: whose rows they are about, once each."""

from __future__ import annotations

from typing import Any

import pytest

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.vectors import PackedVector, PackedVectors
from langmem_tiers.postgres import sql
from langmem_tiers.postgres.flow import Call
from langmem_tiers.postgres.walls import Wall
from tests.support.coded import coded

STATEMENTS = sql.statements(StoreOptions(), None, walled=True)
APPLICATION = Wall("application")
LOCK = Call("lock_keys", {"lock": 1, "buckets": [1]})


def call(name: str, **given: Any) -> Call:
    """A call with what it says, and nothing else."""
    return Call(name, {**dict.fromkeys(STATEMENTS[name].names), **given})


def several(name: str, *tenants: str, **given: Any) -> Call:
    return call(name, tenants=list(tenants), keys=[f"{one}-key" for one in tenants], **given)


def told(wall: Wall, *calls: Call) -> list[Any]:
    """What is sent: the tenants that are named, and each call with its tenants and its place."""
    sent = wall.statements_for(calls, STATEMENTS)
    return [
        one.call.params["tenant"]
        if one.place is None
        else (one.place, one.call.name, one.call.params.get("keys"))
        for one in sent
    ]


def test_each_tenant_of_a_transaction_is_named_once_and_its_calls_keep_their_order() -> None:
    calls = (LOCK, several("put", "a", "b", "a"), several("delete_vectors", "a", "b", "a"))
    assert told(APPLICATION, *calls) == [
        (0, "lock_keys", None),
        *("a", (1, "put", ["a-key", "a-key"]), (2, "delete_vectors", ["a-key", "a-key"])),
        *("b", (1, "put", ["b-key"]), (2, "delete_vectors", ["b-key"])),
    ]


def test_what_is_nobodys_stays_where_it_is_between_what_is_somebodys() -> None:
    calls = (call("get", tenant="a"), call("usual_settings"), call("get", tenant="a"))
    names = ["a", "get", "usual_settings", "a", "get"]
    assert [one if isinstance(one, str) else one[1] for one in told(APPLICATION, *calls)] == names
    assert told(APPLICATION, call("usual_settings")) == [(0, "usual_settings", None)]
    assert told(APPLICATION, several("get_many")) == ["", (0, "get_many", [])]


def test_rows_that_go_along_are_parted_and_nothing_else_is() -> None:
    packed = PackedVectors([PackedVector(b"1"), PackedVector(b"2"), PackedVector(b"3")])
    given = several("put_vectors", "a", "b", "a", embeddings=packed, fields=["x", "y", "z"])
    of_a, of_b = (
        one.call for one in APPLICATION.statements_for([given], STATEMENTS) if one.place == 0
    )
    assert [vector.data for vector in of_a.params["embeddings"]] == [b"1", b"3"]
    assert isinstance(of_b.params["embeddings"], PackedVectors)
    assert (of_a.params["fields"], of_b.params["fields"]) == (["x", "z"], ["y"])
    lives = several("put", "a", "b", tier_ttls=[1.0, 2.0], tiers=["working", "long_term"])
    parts = [one.call for one in APPLICATION.statements_for([lives], STATEMENTS) if one.place == 0]
    assert [one.params["tier_ttls"] for one in parts] == [[1.0, 2.0]] * 2
    assert [one.params["noted"] for one in parts] == [None, None]


@pytest.mark.parametrize(
    "across",
    [
        Call("sweep", {"now": None}),
        call("search_newest_everywhere"),
        call("stats", tenant=None),
        call("purge_usage"),
    ],
    ids=lambda one: one.name,
)
def test_an_application_asks_nothing_of_all_tenants_and_a_worker_does(across: Call) -> None:
    with coded("tenant_required", match=across.name.replace("_", " ")):
        APPLICATION.statements_for([LOCK, across], STATEMENTS)
    assert told(Wall("worker", "cron"), across)[0] == ""
    assert told(Wall("owner"), across) == told(Wall("worker"), across)


def test_an_owner_and_a_worker_by_login_name_nobody() -> None:
    for wall in (Wall(), Wall("worker")):
        assert told(wall, several("put", "a", "b")) == [(0, "put", ["a-key", "b-key"])]
    (named, _) = Wall("application", "web").statements_for([call("get", tenant="a")], STATEMENTS)
    assert named.call.params == {"role": "web", "tenant": "a"}


def test_every_statement_about_rows_of_tenants_names_them_or_is_known_to_cross() -> None:
    crossing = {
        name
        for name, one in STATEMENTS.items()
        if one.walled and not {"tenant", "tenants"} & set(one.names)
    }
    assert {name for name in crossing if "everywhere" not in name} == {
        *("any_lexeme", "any_vector", "expire_intentions", "forget_exposures", "largest_tenants"),
        *("purge_usage", "retire_intentions", "sweep", "sweep_gone", "sweep_recalls"),
        *("sweep_states", "sweep_turns", "tenants", "tenants_to_count"),
    }
    for name, one in STATEMENTS.items():
        assert ("tenants" in one.rows) == ("tenants" in one.names), name
