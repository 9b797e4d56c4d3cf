"""What can go wrong, as one tree.

    TieredMemoryError
    ├── InvalidInputError (ValueError)      the caller's mistake, found before anything is written
    │   ├── InvalidTypeError (TypeError)    the wrong kind of thing
    │   ├── InvalidFilterError
    │   ├── TenantRequiredError             a call across tenants, where one at a time is seen
    │   ├── NotQuarantinedError             nothing there to be released or rejected
    │   ├── TooLargeError                   beyond the store's bounds
    │   └── TierConflictError               a put through a tier the memory does not live in
    ├── BudgetExceededError                 a turn has spent what it may
    ├── ConfigurationError (ValueError)     settings that cannot work, or do not fit this database
    │   └── DimensionMismatchError
    ├── MissingExtraError (ImportError)     an optional part is not installed
    ├── EmbeddingError                      the embedding model returned something unusable
    │   └── EmbeddingFailedError            it raised: it refuses, or is away
    ├── RollbackError                       a move that cannot be undone as things stand
    ├── ModelError                          a chat model named by the caller gave no usable answer
    ├── ImportFileError                     a file that cannot be read as memories
    ├── ArchiveError                        an archive that is not what was written
    ├── CheckpointError                     a checkpoint that no cycle of consolidation has written
    ├── LeaseLostError                      somebody else consolidates this tenant by now
    └── DatabaseError                       Postgres refused, or is not there
        ├── DatabaseUnavailableError
        │   └── OutcomeUnknownError         it may have written, or not: the answer was lost
        ├── PoolExhaustedError
        ├── ConflictError                   somebody else was faster: repeat the call
        ├── NotSetUpError
        ├── QueryTimeoutError
        ├── MigrationError
        └── EmbeddedServerError

Every message says what to do next. Errors of the database driver are wrapped once;
the original is the `__cause__`.
"""

from __future__ import annotations

import re
from reprlib import Repr
from typing import Final

_HEAD: Final = 1_600
_TAIL: Final = 300
"""A message keeps so many characters: they say what it is about, and what to do."""


class TieredMemoryError(Exception):
    """Root of every error this package raises on purpose."""


class InvalidInputError(TieredMemoryError, ValueError):
    """An argument that cannot be stored or asked for; nothing was written."""

    def __init__(self, message: str = "") -> None:
        """Keep the beginning and the end of a message that repeats what was given at length."""
        cut = f"{message[:_HEAD]} … {message[-_TAIL:]}"
        super().__init__(min(message, cut, key=len))


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument of the wrong type; nothing was written."""


class InvalidFilterError(InvalidInputError):
    """A search filter that means nothing, such as an unknown operator."""


class TenantRequiredError(InvalidInputError):
    """A call across tenants, on a store that sees one tenant at a time; nothing was asked."""

    def __init__(self, what: str) -> None:
        """Say what was called."""
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        """What was called, and what to do."""
        return (
            f"{self.what} crosses tenants, and this store has the rights of an application, which "
            "sees one tenant in each transaction: name the tenant as the first label of the "
            "namespace, or open a store as the database's owner or as a worker for this"
        )


class NotQuarantinedError(InvalidInputError):
    """What is to be released or rejected is not quarantined, or not there; nothing was done."""


class TooLargeError(InvalidInputError):
    """A value, query, filter, limit or batch beyond the store's bounds; nothing was done."""


class TierConflictError(InvalidInputError):
    """A put through one tier's view, for a memory that lives in another tier."""


class BudgetExceededError(TieredMemoryError):
    """A turn has spent its tokens, events or seconds; nothing was added to it."""


class ConfigurationError(TieredMemoryError, ValueError):
    """Options that contradict each other, or the database they are used on."""


class DimensionMismatchError(ConfigurationError):
    """The database holds vectors of another size or type than the store is configured for."""


class MissingExtraError(TieredMemoryError, ImportError):
    """An optional dependency is needed here and not installed."""


class EmbeddingError(TieredMemoryError):
    """The embedding model returned the wrong number, size or kind of vectors."""


class EmbeddingFailedError(EmbeddingError):
    """The embedding model raised, which is the cause; nothing was written."""

    def __init__(self, said: str) -> None:
        """Say what the model said."""
        self.said = said
        super().__init__(said)

    def __str__(self) -> str:
        """What it said, and what to do."""
        return (
            f"the embedding model failed ({self.said}) and nothing was written: check its key, its "
            "limits and the connection, then try again"
        )


class RollbackError(TieredMemoryError):
    """A move that cannot be undone as things stand now; nothing was changed."""


class ModelError(TieredMemoryError):
    """A chat model named by the caller gave no usable answer; nothing was made of it."""


class ImportFileError(TieredMemoryError):
    """A file that is not in any format that can be imported."""


class ArchiveError(TieredMemoryError):
    """An archive file that is missing, damaged or not what was written; nothing was changed."""


class CheckpointError(TieredMemoryError):
    """A checkpoint that is damaged, or that no cycle has written; nothing of it was carried out."""


class LeaseLostError(TieredMemoryError):
    """The lease of a tenant's consolidation is somebody else's; nothing was changed."""


class DatabaseError(TieredMemoryError):
    """Postgres refused a statement; the driver's error is the cause."""


class DatabaseUnavailableError(DatabaseError):
    """No server answers, or the connection to it was lost; no write is in doubt."""


class OutcomeUnknownError(DatabaseUnavailableError):
    """The connection was lost before Postgres answered: what was to be written may be there."""


class PoolExhaustedError(DatabaseError):
    """Every connection of the pool stayed busy for the whole time-out."""


class ConflictError(DatabaseError):
    """What a call had read was changed before it could write; nothing was written."""


class NotSetUpError(DatabaseError):
    """The database has no tables of this package, older ones, or not the vector tables."""


class QueryTimeoutError(DatabaseError):
    """A statement or a call took too long and was broken off: nothing of it is left."""


class MigrationError(DatabaseError):
    """The database's schema version and this package's do not fit together."""


class EmbeddedServerError(DatabaseError):
    """The embedded Postgres could not be started or found."""


def worded(error: BaseException) -> str:
    """What an error says; one that is not ours by its class as well, as that may be all it says."""
    ours = isinstance(error, TieredMemoryError)
    return str(error) if ours else f"{type(error).__name__}: {error}"


def short(value: object, length: int = 80) -> str:
    """A value as an error message shows it: its beginning, however deep or long it is."""
    return masked(_BRIEF.repr(value))[:length]


def path_of(path: object) -> str:
    """A path as an error message shows it: whole, as far as paths are long."""
    return short(str(path), 400)


def masked(text: str) -> str:
    """Hide what stands as a password in a URL or a connection string of a text."""
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


class _Brief(Repr):
    """Shows the beginning of what is nested, and how long a number is that is too long to show."""

    def repr_str(self, x: str, level: int) -> str:  # noqa: ARG002 - reprlib's
        return repr(x[:400])

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002 - reprlib's
        bits = x.bit_length()
        return repr(x) if bits <= _MOST_BITS else f"a number of {bits:,} bits"


_MOST_BITS: Final = 4_000
_BRIEF: Final = _Brief()
_BRIEF.maxother = 400
