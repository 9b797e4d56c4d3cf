"""Compute failure signatures: the same failure has the same one at any time and place, in any form.

Three steps repeat until they change nothing: find the line of the failure by its marks, remove the
wrapping of its message, and mask all values in it. A word is a value if it has other characters
than letters. No list of words is used.
"""

from __future__ import annotations

import ast
import hashlib
import re
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain, dropwhile, groupby
from textwrap import dedent
from typing import Any, Final, NamedTuple

from langmem_tiers.core.checks import checked_label, utf8_bytes
from langmem_tiers.core.errors import InvalidTypeError

LONGEST: Final = 400
"""The most bytes of a signature as it is stored and looked up."""
NO_CLASS: Final = "error"

_VALUE: Final = "<value>"
_PLACEHOLDER: Final = re.compile(r"<\w+>")
_DIGITS: Final = 12
_PASSES: Final = 300
_LOOKED_AT: Final = 64_000
"""Characters that are read at each end of a text: a failure is reported first or last."""
_LINE: Final = 2_000
"""The most characters of a message that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A failure without its accidental parts.

    `tool` is the tool that failed, if known. `error` is the exception's class without its module, a
    compiler's or program's own code (`E0308`, `ENOENT`), `panic`, or `error` if there is none.
    `template` is the message, with placeholders for its accidental parts; it may be empty.

    Raises:
        InvalidInputError: if a field is no text that can be stored, or the name of the tool is
            empty or longer than 400 bytes.
    """

    tool: str | None
    error: str
    template: str

    def __post_init__(self) -> None:
        """Check that the signature can be stored and looked up."""
        checked_label(self.tool, "a tool")
        for text in (self.error, self.template):
            if not isinstance(text, str):
                raise InvalidTypeError(f"a signature is of texts, not of {type(text).__name__}")
            utf8_bytes(text, "signature")

    @property
    def plain_text(self) -> str:
        """Return the class and message without placeholders; empty for an assertion."""
        if self.error == ASSERTION:
            return ""
        return " ".join(f"{self.error} {_PLACEHOLDER.sub(' ', self.template)}".split())

    def __str__(self) -> str:
        text = ": ".join(part for part in (self.tool, self.error, self.template) if part)
        whole = text.encode()
        if len(whole) <= LONGEST:
            return text
        end = f"…{hashlib.sha256(whole).hexdigest()[:_DIGITS]}"
        return whole[: LONGEST - len(end.encode())].decode(errors="ignore") + end


def signature(failure: BaseException | str, *, tool: str | None = None) -> Signature:
    """Return the signature of an exception, or of any text that reports a failure.

    A text can be a traceback, a failed tool's message, a test's or a program's output. Of chained
    exceptions the last one counts, which reached the caller: every form shows it, while an
    exception that was handled before is often an accident. Of a group the first one counts. The
    names `Exception` and LangChain's `ToolException` carry no meaning: their message is read like a
    text.
    """
    if isinstance(failure, BaseException):
        text = _format_exception(failure)
    elif isinstance(failure, str):
        text = failure
    else:
        raise InvalidTypeError(
            f"A failure is an exception or a text, not {type(failure).__name__}; pass str(…) of it."
        )
    text = text.encode(errors="replace").decode()
    if len(text) > 2 * _LOOKED_AT:
        text = f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    text = _ANSI.sub("", text)
    error, message = _read_and_mask(text)
    if (claim := _assertion(text, error, message)) is not None:
        return Signature(tool=tool, error=ASSERTION, template=claim)
    return Signature(tool=tool, error=error, template=message)


class _Reading(NamedTuple):
    """The class of an error, if it is named, and the rest of the text."""

    error: str | None
    text: str


def _format_exception(failure: BaseException) -> str:
    """Format an exception as a traceback with its last frame; its `__str__` may be broken."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    frames = "".join(traceback.format_tb(failure.__traceback__)[-1:])
    message = "".join(traceback.format_exception_only(failure))
    return f"{_TRACEBACK}\n{frames}{message}"


def _read_and_mask(text: str) -> tuple[str, str]:
    """Read and mask a text until nothing changes, so that a template is its own template."""
    error, text = NO_CLASS, text.strip()
    for _ in range(_PASSES):
        named, rest = _unwrap(text) or _mask(text, error)
        error, before, text = named or error, text, rest.strip()
        if text == before:
            break
    return error, text


def _unwrap(text: str) -> _Reading | None:
    """Remove one wrapping; None if there is none."""
    if match := _TOOL_NODE.fullmatch(text) or _PAGE.match(text):
        return _read_match(match)
    if "\n" in text:
        is_body = text[0] in "{[" and text[-1] in "}]"
        return _Reading(None, " ".join(text.split())) if is_body else _failing_line(text)
    made = (pattern.fullmatch(text) for pattern in _MADE)
    steps = (pattern.fullmatch(text[:_LINE]) for pattern in _STEPS)
    return next((_read_match(match) for match in chain(made, steps) if match), None)


# ---- the line of the failure ----------------------------------------------------------------

_ANSI: Final = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_TRACEBACK: Final = "Traceback (most recent call last):"
_CHAINED: Final = ("During handling of the above", "The above exception was the direct")
_GROUP: Final = "ExceptionGroup: "
_GUTTER: Final = re.compile(r"(?m)^(?: *[|+](?:[-+]*(?: \d+ -*)?| ))+ ?")
_TEST: Final = re.compile(r"(?m)^_{3,} .+ _{3,}$")
_FAILED: Final = re.compile(r"E(?:  |$)")
_RAISED: Final = re.compile(r"(?s)(?:[\w<>]*\.)*(_?[A-Z]\w*|[a-z]*error)(?:: ?(.*))?")
_SPANNING: Final = (
    ("ValidationError", re.compile(r"(?m)^  (\S.*) \[type=\w+[],]")),
    ("panic", re.compile(r"(?m)\bpanicked at (?:'(.*)', \S+$|\S+:\n(.*))")),
    (None, re.compile(r"<\w+ of RPC that[^=]*= StatusCode\.(\w+)")),
)
"""Messages of pydantic, Rust and remote calls that span several lines."""
_CLASS: Final = r"[\w$.]+(?:Error|Exception)"
_BARE: Final = re.compile(rf"{_CLASS}: |(?:\w*\.)+_?[A-Z]\w*: ")
_PLACE: Final = r"[^\s:(]+\.\w+(?::\d+|:?\([^\s()]*\d[^\s()]*\))(?::\d+)*(?::in [`'][^'\n]*')?"
_SIGNS: Final = (
    re.compile(r"(?i).{0,200}?\berror(?: TS\d+|\[\w+\]):|panic: "),
    re.compile(rf"(?:.{{0,120}}?[\s(])?{_CLASS}: "),
    re.compile(rf"{_PLACE}: (?:fatal )?error: "),
    re.compile(rf"(?:\w+: )?{_PLACE}: (?!warning|note|\w{{1,60}}Warning: )"),
    re.compile(r"(?i).{0,120}?\b(?:error|fatal|critical|err!)[\]:!|]*\s"),
)
"""Marks of the line of the failure, the surest first. Of several marked lines the first counts, so
that a closing summary ("could not compile …") does not."""


def _failing_line(text: str) -> _Reading:
    lines = [line[:_LINE] for line in text.splitlines() if line.strip()]
    bare = lines if _BARE.match(lines[0]) else ()
    if raised := _pytest_failure(text) or _traceback_failure(text) or bare:
        return _read_raised(raised)
    if spanning := _read_spanning(text):
        return spanning
    marked = (line for sign in _SIGNS for line in lines if sign.match(line.strip()))
    last = (line for line in reversed(lines) if line[0].isalnum())
    return _Reading(None, next(marked, next(last, lines[-1])))


def _pytest_failure(text: str) -> Sequence[str]:
    """Return the last exception of the first failed test in pytest's output."""
    *_, test = _TEST.split(text, 2)[:2]
    runs = groupby(test.splitlines(), lambda line: bool(_FAILED.match(line)))
    blocks = [[*run] for failed, run in runs if failed]
    lines = dedent("\n".join(line[1:] for line in blocks[-1])).splitlines() if blocks else ()
    return [*dropwhile(lambda line: not line.strip(), lines)]


def _traceback_failure(text: str) -> Sequence[str]:
    """Return the exception that reached the caller: last of the first chain, first of a group."""
    raised: Sequence[str] = ()
    for block in _GUTTER.sub("", text).split(_TRACEBACK)[1:] if _TRACEBACK in text else ():
        lines = [line for line in block.splitlines() if line.strip()]
        raised = [*dropwhile(lambda line: line[0].isspace() or _GROUP in line, lines)] or raised
        if raised and not any(line.startswith(_CHAINED) for line in raised):
            break
    return raised


def _read_raised(lines: Sequence[str]) -> _Reading:
    """Read a class and its message from the lines of an exception."""
    match = _RAISED.fullmatch("\n".join(lines))
    return (
        _read_message(_telling_class(match[1]), (match[2] or "").strip())
        if match
        else _Reading(None, lines[0])
    )


def _read_message(error: str | None, message: str) -> _Reading:
    """Keep the first line of the message of a telling class; else keep the whole message."""
    spanned = _read_spanning(message) or _Reading(error, message.partition("\n")[0])
    return _Reading(error, spanned.text if error else message)


def _read_spanning(text: str) -> _Reading | None:
    for error, pattern in _SPANNING:
        if match := pattern.search(text):
            return _Reading(error, match[match.lastindex or 0])
    return None


# ---- the wrapping of a message --------------------------------------------------------------

_CARRIERS: Final = frozenset({"Error", "Exception", "BaseException", "ToolException"})
"""Classes without a meaning: their message is read like a text."""
_TOOL_NODE: Final = re.compile(
    r"(?s)(?:Error: |Error (?:invoking|executing) tool '[^'\n]*' with kwargs .*? with error:\s)"
    r"(?P<said>.*)Please fix (?:your mistakes|the error and try again)\.?\s*"
)
"""Wrapping of a failure by LangGraph's tool node."""
_PAGE: Final = re.compile(r"(?is)<(?:!doctype|html)\b.*?<title>(?P<said>[^<]*)")
_MOMENT: Final = (
    r"(?:(?:[A-Z][a-z]{2},?|\d[\d/,-]*)[\sT]+){0,4}\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?"
    r"(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
)
"""A time, with parts of a date before it, if any."""
_QUOTED: Final = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_FIRST: Final = rf"(?P<quoted>b?{_QUOTED})?(?P<said>)"
_OWN_CODE: Final = r"[A-Z]{1,4}\d{3,5}|E(?!RROR)[A-Z]{4,}|ERR_[A-Z_]+"
_THREAD: Final = r"(?!Errno|WinError)[\w.:@/ -]{1,60}"
_DOTTED: Final = r"(?:[\w$]*\.)+_?[A-Z]\w*|(?:\w+\.)+error"
_NAME: Final = r"_?[A-Z](?=\w{0,99}[a-z])\w{1,99}|error"
_MADE: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\((?P<number>\d{{3,5}}), (?P<quoted>b?{_QUOTED})(?P<said>)\)",
        r"(?P<error>Unicode\w+)\(.*, '(?P<said>[^']*)'\)",
        rf"(?!KeyError)(?P<error>{_NAME})\((?:(?P<number>-?\d{{1,9}}), |(?=b?['\"])){_FIRST}.*\)",
        rf"(?P<error>{_NAME})\((?P<said>.*)\)",
    )
)
"""Representations of an exception, of any length."""
_STEPS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        # classes and codes
        rf"(?:.{{0,120}}?[\s(])?(?P<error>{_CLASS}): (?P<said>.*)",
        rf"(?:.{{0,200}}?\berror ?\[?)?(?P<error>{_OWN_CODE}|panic)\]?: (?P<said>.*)",
        r"(?:npm (?:ERR!|error) )?code (?P<error>E[A-Z\d]+)(?P<said>)",
        # levels, times, names of threads, marks
        r".{0,120}?\b(?:ERROR|CRITICAL|FATAL)\b[\]:|]*\s\s*(?P<said>\S.*)",
        r"(?:\S+: )?(?i:(?:php )?(?:fatal )?(?:error|fatal|warning))[:!]\s*(?P<said>\S.*)",
        rf"\[?{_MOMENT}\]?[:|,]*\s+(?P<said>\S.*)",
        rf"(?:(?:[\w.-]+ )?[\w./-]+(?=\[\d))?\[{_THREAD}\]:?\s+(?P<said>\S.*)",
        r"\w+=.*?\bmsg=\"?(?P<said>.*)",
        r"[^\w\s'\"`«“<\[({#-]+\s+(?P<said>\S.*)",
        # names of classes, places, programs
        rf"\(?(?P<error>{_DOTTED}|(?:[A-Z][a-z\d]+){{2,9}})(?:: |\) |$)(?P<said>.*)",
        rf"(?:{_PLACE}:?|line \d+:|\d+:) +(?P<said>\S.*)",
        r"(?!curl: )(?:[a-z./~\\][^\s:]*|[A-Z]:[\\/][^\s:]*|<value>): (?P<said>\S+ .+)",
        # parts of only one form of a failure
        r"Command .* exit status (?P<number>-?\d+)(?P<said>)\.?",
        r"Command .* timed out after (?P<said>.*)",
        r"\S+ codec can't \w+ .*: (?P<said>[^:]*)",
        r"(?P<said>.*?)[.?]? ?(?:Did you mean.*| \([^()]*\bline (?:\d+|<value>)\))",
    )
)
"""Wrappings of a message. The first that fits gives the rest of the text and the class of the
error."""


def _read_match(match: re.Match[str]) -> _Reading:
    parts = match.groupdict("")
    message = parts["said"] or _unquote(parts.get("quoted", ""))
    if parts.get("number") and not message.startswith("["):
        message = f"[Errno {parts['number']}] {message}"
    return _read_message(_telling_class(parts.get("error", "").rpartition(".")[2]), message)


def _telling_class(error: str) -> str | None:
    return error if error.isidentifier() and error not in _CARRIERS else None


def _unquote(quoted: str) -> str:
    """Return a quoted text as it was before it was printed."""
    plain = {"n": "\n", "r": "\r", "t": "\t"}
    return re.sub(
        r"\\(.)", lambda escape: plain.get(escape[1], escape[1]), quoted.lstrip("b")[1:-1]
    )


# ---- accidental parts -----------------------------------------------------------------------

_PHRASES: Final = "|".join(
    sorted({re.escape(status.phrase) for status in HTTPStatus}, reverse=True)
)
_CODE: Final = r"\b{}(?:['\"]: ?['\"]([A-Za-z]+(?:_[A-Za-z]+)+|[A-Z]{{3,}})['\"]|: ([A-Z]\w+))"
_CODES: Final = [
    re.compile(_CODE.format(field)) for field in ("code", "status", "kind", "type", "error")
]
_MESSAGE_FIELD: Final = re.compile(
    rf"['\"](?:message|error|detail|msg|error_\w+|title)['\"]: ?({_QUOTED})"
)
_UNIT: Final = r"(?:[kKMGTmnµ]?i?[bBs]|bytes?|sec\w*|min\w*|hours?|days?)\b"
_ACCIDENTS: Final = re.compile(
    rf"""
    (?P<keep>
        <value> | \[(?:Errno|WinError)\ -?\d+\] | \(os\ error\ \d+\)
      | \((?:[A-Z][A-Za-z]+|[45]\d\d)\)
      | '?\b[1-5]\d\d\ (?:{_PHRASES}|(?:Client|Server)\ Error)\b
      | (?i:\bSQLSTATE\W{{0,2}}\w{{5}}\b) | \bORA-\d{{5}}\b | \b[A-Z]{{1,4}}\d{{3,5}}\b
      | (?i:\b(?:exit|code|status|errno|signal|http(?:/[\d.]+)?|error|returned|curl:)
        [\ :=(]{{1,2}}(?:(?:with|status|code)\ ){{0,2}}-?\d{{1,3}}\b(?![.:]\d))
    )
  | (?P<blob> \{{(?:{_QUOTED} | [^{{}}] | \{{[^{{}}]*+\}})*+\}} | \{{.*\}} )
  | (?P<value>
        (?<!\w)`[^`']*'(?!\w)
      | (?<!\w)(?P<quote>['"`])(?:\\.|[^\\])*?(?:(?P=quote)(?!\w)|$)
      | “[^”]*” | \u2018[^\u2019]*\u2019 | «[^»]*»
      | \[(?:{_QUOTED} | [^\[\]] | \[[^\[\]]*+\])*+\] | <(?:[^<>]|<[^<>]*+>)*+>
      | \((?=['"\d-])[^()]*\) | \b(?!\w*Error\()[\w.]{{1,100}}\((?:[^()] | \([^()]*+\))*+\)
      | \b(?:Bearer|Basic)\ [^\s:,;]+ | \b{_MOMENT} | \b\d[\w.,:]*\ {_UNIT}
    )
  | (?P<word> [^\s'"`,;()\[\]{{}}<>«»“”]+ )
    """,
    re.VERBOSE,
)
_KEPT: Final = re.compile(r"[A-Z]+(?:_[A-Z]+)*|\w*(?:Error|Exception|Timeout)|\W+")
_HUMP: Final = re.compile(r"[a-z][A-Z]")
_RUN: Final = re.compile(r"<value>(?:[\s,;/|+&-]{0,4}(?:\(<value>\)|<value>))+")
_LAST: Final = re.compile(r"(?<=\S): <value>(?: -> <value>)?$")
_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f]+")
_ASSERTED: Final = re.compile(
    r"(assert )?(?:[^:]*: )?.*? ([=!]=|[<>]=?|(?(1)(?:not )?in|=)|(?(1)is(?: not)?|=)) .*"
)
"""Only the operator of an assertion counts: the operands can be anything."""


def _mask(message: str, error: str) -> _Reading:
    """Return the message in one line, with placeholders for its accidental parts."""
    line = _ACCIDENTS.sub(_placeholder, _SPACE.sub(" ", message[:_LINE]).strip())
    line = _LAST.sub("", _RUN.sub(_VALUE, line)).strip(' .:,;-"')
    if error != ASSERTION and not line.startswith("assert "):
        return _Reading(None, line)
    return _Reading(ASSERTION, _ASSERTED.sub(r"\1<value> \2 <value>", line))


def _placeholder(match: re.Match[str]) -> str:
    if match["keep"]:
        return match[0]
    if match["blob"]:
        return _mask_body(match[0])
    return _mask_word(match[0]) if match["word"] else _VALUE


def _mask_word(text: str) -> str:
    """Mask a word, unless it is letters without humps, the name of a cause, or signs."""
    word = text.rstrip(".:!?…")
    plain = word.isalpha() and not _HUMP.search(word)
    return text if plain or _KEPT.fullmatch(word) or not word else _VALUE + text[len(word) :]


def _mask_body(text: str) -> str:
    """Replace JSON, or a printed dictionary, by its code or message of a failure."""
    for code in filter(None, (pattern.search(text) for pattern in _CODES)):
        return (code[1] or code[2]).upper()
    message = _MESSAGE_FIELD.search(text)
    return _mask(_unquote(message[1]), NO_CLASS).text if message else _VALUE


# ---- failed assertions ------------------------------------------------------------------------

ASSERTION: Final = "AssertionError"
_ASSERTIONS: Final = frozenset({ASSERTION, "ERR_ASSERTION", "JestAssertionError", "Failed"})
"""Classes of a failed assertion in Python, Node, Jest and pytest."""
_TESTS: Final = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^_{3,80} (?!ERROR )(?P<name>\S.{0,200}?) _{3,80}$",  # pytest
        r"^FAIL: (?P<name>\w{1,200}) \(",  # unittest
        r"^---- (?P<name>\S.{0,200}) stdout ----$",  # Rust
        r"^ {0,40}--- FAIL: (?P<name>\S{1,200}) \(",  # Go
        r"^ {0,40}not ok \d{1,9} - (?P<name>.{1,200})$",  # TAP
        r"^ FAIL  \S{1,200} > (?P<name>.{1,200})$",  # Vitest
    )
)
"""Lines in which test runners name a failed test."""
_MARKED: Final = re.compile(
    r"^ {0,40}[✖●] (?!Test suite)(?P<name>\S.{0,200}?)(?: \(\d[\d.]*ms\))?$", re.MULTILINE
)
"""Line in which Node and Jest name a failed test. The same marks also begin other lines."""
_EXPECTS: Final = re.compile(r"^ {1,40}expect\(", re.MULTILINE)
"""Line in which Jest shows an assertion."""
_OWN: Final = re.compile(r" [\u203a>] |::|\.(?=\w+$)")
"""Separator between the name of a suite or class, and that of the test."""
_FRAME: Final = re.compile(
    r'^  File "[^"\n]*", line \d+, in (?P<name>\S+)(?:\n    (?P<line>\S.{0,999}))?$', re.MULTILINE
)
_BOTH: Final = re.compile(
    r"^ {0,9}left: (?P<left>.{0,300})\n {0,9}right: (?P<right>.{0,300})$", re.MULTILINE
)
"""Lines in which Rust shows two compared values."""
_LONGEST_ASSERTION: Final = 300
"""The most characters of an assertion that count."""


def _assertion(text: str, error: str, message: str) -> str | None:
    """Return the assertion of a failed test; None if `error` and `message` show none."""
    holds_not = error in _ASSERTIONS or message.startswith("assertion ")
    marks = (*_TESTS, _MARKED) if holds_not or _EXPECTS.search(text) else _TESTS
    name = next((match["name"] for mark in marks if (match := mark.search(text))), None)
    if name is not None and (holds_not or error == "error"):
        plain = name.partition("[")[0] if name.endswith("]") else name  # without its parameters
        return f"test {_OWN.split(plain)[-1]}"[:_LONGEST_ASSERTION]
    if not holds_not:
        return None
    frames = [*_FRAME.finditer(text)]
    if frames and (line := frames[-1]["line"] or "").startswith("assert "):
        return f"{frames[-1]['name']}: {_assertion_shape(line) or '<value>'}"[:_LONGEST_ASSERTION]
    if both := _BOTH.search(text):
        return " == ".join(_assertion_shape(value) or "<value>" for value in both.groups())
    return None


def _assertion_shape(line: str) -> str | None:
    """Replace the literals of a line of Python by their types; None if it is no complete Python."""
    try:
        (statement,) = ast.parse(line).body
        claim = statement.test if isinstance(statement, ast.Assert) else statement
        return " ".join(ast.unparse(_LiteralTypes().visit(claim)).split())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


class _LiteralTypes(ast.NodeTransformer):
    """Replaces literals by their types."""

    def visit(self, node: ast.AST) -> Any:
        """Return the node, or its replacement."""
        match node:
            case ast.Constant(value=None):
                return node
            case ast.Constant(value=value):
                kind = type(value).__name__
            case ast.JoinedStr():
                kind = "str"
            case ast.List() | ast.Tuple() | ast.Set() | ast.Dict():
                kind = type(node).__name__.lower()
            case ast.UnaryOp(operand=operand):
                inner = self.visit(operand)
                return inner if isinstance(operand, ast.Constant) else node
            case _:
                return self.generic_visit(node)
        return ast.Name(f"<{kind}>", ast.Load())
