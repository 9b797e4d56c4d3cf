"""A recorded recall is answered again as it was, whatever was written since; else it says so."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.learning.outcome import Run
from langmem_tiers.recall import ranking
from langmem_tiers.recall.matching import weights_for_model
from langmem_tiers.recall.replay import Replay
from tests.support.archives import execute
from tests.support.coordinating import PATIENT, beside, calling, coordinator
from tests.support.opening import DIMS, Clock, FailingEmbeddings, Opener, text_index
from tests.support.recorded import RECORDING, Life, by_length
from tests.support.walls import APPLICATION, login


def recorder(store: TieredStore, **options: Any) -> MemoryCoordinator:
    """A coordinator that records, with two memories."""
    memory = coordinator(store, **{"project_id": "p", "settings": RECORDING, **options})
    memory.store("Ada sold the red boat.", "semantic", key="boat")
    memory.store("Ben bought a piano in Porto.", "semantic", key="piano")
    return memory


def rows(url: str) -> list[tuple[Any, ...]]:
    """How many rows there are, and which was written last; the counters too."""
    tables = ("memories", "vectors", "usage", "exposures", "events", "recalls")
    counted = "count(*), max(xmin::text::bigint) FROM memory."
    selects = (f"SELECT {place}, {counted}{one}" for place, one in enumerate(tables))
    query = f"{' UNION ALL '.join(selects)} ORDER BY 1"
    with psycopg.connect(url) as conn:
        return [row[1:] for row in conn.execute(query.encode()).fetchall()]


@pytest.mark.parametrize("recalls", [40, pytest.param(1000, marks=pytest.mark.proof)])
def test_recorded_recalls_are_answered_again_as_they_were_whatever_was_written_since(
    store: TieredStore, clock: Clock, url: str, recalls: int
) -> None:
    life = Life(store, clock, Random(recalls))  # noqa: S311 - a life is no secret
    life.live(recalls)
    store.run(store.flows.flush())
    before = rows(url)
    shown = 0
    for memory, name, many in life.recalled:
        for one in memory.admin.replay(name, profile=by_length):
            assert one.equal, str(one)
            assert sum(not each.held_out for each in one.then) == many
            shown += many
    assert len(life.recalled) == recalls
    assert shown > recalls / 2
    store.run(store.flows.flush())
    assert rows(url) == before, "nothing was written, and nothing counts as read"


async def test_it_is_the_same_either_way(open_store: Opener, url: str) -> None:
    async with calling(open_store, url, project_id="p", settings=RECORDING) as call:
        await call("store", "Ada sold the red boat.", key="boat")
        found = await call("get_context", "Who sold the boat?", run_id=Run("try-1", "whole"))
        (blank,) = await call("get_context_batch", [""], run_id=Run("try-2", "whole"))
        await call("store", "Ada sold the blue boat.", key="boat")
        first, second = await call("admin.replay", "whole")
        (alone,) = await call("admin.replay", "try-1")
    assert (found.recall_id, blank.recall_id) == ("try-1", "try-2")
    assert first == alone
    assert (first.equal, second.equal) == (True, True)
    assert [one.key for one in first.then] == ["boat"]
    assert (second.query, str(second).partition("(")[0]) == ("", "equal: the newest ")


def test_what_a_turn_recalled_is_replayed_by_its_id(store: TieredStore) -> None:
    memory = recorder(store)
    with MemoryOrchestrator(memory, turn_id="turn-1") as turn:
        shown = turn.assemble_context("Who sold the red boat?")
        turn.commit()
    memory.delete_memory("boat")
    replayed = memory.admin.replay("turn-1")
    recalled = {each.key for one in replayed for each in one.then}
    assert "boat" in recalled
    assert {one.key for one in shown.fragments} <= recalled
    assert all(one.equal for one in replayed)


def test_what_a_run_went_without_is_told_and_stays_so(store: TieredStore) -> None:
    memory = recorder(store)
    found = memory.get_context("red boat, piano", run_id="r", holdout=1.0, min_match=0)
    (one,) = memory.admin.replay("r")
    assert (list(found), found.recall_id) == ([], "r")
    assert {each.key for each in one.now if each.held_out} == {"boat", "piano"}
    assert one.equal


def test_words_alone_are_replayed_by_words_alone(database_url: str, clock: Clock) -> None:
    index = text_index(embed=FailingEmbeddings(DIMS))
    with TieredStore(database_url, index=index, clock=clock) as store:
        store.setup()
        memory = recorder(store)
        found = memory.get_context("poison in the red boat")
        index["embed"].failures = -1000  # it is asked no more
        (one,) = memory.admin.replay(str(found.recall_id))
    assert found.by_words is not None
    assert [each.key for each in one.now] == [each.key for each in found]
    assert one.equal


def changed_weights(path: Path) -> str:
    """A file of weights that trust in nearness."""
    told = asdict(weights_for_model("other"))
    told["features"] = {**told["features"], "dense": 9.0, "own": 0.0}
    path.write_text(json.dumps(told))
    return str(path)


def test_with_changed_weights_it_says_what_differs(store: TieredStore, tmp_path: Path) -> None:
    memory = recorder(store)
    memory.get_context("Who sold the red boat?", run_id="r")
    other = beside(memory, settings=RECORDING, weights=changed_weights(tmp_path / "w.json"))
    (one,) = other.admin.replay("r")
    assert not one.equal
    (difference,) = [each for each in one.differences if each.key == "boat"]
    assert difference.then is not None
    assert difference.now is not None
    assert difference.then.score != difference.now.score
    lines = str(one).splitlines()
    assert lines[0].startswith("differs: Who sold the red boat? (2026-03-01T12:00:00+00:00, ")
    assert lines[1].startswith("  boat: 1. (0.")


def test_with_a_changed_profile_it_differs(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = recorder(store)
    memory.get_context("Who sold the red boat?", run_id="r")
    half = replace(ranking.PROFILES["calibrated"], terms=lambda one, _: {"match": one.match / 2})
    monkeypatch.setitem(ranking.PROFILES, "calibrated", half)
    (one,) = memory.admin.replay("r")
    assert [each.key for each in one.differences] == ["boat"]


def test_a_profile_of_ones_own_is_needed_again(
    store: TieredStore,
) -> None:
    memory = recorder(store)
    memory.get_context("Who sold the red boat?", run_id="r", profile=by_length)
    with pytest.raises(InvalidInputError, match=r"'by_length': give it, as profile="):
        memory.admin.replay("r")
    (same,) = memory.admin.replay("r", profile=by_length)
    (other,) = memory.admin.replay("r", profile=lambda one, _: one.match * 2)
    assert same.equal
    assert not other.equal


def test_nobody_sees_the_recalls_of_another_user_project_or_tenant(store: TieredStore) -> None:
    recorder(store, user_id="ada").get_context("red boat", run_id="r", min_match=0)
    shared = recorder(store)
    shared.get_context("red boat", run_id="shared")
    for other in ({"user_id": "ben"}, {}, {"user_id": "ada", "project_id": "q"}):
        with pytest.raises(
            InvalidInputError, match="no recall of 'r' is recorded in tenant 'acme'"
        ):
            coordinator(store, **{"project_id": "p", **other}).admin.replay("r")
    with pytest.raises(InvalidInputError, match=r"CoordinatorSettings\(recall_days=30\)"):
        coordinator(store, "beta", project_id="p", user_id="ada").admin.replay("r")
    assert coordinator(store, user_id="ada").admin.replay("r"), (
        "who names no project looks after all"
    )
    assert coordinator(store, project_id="p", user_id="ben").admin.replay("shared")


def test_behind_the_wall_a_tenant_records_and_replays_its_own(
    store: TieredStore, url: str, clock: Clock
) -> None:
    recorder(store).get_context("red boat", run_id="r")
    with (
        login(url, APPLICATION) as web,
        TieredStore(web, index=text_index(), clock=clock) as walled,
    ):
        own = recorder(walled, tenant="beta")
        found = own.get_context("red boat", run_id="r")
        replays: list[Replay] = own.admin.replay("r")
        assert coordinator(walled, project_id="p").admin.replay("r")[0].equal
    assert found.recall_id == "r"
    assert [one.equal for one in replays] == [True]


def test_what_is_forgotten_is_in_no_recorded_recall_and_the_others_stay(
    store: TieredStore, url: str
) -> None:
    memory, garden = recorder(store), recorder(store, tenant="beta")
    garden.get_context("red boat", run_id="beside")
    memory.get_context("Who sold the red boat?", run_id="saw it")
    memory.get_context("What does Ada say?", run_id="asks for it", tags=["none"])
    memory.get_context("piano", run_id="neither", filter={"content": {"$gt": "B"}})
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TEMP TABLE kept AS SELECT * FROM memory.recalls")
        plan: Any = memory.forget(subject="Ada", plan=True)
        receipt: Any = memory.forget(subject="Ada")
        assert plan.counts["recalls"] == receipt.counts["recalls"] == 2
        assert memory.admin.verify_forgotten(receipt)
        assert memory.admin.replay("neither")[0].equal
        assert garden.admin.replay("beside")[0].equal
        conn.execute("INSERT INTO memory.recalls SELECT * FROM kept ON CONFLICT DO NOTHING")
    found = {(one.table, one.why) for one in memory.admin.verify_forgotten(receipt).found}
    assert found == {
        ("recalls", "a row of a memory that was forgotten"),
        ("recalls", "it says what was forgotten"),
        ("recalls", "it names the subject"),
    }


@pytest.mark.parametrize("what", [{"key": "boat"}, {"user": "ada"}, {"tenant": "acme"}])
def test_so_it_is_with_a_key_a_user_and_a_tenant(
    store: TieredStore, url: str, what: dict[str, str]
) -> None:
    memory = recorder(store, user_id="ada")
    memory.get_context("", run_id="r")
    whose = None if "tenant" in what else "ada"
    forget: Any = beside_of(memory, whose).forget
    receipt = forget(**what)
    assert receipt.counts["recalls"] == 1
    assert rows(url)[-1] == (0, None)
    assert beside_of(memory, whose).admin.verify_forgotten(receipt)


def beside_of(memory: MemoryCoordinator, user: str | None) -> MemoryCoordinator:
    """A coordinator of the same project, of that user or of none."""
    context = replace(memory.context, user_id=user)
    return MemoryCoordinator(memory.tiered_store, context=context, settings=PATIENT)


def test_what_is_forgotten_while_it_is_recalled_is_not_recorded(
    store: TieredStore, url: str
) -> None:
    memory = recorder(store)

    def forgetting(one: Any, _: Any) -> float:
        if memory.get("boat") is not None:
            memory.forget(key="boat")
        return float(one.match)

    found = memory.get_context("red boat", run_id="r", profile=forgetting)
    assert ([one.key for one in found], found.recall_id) == (["boat"], None)
    assert rows(url)[-1] == (0, None)
    assert memory.get_context("piano", run_id="r").recall_id == "r"


def test_while_something_is_forgotten_nothing_is_recorded_and_no_recall_waits(
    store: TieredStore, url: str
) -> None:
    memory = recorder(store)
    with psycopg.connect(url) as conn:
        conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('acme', 26))")
        assert memory.get_context("red boat", run_id="r").recall_id is None
    assert memory.get_context("red boat", run_id="r").recall_id == "r"


def test_it_is_recorded_only_where_that_is_asked_for_and_swept_when_its_days_are_over(
    store: TieredStore, clock: Clock, url: str
) -> None:
    memory = recorder(store)
    assert beside(memory).get_context("red boat").recall_id is None
    memory.get_context("red boat", run_id="r")
    clock.advance(days=29)
    store.sweep_ttl()
    assert memory.admin.replay("r")
    clock.advance(days=2)
    store.sweep_ttl()
    with pytest.raises(InvalidInputError, match="no recall of 'r'"):
        memory.admin.replay("r")
    assert rows(url)[-1] == (0, None)


def test_a_recall_that_fails_or_cannot_be_recorded_records_nothing(
    store: TieredStore, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = recorder(store)
    with pytest.raises(InvalidInputError):
        memory.get_context("red boat", run_id="r", profile=lambda *_: float("nan"))
    assert rows(url)[-1] == (0, None)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER TABLE memory.recalls ADD CONSTRAINT never CHECK (turn <> 'r')")
        try:
            found = memory.get_context("red boat", run_id="r")
        finally:
            conn.execute("ALTER TABLE memory.recalls DROP CONSTRAINT never")
    assert ([one.key for one in found], found.recall_id) == (["boat"], None)
    assert "a recall is answered and not recorded" in caplog.text


def test_the_command_line_answers_again_and_fails_where_an_answer_differs(
    store: TieredStore, url: str
) -> None:
    recorder(store).get_context("Who sold the red boat?", run_id="r")
    told = ["replay", "--lexical", "--tenant", "acme", "--url", url, "r"]
    same = CliRunner().invoke(app, [*told, "--json"])
    (one,) = json.loads(same.stdout)["recalls"]
    assert (same.exit_code, one["equal"], one["then"]) == (0, True, one["now"])
    execute(url, "UPDATE memory.recalls SET answered = '[]'")
    other = CliRunner().invoke(app, told)
    assert other.exit_code == 1
    assert "  boat: not answered then, 1. (0." in other.stdout
