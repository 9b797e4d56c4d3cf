"""What identifies where a text comes from, whatever its names are, and what is put in its place.

Every pattern looks at a character a bounded number of times: it starts where a run of its
characters starts, is possessive, or has an upper bound. None reaches over `<` or `>`, so that no
placeholder is ever part of something found later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

PATH, URL, HOST, EMAIL = "<path>", "<url>", "<host>", "<email>"
ID, SECRET, NAME = "<id>", "<secret>", "<name>"
PLACEHOLDERS: Final = (PATH, URL, HOST, EMAIL, ID, SECRET, NAME)

START, END = r"(?<![^\W_])", r"(?![^\W_])"
"""Where a word may start and end; `_` joins words, and is none of their characters."""


class Rule(NamedTuple):
    """What to look for, and what to put there: the match itself where nothing is identified."""

    pattern: re.Pattern[str]
    put: Callable[[re.Match[str]], str]
    group: int | str = 0
    """What of the match identifies; the rest is there to be said well."""


def always(placeholder: str) -> Callable[[re.Match[str]], str]:
    """Puts a placeholder wherever the pattern is found."""
    return lambda _: placeholder


_STANDARDS: Final = re.compile(
    r"UTF|SHA|ISO|RFC|PEP|CVE|CWE|AES|GPT|RSA|MD|IEEE|ECMA|EC|ES|HS|RS|PS|TLS|SSL|HTTP|IPV|ARM|CP"
    r"|LATIN|WINDOWS|COVID|USB|UCS|BASE|CRC|FP|BLAKE|ED|DES|UTC|GMT|ANSI|FIPS|KOI8|ORA"
)
"""What is named like a ticket: UTF-8, SHA-256, ISO-8601."""
_MIXED: Final = 5
"""Changes between letters and digits that nobody would say; `sha256sum` has two."""
_SECRET, _LONG, _DIGITS, _SHORTEST_WORD = 16, 20, 2, 3
"""Characters of a secret; of one that need hold no digits, else these; letters of a word."""
_UNITS: Final = (
    r"(?:[mµun]?s|px|[kKMGTP]?i?[bB]|k|m|x|h|d|bytes?|chars?|characters|tokens?|rows?|items?"
    r"|records?|times|seconds?|milliseconds?|requests?|connections?|users?|lines?|%)"
)


def _ticket(found: re.Match[str]) -> str:
    return found[0] if _STANDARDS.fullmatch(found[1]) else ID


def _hex(found: re.Match[str]) -> str:
    return found[0] if found[0].isdecimal() else ID


def _random(found: re.Match[str]) -> str:
    """A secret, if it is nothing that anybody would say: its kinds of characters keep changing.

    Of 500 random tokens of 24 letters and digits nine in ten are found (seeds 0 to 499).
    """
    said = found[0]
    kinds = ["0" if one.isdecimal() else "A" if one.isupper() else "a" for one in said]
    changes = [one + other for one, other in pairwise(kinds) if one != other]
    if sum("0" in one for one in changes) >= _MIXED:
        return SECRET
    digits = 0 if len(said) >= _LONG else _DIGITS
    in_words = _SHORTEST_WORD * sum(one != "Aa" for one in changes) < len(said)
    return said if in_words or len(said) < _SECRET or kinds.count("0") < digits else SECRET


def _keyed(found: re.Match[str]) -> str:
    return f"{found['key']}{SECRET}"


def _quoted(found: re.Match[str]) -> str:
    return f"{found['key']}{found['quote']}{SECRET}{found['quote']}"


_KEY: Final = (
    r"(?P<key>(?i:password|passwd|passphrase|secret|token|credential|(?:api|access|private|secret)"
    r"[_-]?key)s?[\"']?\s{0,3}[:=]\s{0,3}"
)

SECRETS: Final = (
    # keys and certificates in PEM
    Rule(
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{1,40}-----[\sA-Za-z0-9+/=]*+(?:-----END [A-Z0-9 ]{1,40}-----)?"
        ),
        always(SECRET),
    ),
    # JSON web tokens
    Rule(re.compile(r"(?<![\w-])eyJ[\w-]{8,}+(?:\.[\w-]++){1,2}"), always(SECRET)),
    # tokens that say whose they are
    Rule(
        re.compile(
            START + r"(?:(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|hf|npm|pypi|whsec|shpat)[-_]"
            r"(?=[\w-]{0,60}\d)[\w-]{16,}+|(?:AKIA|ASIA)[0-9A-Z]{16}|(?:AIza|ya29\.)[\w-]{20,}+)"
        ),
        always(SECRET),
    ),
    # Authorization: Bearer …
    Rule(
        re.compile(r"(?P<key>(?i:\b(?:bearer|basic))\s{1,3})(?=\S{0,60}\d)[\w.~+/-]{12,}+=*"),
        _keyed,
    ),
    # what a password is said to be, in quotes
    Rule(re.compile(_KEY + r")(?P<quote>[\"'])[^\"'\n<>]{4,100}(?P=quote)"), _quoted),
    # or without them
    Rule(
        re.compile(
            _KEY + r")(?=[^\s\"'<>]{0,40}\d)(?=[^\s\"'<>]{0,40}[A-Za-z])"
            r"[^\s\"'<>,;(){}\[\]]{6,200}+(?!\()"
        ),
        _keyed,
    ),
)

IDS: Final = (
    # ABC-123
    Rule(
        re.compile(START + r"(?<!-)([A-Z][A-Z0-9]{1,9})-[0-9]{1,6}(?![^\W_]|-[0-9])"),
        _ticket,
    ),
    # 3f2a9c1b
    Rule(re.compile(START + r"(?:0[xX])?[0-9a-fA-F]{8,}+" + END), _hex),
    # 48213; round numbers, quantities and error codes identify nobody
    Rule(
        re.compile(
            r"(?<![0-9])(?<![0-9][.,])(?<!CVE-[0-9]{4}-)(?<!SQLSTATE[ :=\[])(?<!ORA-)(?<![Ee]rror )"
            r"(?![1-9][0-9]?0{4,}(?![0-9]))"
            r"[0-9]{5,}+(?!\.[0-9])(?! ?" + _UNITS + END + ")"
        ),
        always(ID),
    ),
    # a8Kd92mXq0ZpL3vT7w
    Rule(re.compile(START + r"[A-Za-z0-9]{10,}+" + END), _random),
)
