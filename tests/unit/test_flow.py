"""Flows driven by hand: which effects they ask for, and what ends or interrupts them."""

from __future__ import annotations

import re
import signal
import threading
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, SearchOp

from langmem_tiers.core.concurrency import Work, run_sync
from langmem_tiers.core.config import StoreOptions, parse_index
from langmem_tiers.postgres.connection import in_pipeline
from langmem_tiers.postgres.driver import drive
from langmem_tiers.postgres.errors import find_interrupt
from langmem_tiers.postgres.flow import Effect, Embed, Flow, GroupWrite, Lookup, Query
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.testing import TrigramEmbeddings

NS = ("acme", "flow")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
INDEX: dict[str, Any] = {"dims": 4, "embed": TrigramEmbeddings(4), "fields": ["text"]}


class Script:
    """A session that notes what it was asked for."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def end(self, _error: BaseException | None, /) -> Work[None]:
        yield from ()

    def perform(self, effect: Effect, /) -> Work[Any]:
        yield from ()
        self.effects.append(effect)
        if isinstance(effect, Embed):
            return TrigramEmbeddings(4).embed_documents(list(effect.texts))
        if isinstance(effect, Query):
            shape: Any = ({"dims": 4, "vector_type": "halfvec"}, [], [], None, {}, 0, 0)
            return [[shape] if call.name == "state" else [] for call in effect.calls]
        return None


def flows() -> StoreFlows:
    options = StoreOptions(index=parse_index(INDEX))
    made = StoreFlows(options, clock=lambda: NOW, ttl=lambda: None)
    effects(made.batch([SearchOp(NS, query="the shape of the database is read once")], None))
    return made


def effects(work: Flow[Any]) -> list[Effect]:
    session = Script()
    run_sync(drive(work, session))
    return session.effects


def test_a_put_embeds_and_then_writes_in_one_round_trip() -> None:
    asked = effects(flows().batch([PutOp(NS, "k", {"text": "x"})], None))
    assert [type(one) for one in asked] == [Embed, GroupWrite]
    assert isinstance(asked[1], GroupWrite)
    (written,) = effects(asked[1].flow([asked[1].item]))
    assert isinstance(written, Query)
    assert written.commit
    assert written.calls[0].name == "lock_keys"


def test_reads_without_a_query_share_one_round_trip() -> None:
    (alone,) = effects(flows().batch([GetOp(NS, "k")], None))
    assert isinstance(alone, Lookup)
    ops: list[Op] = [GetOp(NS, "k"), SearchOp(NS), ListNamespacesOp(), SearchOp(())]
    asked = effects(flows().batch(ops, None))
    (names,) = [[call.name for call in one.calls] for one in asked if isinstance(one, Query)]
    kinds = [re.sub("_(many|tenant|prefix|everywhere)$", "", name) for name in names]
    assert sorted(kinds) == ["get", "list_namespaces", "search_newest", "search_newest"]


def test_equal_texts_are_embedded_once_and_blank_ones_never() -> None:
    texts = ["x", "y", "x", " ", "", "y"]
    ops: list[Op] = [PutOp(NS, f"{n}", {"text": text}) for n, text in enumerate(texts)]
    embedded = [one for one in effects(flows().batch(ops, None)) if isinstance(one, Embed)]
    assert embedded == [Embed(("x", "y"), "documents")]


def test_a_flow_whose_effect_fails_undoes_before_its_caller_hears_of_it() -> None:
    undone = []

    def work() -> Flow[None]:
        try:
            yield Embed(("x",), "documents")
        finally:
            undone.append(True)

    class Away(Script):
        def perform(self, effect: Effect, /) -> Work[Any]:
            raise RuntimeError(f"no model for {effect}")

    with pytest.raises(RuntimeError) as kept:  # its traceback keeps the frame of the driver alive
        run_sync(drive(work(), Away()))
    assert (undone, str(kept.value)[:8]) == ([True], "no model")


def test_work_that_a_signal_interrupts_between_two_steps_ends_as_it_does_within_one() -> None:
    def interrupted(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    ended: list[bool] = []

    def work() -> Work[None]:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.5)  # again, if the first one is lost
            while True:
                yield None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            yield None
            ended.append(True)

    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        for _ in range(100):
            with pytest.raises(KeyboardInterrupt):
                run_sync(work())
    finally:
        signal.signal(signal.SIGALRM, before)

    assert len(ended) == 100


def test_a_signal_just_after_a_pipeline_was_entered_leaves_it() -> None:
    def steps() -> Work[None]:
        yield None

    class Conn:
        def pipeline(self) -> Any:
            return lock

    lock = threading.Lock()
    work = in_pipeline(Conn(), steps())
    work.send(None)
    with pytest.raises(KeyboardInterrupt):
        work.throw(KeyboardInterrupt())
    assert not lock.locked()


def test_what_ensues_from_an_interruption_is_an_interruption() -> None:
    interrupted, cancelled = KeyboardInterrupt(), psycopg.errors.QueryCanceled()
    ensued = psycopg.errors.PipelineAborted()
    assert find_interrupt(ensued) is None
    cancelled.__context__, ensued.__context__ = interrupted, cancelled
    assert find_interrupt(ensued) is interrupted
