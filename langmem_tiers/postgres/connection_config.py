"""The address of a database, the options of its connections, and the texts of its statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import psycopg
from langchain_core.embeddings import Embeddings
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row, tuple_row
from psycopg_pool import ConnectionPool

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import ConfigurationError, short
from langmem_tiers.core.vectors import VectorOptions
from langmem_tiers.postgres import sql
from langmem_tiers.postgres.embedded import EmbeddedPostgres, is_embedded_url
from langmem_tiers.postgres.flow import Query
from langmem_tiers.postgres.sql import Statement

POOL_TIMEOUT_SECONDS = 10.0
"""The seconds that a caller waits for a free connection before the error `pool_exhausted`."""

ALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Lets libpq notice a network that silently drops packets: after 25 seconds at rest, and 15 seconds
after something was sent. Systems wait two hours, and a quarter of an hour. Our choice."""

CONNECTION_FACTS = (
    "SELECT pg_catalog.pg_backend_pid(), s.reset_val::pg_catalog.int8, "
    "pg_catalog.quote_ident(n.nspname), t.oid, t.typarray "
    "FROM pg_catalog.pg_settings s "
    "LEFT JOIN pg_catalog.pg_extension e ON e.extname = 'vector' "
    "LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace "
    "LEFT JOIN pg_catalog.pg_type t ON t.typnamespace = n.oid AND t.typname = %(type)s::text "
    "WHERE s.name = 'statement_timeout'"
)
"""Asks a new connection for its server process, the role's time-out for statements, and the schema
of pgvector. It changes no setting, as another process may serve the next transaction.

It stands here and not in queries.sql, as no flow runs it."""


TRANSACTION_LIMITS = (
    "SELECT set_config(name, '300s', true) FROM pg_settings "
    "WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)
"""Limits the time for which a checkpointer's transaction may be idle or, from Postgres 17 on, run.
Each transaction sets it, as the connection may be a pooler's."""


@dataclass(frozen=True)
class Target:
    """A database's address and the options of the store that uses it.

    Raises:
        ConfigurationError: if they fit no pool.
    """

    conninfo: str = field(repr=False)
    options: StoreOptions
    embeddings: Embeddings | None = field(default=None, repr=False)
    pool: Mapping[str, Any] | None = field(default=None, repr=False)
    server: EmbeddedPostgres | None = None
    """The store's own embedded server; None if the server is another's."""

    def __post_init__(self) -> None:
        """Check the caller's arguments."""
        pool_config: object = self.pool
        if pool_config is not None and not isinstance(pool_config, Mapping):
            raise ConfigurationError(
                f"pool_config is a mapping, such as {{'max_size': 20}}, not {short(pool_config)}"
            )
        wrong = None if is_embedded_url(self.conninfo) else _find_mistake(self.conninfo)
        if wrong is not None:  # no cause: it would show the password
            raise ConfigurationError(
                f"this is no Postgres connection string ({wrong}): use "
                "postgresql://user:password@host/database, with what is no letter or digit of the "
                "password percent-encoded, or host=… dbname=…; for a Postgres of the store's own, "
                "TieredStore.embedded(path) or embedded:./path"
            )
        for name in ("conninfo", "connection_class", "configure", "open"):
            if name in (self.pool or {}):
                raise ConfigurationError(f"pool_config[{name!r}] is the store's own: leave it out")
        try:
            ConnectionPool(self.conninfo, **self.pool_options())
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"pool_config does not fit psycopg_pool: {short(str(error), 400)}"
            ) from error

    @property
    def vector(self) -> VectorOptions | None:
        """The shape of its vectors; None if it has none."""
        return self.options.index.vector if self.options.index else None

    @cached_property
    def statements(self) -> Mapping[str, Statement]:
        """Every statement by name."""
        return sql.statements(self.options, self.vector)

    @cached_property
    def walled_statements(self) -> Mapping[str, Statement]:
        """Every statement by name, for the role of an application; see `walls.py`."""
        return sql.statements(self.options, self.vector, walled=True)

    @cached_property
    def call_seconds(self) -> float | None:
        """The seconds of a call's deadline; None for no deadline."""
        return (self.options.bounds.call_timeout_ms or 0) / 1_000 or None

    def start(self) -> Self:
        """Start an embedded server, and return the target with its address."""
        return self if self.server is None else replace(self, conninfo=self.server.start())

    def stop(self) -> None:
        """Release an embedded server."""
        if self.server is not None:
            self.server.stop()

    def pool_options(self) -> dict[str, Any]:
        """Return the arguments of the psycopg pool: the user's over our defaults."""
        options: dict[str, Any] = {"min_size": 1, "max_size": 10, "timeout": POOL_TIMEOUT_SECONDS}
        options.update(self.pool or {})
        if options.get("max_size") is None:
            options["max_size"] = options["min_size"]
        return {**options, "open": False, "kwargs": self.connection_options()}

    @cached_property
    def check(self) -> Callable[[Any], Any] | None:
        """The user's check of a connection before each use; None without one."""
        return (self.pool or {}).get("check")

    def acting_params(self) -> dict[str, str | None]:
        """Return the parameters of `walls.ACTING`."""
        memories, roles = f"{self.options.schema('memory')}.memories", self.options.roles
        return {"memories": memories, "worker": roles.worker, "taken": roles.role_name}

    def changes_rows(self, query: Query) -> bool:
        """Return True if a query changes rows that must be neither lost nor changed twice."""
        return any(self.statements[call.name].writes for call in query.calls)

    def connection_options(self) -> dict[str, Any]:
        """Return the arguments of each connection."""
        return {
            "prepare_threshold": 0,
            **_unset_defaults(
                self.conninfo, application_name="langmem-tiers", connect_timeout=5, **ALIVE
            ),
            **self._kwargs(),
            "autocommit": True,  # sessions rely on this one and the next
            "row_factory": tuple_row,
        }

    @property
    def sets_prepare_threshold(self) -> bool:
        """True if the user has set when statements are prepared."""
        return "prepare_threshold" in self._kwargs()

    def without_statement_timeout(self) -> dict[str, str]:
        """Return the options of a connection whose statements have no time-out."""
        of_url = conninfo_to_dict(self.conninfo).get("options")
        options = self._kwargs().get("options", of_url) or ""
        return {"options": f"{options} -c statement_timeout=0"}

    def _kwargs(self) -> Mapping[str, Any]:
        kwargs = (self.pool or {}).get("kwargs")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise ConfigurationError(f"pool_config['kwargs'] is a mapping, not {short(kwargs)}")
        return kwargs or {}

    def settings(self, servers_timeout: int, vectors_in: str | None) -> dict[str, Any]:
        """Return the parameters of `enter` for a transaction; a role's shorter time-out stays."""
        own = self.options.bounds.statement_timeout_ms
        times = [time for time in (own, servers_timeout) if time]
        return {
            "local": True,
            "timeout": str(min(times, default=0)),
            "actor": self.options.audit.actor or "",
            "path": ", ".join(filter(None, ("pg_catalog", vectors_in, "pg_temp"))),
        }


def _unset_defaults(conninfo: str, **defaults: Any) -> dict[str, Any]:
    """Return those of our defaults that a connection string does not set."""
    parameters = {} if is_embedded_url(conninfo) else conninfo_to_dict(conninfo)
    return {name: value for name, value in defaults.items() if name not in parameters}


def _find_mistake(conninfo: object) -> str | None:
    """Describe the mistake in a connection string, without any part of a password."""
    if not isinstance(conninfo, str):
        return f"it is a {type(conninfo).__name__}"
    if driver := _DRIVER.match(conninfo):
        return f"{driver[0]!r} names a driver, as for SQLAlchemy: leave {driver[1]!r} out"
    try:
        conninfo.encode()
        parameters = conninfo_to_dict(conninfo)
    except UnicodeEncodeError:
        return "it is not Unicode"
    except psycopg.ProgrammingError as error:
        reason = (str(error).strip().splitlines() or ["it cannot be read"])[0]
        if (unknown := _QUOTED.search(reason)) and unknown[1] in _parameter_names(conninfo):
            return f"{unknown[1]!r} is no parameter of Postgres's own client: leave it out"
        return _QUOTED.sub(lambda match: match[0] if match[1] == "=" else '"…"', reason)
    return _find_wrong_parameter(parameters)


def _parameter_names(conninfo: str) -> list[str]:
    """Return the names of a URL's parameters; none if they may be part of a password."""
    before, _, after = conninfo.partition("?")
    if "@" in after or ("@" not in before and before.count(":") > 1):
        return []
    return [parameter.partition("=")[0] for parameter in after.split("&")]


def _find_wrong_parameter(parameters: Mapping[str, Any]) -> str | None:
    port = str(parameters.get("port") or "")
    if not all(
        number.isdecimal() and int(number) <= _LAST_PORT for number in port.split(",") if number
    ):
        return "the port is no number from 1 to 65,535"
    if "@" in str(parameters.get("host") or ""):
        return "there is more than one @ before the host"
    if _CREDENTIALS.search(str(parameters.get("dbname") or "")):
        return "a user stands where the database does"
    return None


_DRIVER: Final = re.compile(r"postgres(?:ql)?(\+\w+)(?=:)")
_QUOTED: Final = re.compile(r'"([^"]*)(?:"|$)')
_CREDENTIALS: Final = re.compile(r":[^@:]*@")
_LAST_PORT: Final = 65_535


class _LimitedConnection(psycopg.Connection[DictRow]):
    """A connection that sets limits for each round trip, which is a transaction."""

    @contextmanager
    def pipeline(self) -> Iterator[psycopg.Pipeline]:
        """Begin a round trip and set its limits."""
        with super().pipeline() as pipeline:
            self.execute(TRANSACTION_LIMITS)
            yield pipeline


def _configure_checkpointer(conn: psycopg.Connection[DictRow]) -> None:
    """Prepare no statements if the connection is a pooler's; see `Connection.set_up_session`."""
    (row,) = conn.execute(CONNECTION_FACTS, {"type": None}, prepare=False).fetchall()
    if row["pg_backend_pid"] != conn.info.backend_pid:
        conn.prepare_threshold = None


def checkpointer_pool(conninfo: str) -> ConnectionPool[psycopg.Connection[DictRow]]:
    """Return a pool of connections for LangGraph's checkpointer, checked before each use.

    Postgres ends the idle transaction of a process that hangs: the process that takes its work over
    writes to the same rows.
    """
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    return ConnectionPool(
        conninfo,
        min_size=1,
        max_size=2,
        open=False,
        timeout=POOL_TIMEOUT_SECONDS,
        check=ConnectionPool.check_connection,
        configure=_configure_checkpointer,
        connection_class=_LimitedConnection,
        kwargs={
            **options,
            **_unset_defaults(
                conninfo, application_name="langmem-tiers", connect_timeout=5, **ALIVE
            ),
        },
    )
