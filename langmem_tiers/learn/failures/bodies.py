"""What the body of an answer says of a failure: JSON, a page, the text of a remote call."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Said(NamedTuple):
    """What a text says: the class, if it names one, and what is left to read."""

    error: str | None
    message: str


_CODE: Final = re.compile(
    r"\bcode['\"]?\s*[:=]\s*['\"]?(?!(?:error|null|None|true|false)\b)([A-Za-z_]{3,})\b"
    r"|\b(?:error|title)['\"]\s*:\s*['\"]([a-z]+(?:_[a-z]+)+|[A-Z]+(?:_[A-Z]+)+)['\"]"
)
_STATUS: Final = re.compile(r"\bstatus['\"]\s*:\s*['\"]([A-Z][A-Z_]{2,})['\"]")
_KIND: Final = re.compile(r"\bkind: ([A-Z]\w+)")
_TYPE: Final = re.compile(r"\b(?:type|kind)['\"]?\s*[:=]\s*['\"](?!error\b)([A-Za-z_]{3,})['\"]")
_MESSAGE: Final = re.compile(
    r"\b(?:message|error|detail|msg|error_description|title)['\"]\s*:\s*"
    r"(?:\"((?:\\.|[^\"\\])+)\"|'((?:\\.|[^'\\])+)')"
)
_ESCAPE: Final = re.compile(r"\\([nrt'\"\\])")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_PAGE: Final = re.compile(r"\s*<(?:!doctype|html)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<(title|h1)\b[^>]{0,99}>([^<]*+)</\1>", re.IGNORECASE)
_CALL: Final = re.compile(
    r"(?:[\w.]+: )?<(_?\w+) of RPC that (?>.*?status = StatusCode\.(?=[A-Z_]))([A-Z_]++)"
    r"(?>.*?details = \")(.*?)\"(?:\n|\\n|>)",
    re.DOTALL,
)


def unescaped(text: str) -> str:
    """Text as it was before it was printed in quotes."""
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)


def said_by(body: str) -> str | None:
    """The code a JSON body names, in capitals as codes are kept; else its type and its message."""
    if found := _CODE.search(body) or _STATUS.search(body) or _KIND.search(body):
        return (found[1] or found[found.re.groups]).upper()
    message = message_in(body)
    if message is None:
        return None
    kind = _TYPE.search(body)
    return f"{kind[1].upper()} {message}" if kind else message


def message_in(body: str) -> str | None:
    """The first message in a JSON body, or in a dictionary as Python prints it."""
    found = _MESSAGE.search(body)
    return unescaped(found[1] or found[2]) if found else None


def titled(text: str) -> str | None:
    """What a page of HTML is headed by."""
    found = _TITLE.search(text) if _PAGE.match(text) else None
    return found[2].strip() if found else None


def called(text: str) -> Said | None:
    """Class, status and details of a gRPC call."""
    found = _CALL.match(text)
    return Said(found[1], f"{found[2]} {unescaped(found[3])}") if found else None
