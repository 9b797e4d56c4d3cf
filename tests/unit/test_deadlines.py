"""Calls at once: as many as there are threads, in the caller's context, waited for to a moment."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from contextvars import ContextVar
from functools import partial

import pytest

from langmem_tiers.core.concurrency import DaemonPool, agather_before, gather_before
from langmem_tiers.postgres.driver import Deadline
from tests.support.servers import wait_until

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def test_calls_are_made_at_once_in_their_callers_context_and_answered_in_their_order() -> None:
    together = threading.Barrier(4, timeout=30)

    def one(number: int) -> tuple[int, str]:
        together.wait()
        return number, WHO.get()

    token = WHO.set("ada")
    try:
        answers = gather_before(30, [partial(one, n) for n in range(4)], DaemonPool(4))
    finally:
        WHO.reset(token)
    assert answers == [(n, "ada") for n in range(4)]

    def fails() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        gather_before(30, [fails], DaemonPool(1))


def test_no_more_are_made_at_once_than_there_are_threads_and_none_is_kept() -> None:
    daemons, running, most = DaemonPool(3), [0], [0]
    lock = threading.Lock()

    def one() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        with lock:
            running[0] -= 1

    gather_before(None, [one] * 50, daemons)
    assert 1 <= most[0] <= 3
    assert daemons.submit(lambda: threading.current_thread().daemon).result(30)


def test_an_idle_thread_takes_the_next_call_holds_nothing_and_ends_when_told() -> None:
    daemons, me = DaemonPool(3, idle_seconds=60), threading.current_thread
    first = daemons.submit(me).result(30)
    wait_until(lambda: daemons._free == 1)
    assert daemons.submit(me).result(30) is first

    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    daemons.submit(partial(id, held)).result(30)
    del held
    wait_until(lambda: gone() is None)

    together = threading.Barrier(3, timeout=30)
    several = [daemons.submit(lambda: (together.wait(), me())[1]) for _ in range(3)]
    threads = {one.result(30) for one in several}
    wait_until(lambda: daemons._free == 3)
    daemons.end_idle()
    assert [one for one in threads if one.is_alive()] == []
    assert daemons.submit(me).result(30) not in threads


def test_one_that_is_at_work_is_not_waited_for() -> None:
    daemons, go = DaemonPool(2, idle_seconds=60), threading.Event()
    slow = daemons.submit(lambda: go.wait(30))
    daemons.end_idle()
    go.set()
    assert slow.result(30)
    brief = DaemonPool(1)
    thread = brief.submit(threading.current_thread).result(30)
    thread.join(30)
    assert not thread.is_alive()


def test_what_is_not_done_in_time_is_none_and_what_was_not_begun_never_is() -> None:
    daemons, go, begun = DaemonPool(1), threading.Event(), []

    def slow() -> str:
        begun.append("slow")
        assert go.wait(30)
        return "late"

    def never() -> str:
        begun.append("never")
        return "never"

    assert gather_before(0.05, [slow, never], daemons) == [None, None]
    go.set()
    assert daemons.submit(lambda: "next").result(30) == "next"
    assert begun == ["slow"]


def test_threads_are_begun_anew_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    daemons, go = DaemonPool(1), threading.Event()
    first = daemons.submit(lambda: go.wait(30))
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as a child of this process sees it

    assert daemons.submit(lambda: "child").result(30) == "child"
    go.set()
    assert first.result(30)


async def test_on_a_loop_what_is_late_is_cancelled_and_the_rest_is_answered() -> None:
    cancelled = asyncio.Event()

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "late"

    async def quick() -> str:
        return "quick"

    assert await agather_before(0.05, [slow, quick], 2) == [None, "quick"]
    await asyncio.wait_for(cancelled.wait(), 30)
    assert await agather_before(None, [], 2) == []


def test_a_call_of_many_items_has_the_time_for_the_most_of_them_however_often_it_says_so() -> None:
    deadline = Deadline(10)
    for items in (400, 1_000, 1_000, 1):
        deadline = deadline.for_items(items)
    assert deadline.seconds == 50
    assert deadline.left is not None
    assert 40 < deadline.left <= 50
    deadline.extend(7)
    assert 47 < (deadline.for_items(1_200).left or 0) <= 67
