"""The line that says what failed: in tracebacks, the output of tests, and of programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile, groupby
from textwrap import dedent
from typing import Final

from langmem_tiers.learn.failures.bodies import Said
from langmem_tiers.learn.failures.exceptions import (
    CAMEL,
    CARRIERS,
    INVALID,
    invalid,
    message_of,
)
from langmem_tiers.learn.failures.placeholders import LONGEST

_TRACEBACK: Final = "Traceback (most recent call last):"
_CHAINED: Final = ("During handling of the above", "The above exception was the direct")
_GUTTER: Final = re.compile(r"^(?: *[|+](?:[-+]*(?: \d+ -*)?| ))+ ?")
_FIRST_OF_GROUP: Final = re.compile(r" *(?:\| )*\+-\+-{3,} 1 -{3,}$")
_RAISED: Final = re.compile(r"([A-Za-z_][\w.<>]*)(?::(?: (.*))?)?$")
_FAILED_LINE: Final = re.compile(r"E(?: {3}.*| *)$")
_TEST: Final = re.compile(r"_{3,} .+ _{3,}$")
_FAILED: Final = re.compile(r"(?:FAILED|ERROR) (?>\S+::).*? - (.*)")
_PANICKED: Final = re.compile(r"thread '.{0,200}?' (?:\(\d+\) )?panicked at (?:'(.*)', )?\S+$")
_NPM: Final = re.compile(r"npm (?:ERR!|error)(?: (?!(?:syscall|path|errno|dest) )(.*))?$")
_WORDS: Final = (
    "errors?|fatal|fail(?:ed|ure|s)?|exception|conflict|denied|not found|no such|cannot|can't|"
    "could not|unable|invalid|refused|rejected|timed out|timeout|killed|panic|aborted|unauthorized|"
    "forbidden|unavailable|undefined|undeclared|missing|not (?:allowed|defined|permitted)|no space|"
    "out of memory|segmentation fault|unexpected|unknown|unrecognized|exceeded"
)
_ASIDE: Final = re.compile(
    r"\s*+(?:\[?(?:INFO|DEBUG|TRACE)\b|LINE \d+:"
    r"|(?:DETAIL|HINT|CONTEXT|STATEMENT|QUERY|note|hint): |Found \d+ |usage: |(?:TASK|PLAY) \[)"
    r"|.* [Ii]n function |\s++(?:at |\.\.\. \d+ more|#\d+ |File \")"
)
_KEYWORD: Final = rf"(?<![\w/\\.@-])(?:{_WORDS})(?![\w/\\@-]|\.\w)"
_SIGNS: Final = tuple(
    re.compile(sign, re.IGNORECASE)
    for sign in (
        r"^panic: ",
        r"\berror(?: TS\d+|\[\w+\]):",
        r"^\S+?:\d+:\d+: (?:fatal )?(?:error|[A-Z]{1,4}\d{3,5}\b)",
        r"^expect\(",
        r"^(?:uncaught |exception in thread \".*?\" )?(?:[\w$]+\.)*\w*[a-z](?:error|exception)\b: ",
        rf"^(?!.*\bexit(?:ed)? (?:with )?(?:code|status)).*?{_KEYWORD}",
        _KEYWORD,
    )
)


def failing_line(text: str) -> Said | None:
    """The line of several that says what failed."""
    lines = [line[:LONGEST] for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and (said := _panicked(lines)) and said.message:
        return said
    if len(lines) <= 1:
        return Said(None, lines[0]) if lines else None
    for reader in (_pytest, _traceback, _validation, _panicked, _npm):
        if said := reader(lines):
            return said
    for sign in _SIGNS:
        for line in lines:
            if not _ASIDE.match(line) and sign.search(line.strip()):
                return Said(None, line)
    return Said(None, next((line for line in lines if not _ASIDE.match(line)), lines[0]))


def _pytest(lines: Sequence[str]) -> Said | None:
    """The last exception of the first test that failed."""
    tests = [place for place, line in enumerate(lines) if _TEST.match(line)]
    within = lines[: tests[1]] if len(tests) > 1 else lines
    runs = [
        list(run)
        for failed, run in groupby(within, key=lambda line: bool(_FAILED_LINE.match(line)))
        if failed
    ]
    for run in reversed(runs):
        said = dedent("\n".join(line[1:] for line in run)).splitlines()
        if said := [*dropwhile(lambda line: not line.strip() or line[0].isspace(), said)]:
            return _raised(said)
    summary = next((found for line in lines if (found := _FAILED.match(line))), None)
    return _raised([summary[1]]) if summary else None


def _traceback(lines: Sequence[str]) -> Said | None:
    """What reached the top: the last exception of the first chain, the first of a group."""
    starts = [
        place
        for place, line in enumerate(lines)
        if line.endswith(_TRACEBACK) or _FIRST_OF_GROUP.match(line)
    ]
    lines = [_GUTTER.sub("", line) for line in lines]
    if not starts:
        return None
    raised: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = lines[start + 1 : end]
        while block and block[0][:1].isspace():
            block = block[1:]
        if raised and not (_is_group(raised) or any(_is_chained(line) for line in raised)):
            break
        raised = block or raised
    return _raised(raised) if raised else None


def _is_chained(line: str) -> bool:
    return line.startswith(_CHAINED)


def _is_group(raised: Sequence[str]) -> bool:
    return "ExceptionGroup: " in raised[0]


def _raised(lines: Sequence[str]) -> Said:
    """A class and its message, where it is known that they stand here."""
    found = _RAISED.match(lines[0])
    last = found[1].rpartition(".")[2] if found else ""
    if not found or not CAMEL.fullmatch(last):
        return Said("AssertionError" if lines[0].startswith("assert ") else None, lines[0])
    if found[2] is None and last not in CARRIERS:
        return Said(last, "")
    return message_of(last, "\n".join([found[2] or "", *lines[1:]]).strip())


def _validation(lines: Sequence[str]) -> Said | None:
    for place, line in enumerate(lines):
        if INVALID.search(line):
            return Said("ValidationError", invalid(lines[place:]))
    return None


def _panicked(lines: Sequence[str]) -> Said | None:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if found := _PANICKED.search(line):
            return Said("panic", found[1] or following)
    return None


def _npm(lines: Sequence[str]) -> Said | None:
    said = [found[1] for line in lines if (found := _NPM.match(line)) and found[1]]
    if len(said) > 1 and said[0].startswith("code "):
        return Said(said[0][5:], said[1].removeprefix(said[0][5:]))
    return Said(None, said[0]) if said else None
