"""What is forgotten leaves no trace, nothing else changes, and the plan says what happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.types.json import Jsonb

from langmem_tiers import MemoryCoordinator, TieredStore, create_consolidation_graph
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.forget.find import ASKED, TWIN
from langmem_tiers.forget.receipt import ForgetPlan, ForgetReceipt
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from tests.support.archives import count, execute, one
from tests.support.coordinating import Caller, coordinator
from tests.support.forgetting import (
    KEY,
    KINDS,
    MARK,
    NAME,
    SAID,
    USER,
    archived,
    converse,
    dump,
    everywhere,
    kinds,
    named,
    own,
    rows,
    traces,
)
from tests.support.opening import Clock

PROVEN = PromotionPolicy(min_access_count=0, min_age_days=0, min_projects=1)
WHAT: dict[str, dict[str, Any]] = {
    "key": {"key": KEY},
    "user": {"user": USER},
    "subject": {"subject": "xylofant maier"},
    "tenant": {"tenant": "acme"},
}
BESIDE = {"key": ("meadow", "roses", "beta"), "tenant": ("beta",)}
HELD = {
    *("memory.archived", "memory.audit", "memory.events", "memory.intentions", "memory.recalls"),
    "memory.states",
    *("memory.tenant_sizes", "public.checkpoint_blobs", "public.checkpoint_writes"),
    *("working.documents", "working.memories", "archive"),
}
"""Where traces are before."""


@pytest.mark.parametrize("kind", WHAT)
def test_after_forgetting_no_trace_is_in_any_table_archive_export_or_checkpoint(
    store: TieredStore, url: str, tmp_path: Path, kind: str
) -> None:
    cold, user = tmp_path / "cold", USER if kind == "user" else None
    everywhere(store, url, cold, user)
    memory = own(store, user if kind == "user" else None)
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        converse(saver, "chat-7", SAID)
        converse(saver, "chat-9", "roses")
        check_held(url, cold)

        keys = BESIDE.get(kind, ("roses", "beta"))
        beside, before = rows(url, keys), dump(url)
        plan = memory.forget(**WHAT[kind], plan=True)
        assert dump(url) == before, "a plan changes nothing"
        receipt = memory.forget(**WHAT[kind], checkpointer=saver)

        check_gone(url, cold, receipt)
        left = {each.config["configurable"]["thread_id"] for each in saver.list(None)}
        assert left == (set() if kind == "tenant" else {"chat-9"})
        saver.delete_thread("chat-9")

    check_as_planned(plan, receipt)
    if kind != "tenant":
        assert rows(url, keys) == beside
        assert any("The hay is in the barn." in line for line in archived(cold)) == (kind != "user")
    assert memory.admin.verify_forgotten(json.loads(json.dumps(receipt.to_json()))), "it is gone"
    assert any("Beta has a memory." in row for row in dump(url)["working.memories"])


def check_held(url: str, cold: Path) -> None:
    """There is a trace of every kind, and everywhere."""
    assert set(traces(url, cold)) >= HELD
    assert {one: many for one, many in kinds(url, named(url)).items() if not many} == {}
    assert len(KINDS) + len(("archives", "checkpoints")) >= 29


def check_gone(url: str, cold: Path, receipt: ForgetReceipt) -> None:
    """There is none of any kind, and nowhere."""
    assert traces(url, cold) == []
    assert {one: many for one, many in kinds(url, list(receipt.ids)).items() if many} == {}
    assert MARK not in json.dumps(receipt.to_json()).lower()


def check_as_planned(plan: ForgetPlan, receipt: ForgetReceipt) -> None:
    """What happened is what the plan said."""
    assert plan.counts == receipt.counts
    assert plan.scrubbed == receipt.scrubbed
    assert len(plan.rewritten) == len(receipt.rewritten)
    assert set(plan.files) == set(receipt.files)
    assert sorted(one.thread for one in plan.threads) == sorted(receipt.threads)
    assert "chat-7" in receipt.threads


def test_what_came_from_others_too_goes_if_it_repeats_it_and_is_suspect_if_not(
    store: TieredStore, url: str
) -> None:
    memory = coordinator(store, project_id="billing")
    tell_of_the_depot(memory)

    plan: Any = memory.forget(key="depot", plan=True)
    receipt: Any = memory.forget(key="depot")

    gone = {"depot", "alone", "deeper", "echo", "digest", "paint", "rain"}
    assert {one.key for one in plan.erased} == gone
    assert {one.key for one in plan.rewritten} == {"free", "lorries"}
    assert (len(receipt.ids), len(receipt.rewritten)) == (7, 2)
    assert plan.scrubbed == receipt.scrubbed
    assert values(url) == {
        "lorry": "The lorry is green.",
        "free": "All is well there.",
        "lorries": "The lorry is green. Fine!",
    }
    assert {one.key for one in memory.get_context("lorry", limit=10, min_match=0)} == {"lorry"}
    assert memory.truth.history("free").events[-1].kind == "rewritten"
    memory.truth.retract("lorry", reason="It was repainted")
    memory.truth.restore("lorry")
    assert "free" not in recalled(memory)
    assert memory.truth.restore("free").state is None
    assert "free" in recalled(memory)
    (free,) = [one for one in memory.get_context("well", min_match=0) if one.key == "free"]
    assert free.value["metadata"] == {"of": "(forgotten)"}
    assert memory.admin.verify_forgotten(receipt)


def tell_of_the_depot(memory: MemoryCoordinator) -> None:
    """What came from the depot, alone or with the lorry."""
    said = "The depot is in Rovinj since May."
    memory.store(said, "semantic", key="depot")
    memory.store("The lorry is green.", "semantic", key="lorry")
    memory.store("Deliveries need a ferry.", "semantic", key="alone", derived_from=["depot"])
    memory.store("Ferries are slow.", "semantic", key="deeper", derived_from=["alone"])
    both: dict[str, Any] = {"derived_from": ["depot", "lorry"]}
    memory.store(f"- {said}\n- The lorry is green.\n- So it rains.", key="digest", **both)
    memory.store("The depot is in Rovinj since May!", key="echo", **both)
    memory.store("All is well there.", "semantic", key="free", metadata={"of": said}, **both)
    memory.store("The lorry is green. Fine!", "semantic", key="lorries", **both)
    memory.store("Colours matter.", key="paint", derived_from=["digest"])
    memory.store("Rain: so it rains.", "semantic", key="rain", derived_from=["digest", "lorry"])


def recalled(memory: MemoryCoordinator) -> list[str]:
    return [one.key for one in memory.get_context("", limit=50)]


def values(url: str) -> dict[str, str]:
    query = "SELECT jsonb_object_agg(key, value -> 'content') FROM memory.memories"
    return dict(one(url, query))


def test_twins_go_along_and_what_lived_on_in_what_goes_is_current_again(
    store: TieredStore, url: str, clock: Clock
) -> None:
    memory = coordinator(store, project_id="billing")
    for key in ("first", "second"):
        memory.store("The deployment port is 8080.", "pattern", key=key)
        clock.advance(minutes=1)
    create_consolidation_graph(store=store).invoke({}, context=memory.context)
    assert memory.learning.explain("second").state == "consolidated"

    plan: Any = memory.forget(key="second", plan=True)
    assert [(one.key, one.why) for one in plan.erased] == [("first", TWIN), ("second", ASKED)]
    receipt: Any = memory.forget(key="second")
    assert count(url, "memories") == 0
    assert count(url, "lineage") == 0
    assert memory.admin.verify_forgotten(receipt)


def test_what_was_promoted_from_it_alone_goes_and_from_others_too_frees_them(
    store: TieredStore, url: str, clock: Clock
) -> None:
    memory = coordinator(store, project_id="billing", policy=PROVEN)
    memory.store("Retries need an idempotency key.", "pattern", key="retry")
    clock.advance(days=1)
    promoted(memory, "retry")

    receipt: Any = memory.forget(key="retry")
    assert len(receipt.ids) == 2
    assert memory.admin.verify_forgotten(receipt)

    memory.store("Retries need an idempotency key.", "pattern", key="again")
    clock.advance(days=1)
    successor = promoted(memory, "again")
    execute(
        url,
        'UPDATE memory.memories SET value = value || \'{"content": "Keys help."}\' WHERE key = %s',
        successor,
    )
    memory.forget(key=successor)
    assert [one.key for one in memory.get_context("retries")] == ["again"]


def promoted(memory: MemoryCoordinator, key: str) -> str:
    """Promote a memory that has proven itself; its successor."""
    (shown,) = [each for each in memory.get_context("retries", min_match=0) if each.key == key]
    memory.learning.record_outcome([shown], success=True)
    promotion = memory.promote_to_long_term(key)
    assert promotion.promoted, promotion
    return str(promotion.successor)


def test_a_receipt_is_answered_again_and_a_row_put_back_by_hand_is_named(
    store: TieredStore, url: str
) -> None:
    memory = coordinator(store, project_id="billing")
    memory.store("The safe opens with seven turns to the left.", key="safe", session_id="s")
    memory.store("Somebody rang twice.", key="other")
    receipt: Any = memory.forget(key="safe")
    assert memory.forget(key="safe").receipt == receipt.receipt
    assert memory.admin.verify_forgotten(receipt)

    id_ = receipt.ids[0]
    execute(url, "INSERT INTO memory.usage (tenant, id) VALUES ('acme', %s)", id_)
    execute(
        url,
        "UPDATE memory.memories SET value = value || %s WHERE key = 'other'",
        Jsonb({"note": "I know that the safe opens with seven turns to the left. So what?"}),
    )
    execute(
        url,
        "UPDATE memory.memories SET value = value || %s WHERE key = 'other'",
        Jsonb({"more": "Yes. The safe opens with seven turns to the left. So what?"}),
    )
    memory.state.add_interaction("user", "The safe opens with seven turns to the left!")
    found = memory.admin.verify_forgotten(receipt)
    assert not found
    assert {(one.table, one.why.split()[0]) for one in found.found} == {
        ("usage", "a"),
        ("memories", "it"),
        ("states", "it"),
    }
    assert "seven" not in str(found)
    assert "safe" not in json.dumps(receipt.to_json())


def test_a_subject_is_found_in_names_of_fields_in_keys_and_in_names_of_states(
    store: TieredStore, url: str
) -> None:
    memory = coordinator(store)
    memory.store("A kind aunt.", key="xylofant-maier-is-kind")
    memory.store("Somebody is kind.", key="b", metadata={"notes": {NAME: "kind"}})
    memory.store("Nobody is there.", key="c", metadata={"quote": f"of {NAME}"})
    memory.state.set_goal(f"meet {NAME}", "Have tea.")
    memory.state.set_goal("tea", "Have tea.")
    receipt = memory.forget(subject=NAME)
    assert not any(MARK in "\n".join(rows).lower() for rows in dump(url).values())
    assert [one.goal_id for one in memory.state.get_goals()] == ["tea"]
    assert memory.admin.verify_forgotten(receipt)
    memory.state.set_goal(f"meet {NAME}", "Have tea.")
    assert [one.table for one in memory.admin.verify_forgotten(receipt).found] == ["states"]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({}, "exactly one"),
        ({"key": "a", "user": "ada"}, "key and user"),
        ({"key": "nobody"}, "there is no memory 'nobody'"),
        ({"subject": " "}, "blank"),
        ({"subject": "?!"}, "blank"),
        ({"tenant": "other"}, "'acme'"),
        ({"user": "x" * 500}, "400 bytes"),
        ({"key": 7}, "key"),
        ({"user": 7}, "user is a string"),
        ({"key": "a", "plan": "yes"}, "plan"),
        ({"key": "a", "checkpointer": object()}, "delete_thread"),
    ],
)
def test_mistakes_are_told_before_anything_is_changed(
    store: TieredStore, url: str, named: dict[str, Any], said: str
) -> None:
    memory = coordinator(store)
    memory.store("A memory.", key="a")
    before = dump(url)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=said):
        memory.forget(**named)
    assert dump(url) == before


def test_a_user_forgets_what_is_that_users_own_and_nothing_that_is_everybodys(
    store: TieredStore,
) -> None:
    ada = coordinator(store, user_id="ada")
    others: list[dict[str, Any]] = [{"user": "ben"}, {"subject": "Ben"}, {"tenant": "acme"}]
    for other in others:
        with pytest.raises(InvalidInputError, match="names no user"):
            ada.forget(**other)
    receipt: Any = ada.forget(user="ada")
    assert (receipt.ids, receipt.counts) == ((), {})
    with pytest.raises(InvalidInputError, match="receipt"):
        ada.admin.verify_forgotten({"receipt": "x"})
    with pytest.raises(InvalidInputError, match="of the tenant 'acme'"):
        coordinator(store, "beta").admin.verify_forgotten(receipt)


def test_what_came_from_it_and_stays_keeps_no_second_text_and_no_recall_of_anybody_says_it(
    store: TieredStore, url: str
) -> None:
    said = "Ada keeps the spare key below the third flower pot."
    ada, ben = own(store, "ada"), own(store, "ben")
    ada.store("Spare keys are kept.", "pattern", key="keys", personal=False)
    ada.store(said, "reflexion", key="pot", personal=True)
    both: Any = {"derived_from": ["pot", "keys"], "personal": False}
    ada.store("Keys are kept.", "pattern", key="kept", **both)
    execute(
        url,
        "UPDATE memory.memories SET value = value || %s WHERE key = 'kept'",
        Jsonb({"text": said, "metadata": {"of": said}}),
    )
    assert "kept" in [each.key for each in ben.get_context("keys", min_match=0)]
    receipt = ada.forget(user="ada")
    assert ada.admin.verify_forgotten(receipt)
    assert not any("flower pot" in "\n".join(lines) for lines in dump(url).values())
    assert ada.get("kept") is not None


async def test_both_ways_forget_alike(call: Caller) -> None:
    await call("store", "The lamp is red and the door is blue.", key="lamp")
    plan = await call("forget", key="lamp", plan=True)
    receipt = await call("forget", key="lamp", checkpointer=InMemorySaver())
    assert plan.counts == receipt.counts
    assert await call("admin.verify_forgotten", receipt)
    assert await call("get", "lamp") is None
