"""Passwords are never shown: not by an error, what it came from, the command line, or a repr."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_tiers import MemoryContext, Reviewer, TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.hooks import MemoryHooks
from langmem_tiers.core.errors import ConfigurationError, mask_passwords, short
from langmem_tiers.remember.review import Reviewers
from langmem_tiers.turn.assembly import Fitted
from langmem_tiers.turn.layout import ORCHESTRATOR, Fragment
from langmem_tiers.turn.orchestrator import MemoryOrchestrator

PASSWORD = ("hun", "ter2")
MALFORMED = [
    "postgresql://user:hunter2@127.0.0.1:notaport/db",
    "postgresql://user:hunter2@127.0.0.1:99999/db",
    "postgres//user:hunter2@127.0.0.1",
    "postgresql+psycopg://user:hunter2@127.0.0.1/db",
    "http://user:hunter2@127.0.0.1/db",
    "user:hunter2@127.0.0.1/db",
    "postgresql:///user:hunter2@127.0.0.1/db",
    "postgresql://user:hun@ter2@127.0.0.1/db",
    "postgresql://user:hun/ter2@127.0.0.1/db",
    "postgresql://user:hunter2%zz@127.0.0.1/db",
    "postgresql://user:hunter2@[::1/db",
    "postgresql://127.0.0.1/db?password=hunter2&bogus=1",
    "user=user password=hunter2 hots=x",
    "user=user password='hunter2",
    "host=127.0.0.1 port=x password=hunter2",
    "password = hunter2 = host",
]


def test_a_malformed_connection_string_is_refused_without_its_password() -> None:
    for url in MALFORMED:
        with pytest.raises(ConfigurationError, match="no Postgres connection string") as refused:
            TieredStore(url)
        assert (refused.value.__cause__ or refused.value.__context__) is None
        result = CliRunner().invoke(app, ["stats"], env={"LANGMEM_TIERS_URL": url})
        assert result.exit_code != 0
        assert "no Postgres connection string" in " ".join(result.output.split())
        for told in (repr(refused.value), str(refused.value), result.output):
            assert not any(part in told for part in PASSWORD)


@pytest.mark.parametrize("name", ["postgresql", "postgres"])
def test_of_a_url_for_sqlalchemy_it_is_told_what_to_leave_out(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"SQLAlchemy.*leave '\+psycopg' out"):
        TieredStore.from_conn_string(f"{name}+psycopg://user:hunter2@127.0.0.1/db")


@pytest.mark.parametrize("given", [None, 3, b"postgresql://127.0.0.1/db"])
def test_what_is_no_text_is_no_connection_string(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="no Postgres connection string"):
        TieredStore.from_conn_string(given)


def test_a_number_too_long_to_be_written_is_no_connection_string() -> None:
    wrong: Any = -(10**5000)
    with pytest.raises(ConfigurationError, match="no Postgres connection string"):
        TieredStore.from_conn_string(wrong)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("s3://key:hunter2@bucket/x", "s3://key:***@bucket/x"),
        ("'postgresql://u:hun@ter2@h/d'", "'postgresql://u:***@h/d'"),
        ("host=h password=hunter2 user=u", "host=h password=*** user=u"),
        ("host=h password='hun \\'ter2' user=u", "host=h password=*** user=u"),
        ("postgresql://h/d?sslpassword=hunter2&a=b", "postgresql://h/d?sslpassword=***&a=b"),
        ("a plain text: with @ and = in it", "a plain text: with @ and = in it"),
    ],
)
def test_a_password_is_masked_wherever_a_value_is_shown(text: str, left: str) -> None:
    assert mask_passwords(text) == left
    assert not any(part in short({"url": text}, 400) for part in PASSWORD)


def test_a_repr_is_one_short_line_without_secrets() -> None:
    store = TieredStore(
        "postgresql://anna:hunter2@nowhere.invalid/memory",
        index={},
        pool_config={"kwargs": {"password": "hunter2"}},
    )
    memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
    turn = MemoryOrchestrator(memory, turn_id="t1")
    several: tuple[Any, ...] = (store, memory, MemoryHooks(memory), memory.state, ORCHESTRATOR)
    for shown in map(repr, (*several, turn)):
        assert len(shown) < 250
        assert not any(part in shown for part in ("\n", " object at 0x", *PASSWORD))
    target = vars(store.runner)["_target"]
    for inner in (store.runner, store.options, store.flows, vars(store), target):
        assert not any(part in repr(inner) for part in PASSWORD)
        assert len(repr(inner)) < 2_000

    fragment = Fragment(text="Keys rotate on Mondays. " * 9, source="semantic", key="keys")
    decided = Fitted(fragment=fragment, chosen=False, tokens=50, reason="no room")
    reviewers = Reviewers([Reviewer(name="polite", storage=lambda _: (7.0, "always"))])
    mine = TieredStore("dbname=app", index={"dims": 64, "embed": len}, schema_prefix="mine_")
    assert repr(reviewers) == "Reviewers(polite)"
    assert repr(decided) == "Fitted(keys: out, no room)"
    assert repr(store) == "TieredStore(short_term, working, long_term; searched by words)"
    assert repr(mine).endswith("; 64 dimensions; schemas mine_…)")
    assert "tenant='acme'" in repr(memory)
    assert repr(turn).endswith(", orchestrator: not begun)")
    assert repr(turn.begin()).endswith(", orchestrator: 't1' goes on)")
