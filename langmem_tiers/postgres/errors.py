"""Translation of psycopg's errors into ours, and the rules for another attempt after one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from langmem_tiers.core import errors
from langmem_tiers.postgres.flow import BuildIndex, Effect, Query, Script

NOT_SET_UP = (
    "this database has no langmem-tiers tables, or those of an older version: call store.setup() "
    "once, or run `langmem-tiers setup`"
)
_MISSING_OBJECT = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)
_NO_DATABASE = re.compile(r'database "([^"]*)" does not exist')
"""The message of a server without the database: psycopg gives no code for it. In another language
it counts as a refused connection."""
PREPARED_ELSEWHERE = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
)
"""The errors of a statement that was prepared in another session, or by another client: the
connection is a pooler's."""
_DEADLINE_ADVICE = (
    "look for what holds the locks that it waits for, or for what lies between here and Postgres, "
    "ask for less at once, or raise call_timeout_ms: open the store with "
    "bounds=Bounds(call_timeout_ms=…)"
)
_TRANSIENT = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    *PREPARED_ELSEWHERE,
)
SESSION_ENDED = (psycopg.errors.AdminShutdown, psycopg.errors.IdleSessionTimeout)
"""The errors with which a server ends a session; it undoes everything uncommitted."""

TOO_MANY_CONNECTIONS = "53300"
"""The SQLSTATE of a server that has no connection left."""


class StatementCut(psycopg.errors.QueryCanceled):
    """A statement was cancelled at its call's deadline, and wrote nothing."""


class CancelUnanswered(psycopg.OperationalError):
    """A server answered neither by a call's deadline nor to the cancellation."""


def find_interrupt(error: BaseException) -> KeyboardInterrupt | None:
    """Return the Ctrl-C that broke a statement off, if psycopg raised another error after it."""
    context = error.__context__
    while context is not None and not isinstance(context, KeyboardInterrupt):
        context = context.__context__
    return context


def translate(
    error: psycopg.Error | PoolTimeout, effect: Effect | None = None
) -> errors.DatabaseError:
    """Return our error for one of psycopg's; raise it from the original, which stays the cause.

    `effect` is the effect that raised it, if a flow did.
    """
    if isinstance(error, PoolTimeout):
        return errors.DatabaseError(
            "no connection became free in time: raise pool_config['max_size'], or its 'timeout' "
            "(seconds) and the store's Bounds(call_timeout_ms=…), or look for what holds "
            "connections so long",
            code="pool_exhausted",
        )
    if isinstance(error, psycopg.errors.QueryCanceled | CancelUnanswered):
        return errors.DatabaseError(_timeout_message(error, effect), code="query_timeout")
    if (missing := _missing_message(error, effect)) is not None:
        return errors.DatabaseError(missing, code="not_set_up")
    if (refused := _refusal_message(error, effect)) is not None:
        return errors.DatabaseError(refused)
    if isinstance(error, psycopg.OperationalError) and _is_about_the_connection(error):
        return errors.DatabaseUnavailableError(
            f"Postgres does not answer or dropped the connection ({_first_line(error)}): check "
            "that it runs and that the connection string is right, its database included, then "
            "repeat the call"
        )
    return errors.DatabaseError(f"Postgres refused the statement: {_first_line(error)}")


def _refusal_message(error: psycopg.Error, effect: Effect | None) -> str | None:
    """Return advice for a role that lacks a right; None for another error."""
    if isinstance(effect, BuildIndex) and "unsupported startup parameter" in str(error):
        return f"this pooler takes no options ({_first_line(error)}): {_BUILD_ADVICE}"
    if not isinstance(error, psycopg.errors.InsufficientPrivilege):
        return None
    helps = effect.advice if isinstance(effect, Script) else ""
    return f"this role lacks a right ({_first_line(error)}): {helps or _RIGHTS_ADVICE}"


def _missing_message(error: psycopg.Error, effect: Effect | None) -> str | None:
    """Return advice where tables, pgvector or the database are missing; None for another error."""
    if isinstance(error, _MISSING_OBJECT):
        return NOT_SET_UP
    if isinstance(error, psycopg.errors.FeatureNotSupported) and isinstance(effect, Script):
        return (
            f"pgvector is not installed on this Postgres server ({_first_line(error)}): install it "
            "there (the package postgresql-NN-pgvector of Debian and Ubuntu, NN being the server's "
            "version, or the Docker image pgvector/pgvector) and call setup again; or let the "
            "store bring its own Postgres: TieredStore.embedded(path)"
        )
    refused = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    if refused and (unknown := _NO_DATABASE.search(str(error))):
        return (
            f"there is no database {unknown[1]!r} on this server: create it (CREATE DATABASE, or "
            "createdb) and call store.setup() once, or correct the connection string"
        )
    return None


_RIGHTS_ADVICE = (
    "setup needs CREATE on the database, and a superuser to run `CREATE EXTENSION vector` once if "
    "it is not there; an application or a worker needs to be a member of its role"
)
_BUILD_ADVICE = (
    "an index is built by a role whose own statement_timeout is 0 (ALTER ROLE … SET "
    "statement_timeout = 0), or by a store that connects to the server itself, not to a pooler"
)


def _timeout_message(error: psycopg.Error, effect: Effect | None) -> str:
    """Return advice for a statement that took too long; a recall has a time-out of its own."""
    if isinstance(error, StatementCut | CancelUnanswered):
        return f"{_first_line(error)}: {_DEADLINE_ADVICE}"
    helps = (
        "look for what holds the locks that it waits for, ask for less at once, or raise "
        "statement_timeout_ms: open the store with bounds=Bounds(statement_timeout_ms=…)"
    )
    if isinstance(effect, Query) and any(call.name == "limit_time" for call in effect.calls):
        helps = (
            "raise query_timeout_ms in CoordinatorSettings, or narrow what is asked by tiers, "
            "project_id or memory_types"
        )
    elif isinstance(effect, BuildIndex):
        helps = _BUILD_ADVICE
    return f"Postgres broke the statement off ({_first_line(error)}): {helps}"


@contextmanager
def translate_checkpointer_errors() -> Iterator[None]:
    """Raise the errors of LangGraph's checkpointer on Postgres as ours."""
    try:
        yield
    except _MISSING_OBJECT as error:
        raise errors.DatabaseError(
            "this database has no tables of the checkpointer: call its setup() once",
            code="not_set_up",
        ) from error
    except psycopg.Error as error:
        raise translate(error) from error


def _is_about_the_connection(error: psycopg.Error) -> bool:
    """Return True for class 08, shutdowns (57P0x), too many connections, or no SQLSTATE."""
    state = error.sqlstate
    return state is None or state.startswith(("08", "57P")) or state == TOO_MANY_CONNECTIONS


def is_transient(
    error: psycopg.Error, conn: psycopg.BaseConnection[Any], *, began_before: bool
) -> bool:
    """Return True if the same statements may succeed when they run again.

    They run on another connection if this one is closed. A transaction that had begun before
    cannot do that.
    """
    if find_interrupt(error):
        return False
    if conn.closed:
        return not began_before
    return isinstance(error, _TRANSIENT)


def is_outcome_unknown(
    error: psycopg.Error, conn: psycopg.BaseConnection[Any], *, began_before: bool
) -> bool:
    """Return True if statements that commit were sent, and their outcome is unknown.

    A server that ends a session says so, and has then committed nothing of that round trip. If a
    COMMIT ended a longer transaction, the server may also say so just after it.
    """
    if find_interrupt(error):
        return False  # the interrupt itself is what the caller gets
    return conn.closed and (began_before or not isinstance(error, SESSION_ENDED))


def is_half_sent(error: BaseException, conn: psycopg.BaseConnection[Any]) -> bool:
    """Return True if an error of the client, not of Postgres, stopped a round trip midway.

    Postgres would then commit the statements that were sent.
    """
    return getattr(error, "sqlstate", None) is None and not conn.closed


def outcome_unknown_error(error: psycopg.Error) -> errors.OutcomeUnknownError:
    """Make the error for a write whose answer was lost; raise it from the original."""
    return errors.OutcomeUnknownError(
        f"the connection was lost before Postgres answered ({_first_line(error)}): what was to be "
        "written may or may not be there; read it, then repeat the call if it is not"
    )


def can_roll_back(conn: psycopg.BaseConnection[Any]) -> bool:
    """Return True if a transaction is open on a connection that still works."""
    return conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
