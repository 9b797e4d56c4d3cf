"""How large, how deep and how long: what a store takes of one call, checked at the door."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final, TypeVar

from langmem_tiers.core.errors import ConfigurationError, TooLargeError, short

T = TypeVar("T")

_MOST: Final = {
    "value_bytes": 268_435_455,  # what jsonb holds
    "value_depth": 1_000,  # Python's own recursion limit, unless it is raised
    "limit": 2**31 - 1,
    "statement_timeout_ms": 2**31 - 1,  # what Postgres takes
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a store takes of one call: the configuration's `memory.bounds`.

    They are generous: whoever meets one has made a mistake, or knows why to raise it. What goes
    beyond is refused by a `TooLargeError` before anything is embedded or written. All are our own
    choice, for the reasons given.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.

    Example:
        ```python
        from langmem_tiers import Bounds, TieredStore

        bounds = Bounds(batch=500_000, statement_timeout_ms=10_000)
        store = TieredStore.embedded("./.memory", bounds=bounds)
        ```
    """

    value_bytes: int = 8 * 1024 * 1024
    """Bytes of a value as JSON in UTF-8. A content of a million characters fits, whichever they
    are: JSON writes none of them in more than six bytes."""
    value_depth: int = 600
    """Levels of mappings and lists in a value, and of keys in a filter. PHP's JSON reads 512;
    Python gives up a few hundred later, depending on who calls."""
    query_characters: int = 100_000
    """Characters of a query. Embedding models read about 8,000 tokens, which is a third of it, and
    the search by words 4,000 characters."""
    filter_conditions: int = 1_000
    """Conditions of a filter, or of `list_namespaces`. Each is looked at for each memory in
    scope."""
    limit: int = 100_000
    """Items that a `search`, or namespaces that a `list_namespaces`, may ask for. All of them are
    in memory at once; further pages are had by `offset`. A coordinator's recall has its own limit,
    1,000 memories."""
    batch: int = 100_000
    """Operations in a `batch`, memories in a `store_many`, queries in a `get_context_batch`: one
    transaction. So many tags, entities, origins and recalled texts may a memory list as well, and
    so many texts of a value are indexed."""
    statement_timeout_ms: int | None = 60_000
    """Milliseconds that Postgres may take for one statement, waiting for locks included; None or 0
    for as long as it takes. A shorter one of the database or the role stays. A recall has its own,
    the coordinator's `query_timeout_ms`; migrations and index builds have none."""

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        for one in fields(self):
            _check(getattr(self, one.name), one.name)

    def check_value(self, value: object, text: str) -> None:
        """Refuse a value, of which `text` is the JSON, that is too large or nested too deeply."""
        if len(text) * 4 > self.value_bytes:
            size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
            if size > self.value_bytes:
                raise _beyond("value_bytes", self.value_bytes, f"a value of {size:,} bytes of JSON")
        if text.count("{") + text.count("[") > self.value_depth:
            self.check_depth(value)

    def check_depth(self, value: object) -> None:
        """Refuse a value that is nested too deeply, however deep it is."""
        level: Iterable[object] = (value,)
        for _ in range(self.value_depth):
            inner = (part for one in level for part in _parts(one) if isinstance(part, _NESTED))
            level = {id(part): part for part in inner}.values()  # each once, however often it is in
            if not level:
                return
        raise self.too_deep("a value")

    def too_deep(self, what: str) -> TooLargeError:
        """The error for what is nested too deeply."""
        most = self.value_depth
        return _beyond("value_depth", most, f"{what} of more than {most:,} levels")

    def check_content(self, content: object) -> None:
        """Refuse a text that is too large for a value, before anybody looks into it."""
        if isinstance(content, str) and len(content) > self.value_bytes:
            what = f"a content of {len(content):,} characters"
            raise _beyond("value_bytes", self.value_bytes, what)

    def check_query(self, query: str) -> None:
        """Refuse a query that is too long."""
        if len(query) > self.query_characters:
            what = f"a query of {len(query):,} characters"
            raise _beyond("query_characters", self.query_characters, what)

    def beginning(self, said: str) -> str:
        """As much of what was said as a query may be: only who writes a query is refused one."""
        return said[: self.query_characters]

    def check_limit(self, limit: int) -> None:
        """Refuse to answer with too much at once."""
        if limit > self.limit:
            raise _beyond("limit", self.limit, f"a limit of {limit:,}")

    def conditions(self, given: Iterable[T]) -> list[T]:
        """The conditions of a filter, unless there are too many."""
        return self._few("filter_conditions", given, "a list of conditions")

    def listed(self, given: Iterable[T], what: str) -> Iterable[T]:
        """What a memory lists, to be read as often as need be, unless it is too much."""
        if isinstance(given, Iterator) or (isinstance(given, Sized) and len(given) > self.batch):
            return self._few("batch", given, what)
        return given

    def batched(self, given: Iterable[T]) -> list[T]:
        """What is to be done at once, unless it is too much."""
        return self._few("batch", given, "a batch")

    def _few(self, name: str, given: Iterable[T], what: str) -> list[T]:
        most: int = getattr(self, name)
        found = list(islice(given, most + 1))
        if len(found) > most:
            number = f"{len(given):,}" if isinstance(given, Sized) else f"more than {most:,}"
            raise _beyond(name, most, f"{what} of {number}")
        return found


_NESTED: Final = (dict, list, tuple)


def _parts(one: object) -> Iterable[Any]:
    if isinstance(one, Mapping):
        return one.values()
    return one if isinstance(one, list | tuple) else ()


def _beyond(name: str, most: int, what: str) -> TooLargeError:
    return TooLargeError(
        f"{what} is beyond {name}, which is {most:,}: give less, or open the store with "
        f"bounds=Bounds({name}=…)"
    )


def _check(value: object, key: str) -> None:
    most = _MOST.get(key, sys.maxsize - 1)
    if key != "statement_timeout_ms":
        checked_whole(value, key, 1, most)
    elif value is not None and (type(value) is not int or not 0 <= value <= most):
        raise ConfigurationError(
            f"{key} is a whole number of milliseconds up to {most:,}, or null for no end, "
            f"not {short(value)}"
        )


def checked_whole(value: object, key: str, low: int, high: int) -> int:
    """A whole number in this range, or a ConfigurationError that begins with its key."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise ConfigurationError(f"{key} is a whole number from {low} to {high:,}, not {short(value)}")


DEFAULT: Final = Bounds()
