"""Failure signatures: the same failure has the same one tomorrow, elsewhere, in another form."""

from __future__ import annotations

import hashlib
import traceback
from dataclasses import dataclass
from typing import Final

from langmem_tiers.core.errors import InvalidTypeError
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.learn.failures.placeholders import comparison, template
from langmem_tiers.learn.failures.reading import read
from langmem_tiers.remember.new import label

LONGEST: Final = 400
"""Bytes of a signature as it is stored and looked up."""
NO_CLASS: Final = "error"

_ASSERTION: Final = "AssertionError"
_DIGITS: Final = 12
_PASSES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What failed, without what was accidental about it.

    `tool` is what failed, if known. `error` is the exception's class without its module, a
    compiler's or program's own code (`E0308`, `ENOENT`), `panic`, or `error` if there is none.
    `template` is the message, with placeholders for all that was accidental; it may be empty.

    Raises:
        InvalidInputError: for what is no text that can be stored, and for a tool whose name is
            empty or longer than 400 bytes.
    """

    tool: str | None
    error: str
    template: str

    def __post_init__(self) -> None:
        """Refuse what could be neither stored nor looked up."""
        label(self.tool, "a tool")
        for said in (self.error, self.template):
            if not isinstance(said, str):
                raise InvalidTypeError(f"a signature is of texts, not of {type(said).__name__}")
            utf8_bytes(said, "signature")

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.tool, self.error, self.template) if part)
        whole = said.encode()
        if len(whole) <= LONGEST:
            return said
        end = f"…{hashlib.sha256(whole).hexdigest()[:_DIGITS]}"
        return whole[: LONGEST - len(end.encode())].decode(errors="ignore") + end


def signature(failure: BaseException | str, *, tool: str | None = None) -> Signature:
    """The signature of an exception, or of any text that says what failed.

    A text can be a traceback, a failed tool's message, a test's or a program's output. Of chained
    exceptions the last one counts, which reached the caller: it is what every form shows, while
    what was handled on the way is often an accident. Of a group the first one counts. `Exception`
    and LangChain's `ToolException` say nothing by their name: their message is read like any text.
    """
    if isinstance(failure, BaseException):
        text = _printed(failure)
    elif isinstance(failure, str):
        text = failure
    else:
        raise InvalidTypeError(
            f"A failure is an exception or a text, not {type(failure).__name__}; pass str(…) of it."
        )
    error, said = _settled(text.encode(errors="replace").decode())
    return Signature(tool=tool, error=error, template=said)


def _printed(failure: BaseException) -> str:
    """An exception as a traceback without frames; its own `__str__` may be broken."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    said = "".join(traceback.format_exception_only(failure))
    return f"Traceback (most recent call last):\n{said}"


def _settled(text: str) -> tuple[str, str]:
    """Read and masked until that changes nothing, so that a template is its own template."""
    error = NO_CLASS
    for _ in range(_PASSES):
        found, message = read(text)
        error = found or error
        said = template(message)
        if _ASSERTION in (error, found) or said.startswith("assert "):
            error, said = _ASSERTION, comparison(said)
        if said == text:
            break
        text = said
    return error, text
