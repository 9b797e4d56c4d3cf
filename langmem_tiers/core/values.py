"""Values as Postgres keeps them: JSON that comes back equal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeVar

from langmem_tiers.core.checks import MAX_NAMESPACE_BYTES, utf8_bytes
from langmem_tiers.core.config import Bounds
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError

T = TypeVar("T")
_STRING_OR_BIG_FLOAT = re.compile(r'"(?:[^"\\]++|\\.)*+"?|-?(?<![\d.])\d++(?:\.\d++)?e\+\d+')

_NUL = re.compile(r"(?<!\\)(?:\\\\)*+\\u0000")
"""A NUL in JSON; behind an escaped backslash it is none."""


def encode_value(value: Mapping[str, Any], bounds: Bounds | None = None) -> str:
    """Write a value as JSON that `jsonb` gives back equal; within bounds, if they are given.

    Raises:
        InvalidTypeError: if it is no mapping, or holds what JSON has no form for.
        InvalidInputError: for NaN, infinite numbers, NUL, lone surrogates or circular nesting.
        InvalidInputError (too_large): if it is too large, or nested too deeply.
    """
    if not isinstance(value, Mapping):
        raise InvalidTypeError(
            f"a value is a mapping, not {type(value).__name__}; wrap it: {{'content': …}}"
        )
    try:
        text = json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise InvalidTypeError(
            f"the value is not JSON ({error}); convert it first, datetimes by .isoformat()"
        ) from error
    except ValueError as error:
        raise InvalidInputError(f"the value is not JSON: {error}") from error
    except RecursionError as error:
        if bounds is not None:
            bounds.check_depth(value)
        raise InvalidInputError(
            "the value is nested more deeply than Python can write from here; flatten it",
            code="too_large",
        ) from error
    if bounds is not None:
        bounds.check_value(value, text)
    if _NUL.search(text):
        raise InvalidInputError("the value holds a NUL character, which Postgres cannot store")
    utf8_bytes(text, "value")
    return _spell_out_big_floats(text) if "e+" in text else text


def content_of(value: Mapping[str, Any]) -> str:
    """Read the text of a value: its `content` or `text`, else all of it as JSON."""
    for name in ("content", "text"):
        text = value.get(name)
        if isinstance(text, str):
            return text
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def source_of(value: Mapping[str, Any]) -> str:
    """Read the source of a memory: `user` unless its value names another."""
    source = value.get("source")
    return source if isinstance(source, str) else "user"


def trust_of(value: Mapping[str, Any]) -> float:
    """Read the trust of a memory, in 0…1: 1 unless its value says less."""
    trust = value.get("trust")
    number = isinstance(trust, int | float) and not isinstance(trust, bool)
    return float(trust) if number and 0 <= trust <= 1 else 1.0  # type: ignore[operator, arg-type]


SMALL_TALK: Final = "small_talk"
"""The field of what a user says: the chance, in 0…1, that it tells nothing, such as thanks."""


def small_talk_chance(value: Mapping[str, Any]) -> float | None:
    """Read the chance that a message tells nothing; None if nobody judged it."""
    talk = value.get(SMALL_TALK)
    if isinstance(talk, bool) or not isinstance(talk, int | float):
        return None
    return min(max(float(talk), 0.0), 1.0)


def visible_text(value: Mapping[str, Any], state: str | None) -> str:
    """Read the text of a memory that is shown beside another; "" if it is quarantined."""
    return "" if state == "quarantined" else content_of(value)


def provenance_of(values: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Build the provenance of a derived value: source and trust of its least trusted origin.

    Nothing, if all are wholly trusted.
    """
    least = min(values, key=trust_of, default={})
    if trust_of(least) >= 1.0:
        return {}
    return {"source": source_of(least), "trust": trust_of(least)}


class RecallFields(NamedTuple):
    """The fields of a value that recall reads, beside its text."""

    session: str | None = None
    turn: int | None = None
    """Its place among what was said in the session; None lets it follow the last."""
    speaker: str | None = None
    occurred_at: datetime | None = None
    signature: str | None = None
    """The signature of the failure."""
    tool: str | None = None
    """The tool it failed in."""
    valid_from: datetime | None = None
    """The beginning of its valid time."""
    valid_to: datetime | None = None
    """The end of its valid time."""


NO_RECALL_FIELDS = RecallFields()


def read_recall_fields(value: Mapping[str, Any]) -> RecallFields:
    """Read `session_id`, `turn`, `speaker`, and when: `occurred_at`, `valid_from`, `valid_to`.

    Times are ISO 8601; UTC unless they say so. Of what has a `signature`, that and its `tool`; of a
    lesson without one, its `tool`. A value may hold anything under these names: what does not fit
    is not used.
    """
    if not _RECALL_FIELDS.isdisjoint(value):
        session, speaker = _valid_name(value.get("session_id")), _valid_name(value.get("speaker"))
        turn = value.get("turn")
        numbered = session and type(turn) is int and 0 <= turn < MAX_TURN
        moment = _parse_moment(value.get("occurred_at"))
        signature = _valid_name(value.get("signature"))
        tool = _valid_name(value.get("tool")) if signature or _ADVICE_FIELD in value else None
        began, ended = _parse_moment(value.get("valid_from")), _parse_moment(value.get("valid_to"))
        if began and ended and began >= ended:
            began = ended = None
        order = turn if numbered else None
        return RecallFields(session, order, speaker, moment, signature, tool, began, ended)
    return NO_RECALL_FIELDS


_ADVICE_FIELD = "improved_approach"
"""A field that only lessons have."""
_TIME_FIELDS = ("occurred_at", "valid_from", "valid_to")
_RECALL_FIELDS = frozenset(("session_id", "speaker", "signature", _ADVICE_FIELD, *_TIME_FIELDS))
MAX_TURN = 2**31 - 10


def _valid_name(named: object) -> str | None:
    if isinstance(named, str) and 0 < len(named.encode(errors="replace")) <= MAX_NAMESPACE_BYTES:
        return named
    return None


def _parse_moment(written: object) -> datetime | None:
    if not isinstance(written, str):
        return None
    try:
        moment = datetime.fromisoformat(written)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _spell_out_big_floats(text: str) -> str:
    """Keep 1e23 a float: jsonb would print it without a point, and it would return an int."""

    def spell(match: re.Match[str]) -> str:
        token = match[0]
        return token if token.startswith('"') else f"{Decimal(float(token)):f}.0"

    return _STRING_OR_BIG_FLOAT.sub(spell, text)


def replace_unstorable(text: str) -> str:
    """Replace the characters that Postgres cannot hold: NUL, and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


LEXICAL_BYTES = 262_144
"""Bytes of a text that the lexical leg covers: a tsvector holds 1 MB at most."""

_ENDLESS = re.compile(r"\S{250}(?=\S)")


def lexical_text(text: str) -> str:
    """Cut a text to the lexical leg's size, and its words to a length that Postgres parses.

    It reads a run without blanks anew from each of its signs, and indexes no word of 2 KB.
    """
    if len(text) * 4 > LEXICAL_BYTES:
        text = text.encode()[:LEXICAL_BYTES].decode(errors="ignore")
    return _ENDLESS.sub(r"\g<0> ", text)


def batches(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Split items, in order, into the fewest batches of at most this size, or of one item."""
    batch: list[T] = []
    held = 0
    for item in items:
        if batch and held + size(item) > most:
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += size(item)
    if batch:
        yield batch
