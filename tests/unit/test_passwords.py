"""Passwords are never shown: not by an error, what it came from, the command line, or a repr."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from langmem_tiers import TieredStore
from langmem_tiers.cli.app import app
from langmem_tiers.core.errors import ConfigurationError, masked, short

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
        told = repr(refused.value) + str(refused.value)
        assert not any(part in told for part in PASSWORD)


def test_the_command_line_shows_no_password() -> None:
    for url in MALFORMED:
        result = CliRunner().invoke(app, ["stats"], env={"LANGMEM_TIERS_URL": url})
        assert result.exit_code != 0
        assert "no Postgres connection string" in " ".join(result.output.split())
        assert not any(part in result.output for part in PASSWORD)


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
    assert masked(text) == left
    assert not any(part in short({"url": text}, 400) for part in PASSWORD)


def test_what_a_store_connects_by_prints_in_a_line_without_secrets() -> None:
    store = TieredStore(
        "postgresql://anna:hunter2@nowhere.invalid/memory",
        index={},
        pool_config={"kwargs": {"password": "hunter2"}},
    )
    target = vars(store.runner)["_host"].target

    assert repr(target) == "Target(vector_type=None, statement_timeout_ms=60000)"
    for one in (store.runner, store.options, store.flows, vars(store)):
        assert not any(part in repr(one) for part in PASSWORD)
        assert len(repr(one)) < 2_000
