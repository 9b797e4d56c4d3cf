"""Several people review the same: the first decision counts, and each is told what was done."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from langgraph.types import Command

from langmem_tiers import MemoryCoordinator
from langmem_tiers.core.errors import DatabaseError, InvalidInputError, NotQuarantinedError
from tests.integration.test_review_node import ATTACKS, reviewing
from tests.support.coordinating import Caller, calling, coordinator, keys
from tests.support.opening import Opener

QUICKER = "I was quicker"


def beaten(verb: str) -> type[MemoryCoordinator]:
    """Coordinators whose decisions somebody forestalls with this verb, at the very moment."""

    class Beaten(MemoryCoordinator):
        def release(self, key: str, **options: Any) -> Any:
            self._forestall(key)
            return super().release(key, **options)

        async def arelease(self, key: str, **options: Any) -> Any:
            await self._aforestall(key)
            return await super().arelease(key, **options)

        def reject(self, key: str, **options: Any) -> Any:
            self._forestall(key)
            return super().reject(key, **options)

        async def areject(self, key: str, **options: Any) -> Any:
            await self._aforestall(key)
            return await super().areject(key, **options)

        def _forestall(self, key: str) -> None:
            other = coordinator(self.tiered_store, project_id="billing")
            getattr(other, verb)(key, **_options(verb))

        async def _aforestall(self, key: str) -> None:
            other = coordinator(self.tiered_store, project_id="billing")
            await getattr(other, f"a{verb}")(key, **_options(verb))

    return Beaten


def _options(verb: str) -> dict[str, str]:
    return {} if verb == "delete_memory" else {"reason": QUICKER}


def told(key: str, decision: str, reason: str = QUICKER) -> dict[str, str]:
    return {"key": key, "decision": decision, "reason": reason}


@pytest.mark.parametrize("theirs", ["release", "reject"])
@pytest.mark.parametrize("ours", ["release", "reject"])
async def test_of_two_people_at_the_same_moment_the_first_counts_and_the_graph_says_so(
    open_store: Opener, url: str, ours: str, theirs: str
) -> None:
    async with reviewing(open_store, url, attacks=2, coordinator=beaten(theirs)) as one:
        await one.asked()
        done = await one.run(Command(resume={"k0": ours, "k1": ours}))

        assert done["reviewed"] == [told("k0", theirs), told("k1", theirs)]
        kept = {"k0", "k1"} if theirs == "release" else set()
        assert set(keys(await one.call("get_context", ""))) == kept
        assert await one.call("list_quarantined") == []


async def test_what_was_decided_is_told_though_another_memory_has_its_key_by_now(
    open_store: Opener, url: str
) -> None:
    async with reviewing(open_store, url, attacks=1) as one:
        await one.asked()
        await one.call("reject", "k0", reason=QUICKER)
        await one.call("store", "The port of billing is 8080.", key="k0")
        done = await one.run(Command(resume={"k0": "release"}))

        assert done["reviewed"] == [told("k0", "reject")]
        assert keys(await one.call("get_context", "")) == ["k0"]


class Crashing(MemoryCoordinator):
    """Fails once, right after it has released something."""

    failed = False

    def release(self, key: str, **options: Any) -> Any:
        return self._fail(super().release(key, **options))

    async def arelease(self, key: str, **options: Any) -> Any:
        return self._fail(await super().arelease(key, **options))

    def _fail(self, done: Any) -> Any:
        if not type(self).failed:
            type(self).failed = True
            raise DatabaseError("the server went away")
        return done


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_what_was_done_before_a_crash_is_told_when_the_run_goes_on(
    open_store: Opener, url: str, kind: Any
) -> None:
    own = type("Once", (Crashing,), {"failed": False})
    async with reviewing(open_store, url, kind, attacks=2, coordinator=own) as one:
        await one.asked()
        decisions = {"k0": {"decision": "release", "reason": "ours"}, "k1": "reject"}
        with pytest.raises(DatabaseError):
            await one.run(Command(resume=decisions))
        done = await one.run(Command(resume=decisions))

        assert done["reviewed"] == [
            told("k0", "release", "ours"),
            told("k1", "reject", "rejected by a person who reviewed it"),
        ]
        kinds = [event.kind for event in (await one.call("history", "k0")).events]
        assert kinds == ["quarantined", "released"]


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        ("yesterday", "the version of 'k0' 'yesterday' is no date"),
        ("2026-01-01T00:00:00", "the version of 'k0' needs a time zone"),
        (5, "the version of 'k0' is that of the question"),
    ],
)
async def test_a_version_that_is_no_moment_is_asked_for_again_whatever_became_of_the_memory(
    open_store: Opener, url: str, version: object, wrong: str, *, gone: bool
) -> None:
    async with reviewing(open_store, url, attacks=2) as one:
        await one.asked()
        if gone:
            await one.call("reject", "k0", reason=QUICKER)
        answer = {"k0": {"decision": "release", "version": version}}
        (again,) = (await one.run(Command(resume=answer)))["__interrupt__"]
        assert wrong in again.value["error"]

        done = await one.run(Command(resume={"k1": "release"}))
        assert [each["key"] for each in done["reviewed"]] == ["k1"]


async def test_what_was_decided_can_be_read_by_ids(open_store: Opener, url: str) -> None:
    async with reviewing(open_store, url) as one:
        held = await one.call("list_quarantined")
        await one.call("release", "k0", reason=QUICKER)
        await one.call("reject", "k1", reason="spam")
        since = {each.id: each.quarantined_at for each in held}
        assert await one.call("decisions", since) == {
            held[0].id: ("released", QUICKER),
            held[1].id: ("rejected", "spam"),
        }
        later = dict.fromkeys(since, held[0].quarantined_at + timedelta(days=9_000))
        assert await one.call("decisions", later) == {}
        for junk in [["k0"], {"k0": held[0].quarantined_at}, {1: datetime(2026, 1, 1)}, {1: 5}]:  # noqa: DTZ001
            with pytest.raises(InvalidInputError):
                await one.call("decisions", junk)


@pytest.mark.parametrize("verb", ["release", "reject"])
async def test_what_is_not_quarantined_or_not_there_is_told_by_an_error_of_its_own(
    open_store: Opener, url: str, verb: str
) -> None:
    async with calling(open_store, url, project_id="billing") as call:
        await call("store", "The port of billing is 8080.", key="port")
        with pytest.raises(NotQuarantinedError, match="'port' is not quarantined"):
            await call(verb, "port", reason="ours")
        with pytest.raises(NotQuarantinedError, match="there is no memory 'nobody'"):
            await call(verb, "nobody", reason="ours")
        for project in ("a", "b"):
            other = Caller(coordinator(call.memory.tiered_store, project_id=project), call.mode)
            await other("store", ATTACKS[0], source="web", key="several")
        with pytest.raises(NotQuarantinedError, match="there is no memory 'several'"):
            await call(verb, "several", reason="another project's")
        owner = Caller(coordinator(call.memory.tiered_store), call.mode)
        with pytest.raises(InvalidInputError, match="several memories of the tenant") as several:
            await owner(verb, "several", reason="ours")
        assert not isinstance(several.value, NotQuarantinedError)
