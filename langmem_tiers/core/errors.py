"""The tree of errors: the classes that a caller catches, and the codes that tell them apart.

    TieredMemoryError
    ├── InvalidInputError (ValueError)      the caller's mistake, found before anything is written
    │   │     invalid_filter                a filter that means nothing
    │   │     not_quarantined               nothing there to be released or rejected
    │   │     tenant_required               a call across tenants, where one at a time is seen
    │   │     tier_conflict                 a put through a tier the memory does not live in
    │   │     too_large                     beyond the store's bounds
    │   └── InvalidTypeError (TypeError)    the wrong kind of thing
    ├── BudgetExceededError                 a turn has spent what it may
    ├── ConfigurationError (ValueError)     settings that cannot work, or do not fit this database
    │         dimension_mismatch            it holds vectors of another size or type
    ├── MissingExtraError (ImportError)     an optional part is not installed
    ├── EmbeddingError                      the embedding model returned something unusable
    │         model_failed                  it raised: it refuses, or is away
    ├── RollbackError                       a move that cannot be undone as things stand
    ├── ModelError                          a chat model named by the caller gave no usable answer
    ├── FileError                           a file that is not what it is to be
    │         archive                       an archive that is missing, or not what was written
    │         import_file                   it cannot be read as memories
    ├── CheckpointError                     a checkpoint that no cycle of consolidation has written
    └── DatabaseError                       Postgres refused, or is not there
        │     embedded_server               the embedded Postgres cannot be started or found
        │     migration                     the schema is of another version
        │     not_set_up                    tables, vectors, pgvector or the database are missing
        │     pool_exhausted                no connection became free
        │     query_timeout                 it took too long, and was undone
        ├── DatabaseUnavailableError
        │   └── OutcomeUnknownError         it may have written, or not: the answer was lost
        └── ConflictError                   somebody else was faster: repeat the call
              lease_lost                    they consolidate this tenant: not before they are done

Every message says what to do next. Errors of the database driver are wrapped once;
the original is the `__cause__`.
"""

from __future__ import annotations

import re
from reprlib import Repr
from typing import Final, Literal, Self

ErrorCode = Literal[
    "archive",
    "dimension_mismatch",
    "embedded_server",
    "import_file",
    "invalid_filter",
    "lease_lost",
    "migration",
    "model_failed",
    "not_quarantined",
    "not_set_up",
    "pool_exhausted",
    "query_timeout",
    "tenant_required",
    "tier_conflict",
    "too_large",
]
"""The code of an error, narrower than its class; each belongs to one class."""

PERMANENT_CODES: Final[tuple[ErrorCode, ...]] = ("not_set_up", "migration")
"""Codes of lasting errors: set up the database, or change the package's version."""

_HEAD: Final = 1_600
_TAIL: Final = 300
"""Characters kept of a long message: its subject at the beginning, the advice at the end."""


class TieredMemoryError(Exception):
    """Root of every error this package raises on purpose."""

    code: ErrorCode | None = None
    """The code within its class; None if the class says all."""

    def __init__(self, message: str = "", *, code: ErrorCode | None = None) -> None:
        """Say what is wrong and what to do next, and which one of its class it is."""
        super().__init__(message)
        self.code = code


class InvalidInputError(TieredMemoryError, ValueError):
    """An argument that cannot be stored or asked for; nothing was written."""

    def __init__(self, message: str = "", *, code: ErrorCode | None = None) -> None:
        """Keep the beginning and the end of a message that repeats what was given at length."""
        cut = f"{message[:_HEAD]} … {message[-_TAIL:]}"
        super().__init__(min(message, cut, key=len), code=code)


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument of the wrong type; nothing was written."""


class BudgetExceededError(TieredMemoryError):
    """A turn has spent its tokens, events or seconds; nothing was added to it."""


class ConfigurationError(TieredMemoryError, ValueError):
    """Options that contradict each other, or the database they are used on."""


class MissingExtraError(TieredMemoryError, ImportError):
    """An optional dependency is needed here and not installed."""


class EmbeddingError(TieredMemoryError):
    """The embedding model raised, or returned the wrong number, size or kind of vectors."""

    model_message: str = ""
    """The message of the model's own error."""

    @classmethod
    def from_model(cls, message: str) -> Self:
        """Make the error of a model that raised, which is the cause; nothing was written."""
        error = cls(
            f"the embedding model failed ({message}) and nothing was written: check its key, its "
            "limits and the connection, then try again",
            code="model_failed",
        )
        error.model_message = message
        return error


class RollbackError(TieredMemoryError):
    """A move that cannot be undone as things stand now; nothing was changed."""


class ModelError(TieredMemoryError):
    """A chat model named by the caller gave no usable answer; nothing was made of it."""


class FileError(TieredMemoryError):
    """A file that is missing, damaged or not what it is to be; nothing was changed."""


class CheckpointError(TieredMemoryError):
    """A checkpoint that is damaged, or that no cycle has written; nothing of it was carried out."""


class DatabaseError(TieredMemoryError):
    """Postgres refused a statement, or cannot be asked; the driver's error is the cause."""


class DatabaseUnavailableError(DatabaseError):
    """No server answers, or the connection to it was lost; no write is in doubt."""


class OutcomeUnknownError(DatabaseUnavailableError):
    """The connection was lost before Postgres answered: what was to be written may be there."""


class ConflictError(DatabaseError):
    """Another transaction changed the rows that a call had read; nothing was written."""


def has_code(error: object, *codes: ErrorCode) -> bool:
    """Tell whether an error is one of ours with one of these codes."""
    return isinstance(error, TieredMemoryError) and error.code in codes


def cross_tenant_error(what: str) -> InvalidInputError:
    """Make the error of a call across tenants, on a store that sees one tenant at a time."""
    return InvalidInputError(
        f"{what} crosses tenants, and this store has the rights of an application, which "
        "sees one tenant in each transaction: name the tenant as the first label of the "
        "namespace, or open a store as the database's owner or as a worker for this",
        code="tenant_required",
    )


def error_kind(error: BaseException) -> str:
    """Name the class of an error, and its code if it has one."""
    code = error.code if isinstance(error, TieredMemoryError) else None
    return type(error).__name__ + (f" ({code})" if code else "")


def describe_error(error: BaseException) -> str:
    """Describe an error by its message, and one of another package by its class as well."""
    ours = isinstance(error, TieredMemoryError)
    return str(error) if ours else f"{type(error).__name__}: {error}"


def short(value: object, length: int = 80) -> str:
    """Shorten a value for an error message, however deep or long it is; passwords are hidden."""
    return mask_passwords(_BRIEF.repr(value))[:length]


def short_path(path: object) -> str:
    """Show a path in an error message: up to 400 characters."""
    return short(str(path), 400)


def mask_passwords(text: str) -> str:
    """Hide passwords in the URLs and connection strings of a text."""
    return _PASSWORD.sub(r"\g<name>***", _WORD.sub(_without_credentials, text))


def _without_credentials(word: re.Match[str]) -> str:
    url, at, host = word[0].rpartition("@")
    return _CREDENTIALS.sub(r"\g<user>:***", url) + at + host if at else host


# A word is cut at its last "@" before it is searched: one pattern over the whole text would look
# for the "@" again from each "//" of the text.
_WORD: Final = re.compile(r"(?<!\S)\S+")
_CREDENTIALS: Final = re.compile(r"(?P<user>//[^:/@]*):.*")
_PASSWORD: Final = re.compile(
    r"(?P<name>\b\w*(?:password|passwd)\s*=\s*)(?:'(?:[^'\\]|\\+.)*'?|[^\s&'\"]+)", re.IGNORECASE
)


class _BriefRepr(Repr):
    """Shows the beginning of what is nested, and how long a number is that is too long to show."""

    def repr_str(self, x: str, level: int) -> str:  # noqa: ARG002 - reprlib's
        return repr(x[:400])

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002 - reprlib's
        bits = x.bit_length()
        return repr(x) if bits <= _MOST_BITS else f"a number of {bits:,} bits"


_MOST_BITS: Final = 4_000
_BRIEF: Final = _BriefRepr()
_BRIEF.maxother = 400
