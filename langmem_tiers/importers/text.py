"""What files write, as text: the content of messages, whatever its parts are, and dates."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from langmem_tiers.core.errors import InvalidInputError

_TEXT_FIELDS = ("text", "refusal", "transcript", "content")
_CALL_KINDS = ("tool_use", "tool_call", "function_call", "server_tool_use")
_MEDIA = ("image", "audio", "video", "file")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TEXT = re.compile(r"\d{9,10}(\.\d+)?")
_SPOKEN = ("%I:%M %p on %d %B %Y", "%d %B %Y")
"""Read with the names of months that the process's locale has; English unless it set one."""


def content_text(content: object) -> str:
    """Return content (text, a list of parts, or nothing) as text.

    Parts stand on lines of their own; one that is no text, as an image, is named: "[image]".
    Tool calls among the parts are left out: see `calls_text`.
    Raises `InvalidInputError` for any other shape.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidInputError("the content is neither text nor a list of parts")
    return _lines(_part_text(part) for part in content if not _is_call(part))


def calls_text(calls: object, content: object) -> str:
    """Return tool calls as "[calls name(arguments)]", one a line.

    Where the message itself lists none, those among the parts of its content are taken.
    """
    parts = content if isinstance(content, list) else []
    found = calls or [part for part in parts if _is_call(part)]
    if not isinstance(found, list):
        raise InvalidInputError("the tool calls are not a list")
    return _lines(_call_text(call) for call in found)


def first_text(fields: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that is text, and not blank."""
    found = (fields.get(name) for name in names)
    return next((one for one in found if isinstance(one, str) and one.strip()), None)


def joined(*texts: str) -> str:
    """Join the texts that are not blank, one a line."""
    return _lines(texts)


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text.strip())


def _is_call(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _CALL_KINDS


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InvalidInputError("a part of the content is neither text nor an object")
    for field in _TEXT_FIELDS:
        found = part.get(field)
        text = found.get("value") if isinstance(found, Mapping) else found
        if isinstance(text, str | list):
            return content_text(text)
    return f"[{_kind(part)}]"


def _kind(part: Mapping[str, Any]) -> str:
    kind = str(part.get("type") or part.get("content_type") or "part without text")
    return next((media for media in _MEDIA if media in kind), kind)


def _call_text(call: object) -> str:
    if not isinstance(call, Mapping):
        raise InvalidInputError("a tool call is not an object")
    named = call.get("function", call)
    if not isinstance(named, Mapping) or not isinstance(named.get("name"), str):
        raise InvalidInputError("a tool call has no name")
    given: object = next(
        (named[field] for field in ("arguments", "args", "input") if field in named), {}
    )
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f"[calls {named['name']}({arguments})]"


def utc_date(written: object) -> str:
    """Return a date as ISO 8601 in UTC; one without a time zone is taken to be in UTC.

    Read are ISO 8601, seconds since 1970 and "1:56 pm on 8 May, 2023".
    Raises `InvalidInputError` for anything else.
    """
    try:
        return _moment(written).astimezone(UTC).isoformat()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the date {written!r} cannot be read; write it as ISO 8601 "
            "(2023-05-08T13:56:00Z) or as seconds since 1970"
        ) from error


def _moment(written: object) -> datetime:
    if isinstance(written, int | float) and not isinstance(written, bool):
        return _EPOCH + timedelta(seconds=written)
    if not isinstance(written, str):
        raise InvalidInputError("a date is text or a number")
    text = written.strip()
    if _EPOCH_TEXT.fullmatch(text):
        return _EPOCH + timedelta(seconds=float(text))
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        moment = _spoken(text.replace(",", ""))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _spoken(text: str) -> datetime:
    for form in _SPOKEN:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC)
    raise ValueError
