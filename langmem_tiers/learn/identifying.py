"""What identifies somebody in a text by its form, and the labels of a project in every spelling.

Nothing is masked: what is found holds a text back until somebody says it in general words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from ipaddress import AddressValueError, IPv6Address
from itertools import pairwise
from typing import Final, NamedTuple

from langmem_tiers.core.errors import InvalidTypeError, short

SECRET: Final = "a secret"  # noqa: S105 - the words for one
"""What is said of a secret, in place of itself."""


class _Rule(NamedTuple):
    """What to look for, and whether what is found identifies anybody."""

    pattern: re.Pattern[str]
    holds: Callable[[re.Match[str]], bool] = lambda _: True
    said: str | None = None
    """What to say of it, where it is not told itself."""


_SLICE: Final = 3
"""Digits of a number in a slice, such as `[1:100]`, at most."""


def identifying(text: str, labels: Iterable[str]) -> tuple[str, ...]:
    """What identifies somebody in a text, each once and as it stands there; of secrets, that.

    `labels` are names of projects, agents, sessions and tenants, found in any case and spelling
    (`billing-service`, `billing_service`, `BillingService`), as words of their own. Paths, URLs,
    hosts, e-mail addresses, ids, tickets and secrets are known by their form. Labels of one
    character, or without a letter or digit, say nothing of anybody and are left.

    Takes time in proportion to the text and to the number of labels.
    """
    if isinstance(labels, str):
        raise InvalidTypeError(f"labels is a list of names, such as ['acme'], not {short(labels)}")
    found: list[str] = []

    def blank(rule: _Rule, match: re.Match[str]) -> str:
        if not rule.holds(match):
            return match[0]
        found.append(rule.said or match[0])
        return _FOUND

    # Names stand before ids, which may be parts of them, and after places, which hold them.
    for rule in (*_PLACES, *_labels(frozenset(labels)), *_NUMBERED):
        text = rule.pattern.sub(partial(blank, rule), text)
    return tuple(dict.fromkeys(found))


_FOUND: Final = "<>"
"""Stands for what was found already: no pattern reaches over it."""

# ---- labels -----------------------------------------------------------------------------------

_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
"""Where a word may start and end; `_` joins words, and is none of their characters."""
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_BETWEEN: Final = r"[\s_./-]?"
_IN_CAMEL_CASE: Final = 4
"""Letters of a label from which on it is found within other names: `acme` in `AcmeClient`."""


@lru_cache(maxsize=64)
def _labels(labels: frozenset[str]) -> tuple[_Rule, ...]:
    spelt = {tuple(_WORDS.findall(label)) for label in labels}
    several = sorted((one for one in spelt if len("".join(one)) > 1), key=_longest_first)
    if not several:
        return ()
    spoken = "|".join(_BETWEEN.join(map(re.escape, one)) for one in several)
    coded = "|".join(map(_coded, several))
    return (_Rule(re.compile(rf"{_START}(?i:{spoken}){_END}|{coded}")),)


def _longest_first(words: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return -len("".join(words)), words


def _coded(words: tuple[str, ...]) -> str:
    """The label within a name in camel case; a pattern that never matches if it is short."""
    if len("".join(words)) < _IN_CAMEL_CASE:
        return "(?!)"
    first, *others = (re.escape(one.capitalize()) for one in words)
    low = re.escape(words[0].lower())
    return f"(?:(?<=[a-z0-9]){first}|{_START}(?:{first}|{low})){''.join(others)}(?![a-z0-9])"


# ---- what identifies by its form ------------------------------------------------------------

_ENDS: Final = re.compile(r"(?i)com|org|net|edu|gov|mil|internal|intranet|lan|corp|localdomain")
_OTHER_ENDS: Final = re.compile(
    r"(?i)io|dev|ai|co|cloud|tech|xyz|local"
    r"|eu|uk|de|fr|nl|pl|se|ch|dk|fi|cz|ru|jp|cn|kr|au|nz|ca|br|mx|za"
)
"""Ends of hosts that are ends of code as well (`threading.local`): more is asked of them."""
_NO_HOSTS: Final = frozenset({"self", "this", "cls", "asp", "vb"})
_LABELS: Final = 3
_ROOTS: Final = frozenset({"home", "Users", "usr", "var", "opt", "srv", "mnt", "Volumes"})
_FOLDERS: Final = _ROOTS | {
    "src",
    "lib",
    "libs",
    "tests",
    "apps",
    "packages",
    "etc",
    "tmp",
    "node_modules",
}
_FILE: Final = re.compile(r".*[^.]\.[A-Za-z][A-Za-z0-9]{0,4}")
_STANDARDS: Final = (
    r"UTF|SHA|ISO|RFC|PEP|CVE|CWE|AES|GPT|RSA|MD|IEEE|ECMA|EC|ES|HS|RS|PS|TLS|SSL|HTTP|IPV|ARM|CP"
    r"|LATIN|WINDOWS|COVID|USB|UCS|BASE|CRC|FP|BLAKE|ED|DES|UTC|GMT|ANSI|FIPS|KOI8|ORA"
)
"""What is named like a ticket: UTF-8, SHA-256, ISO-8601."""
_UNITS: Final = (
    r"(?:[mµun]?s|px|[kKMGTP]?i?[bB]|k|m|x|h|d|bytes?|chars?|characters|tokens?|rows?|items?"
    r"|records?|times|seconds?|milliseconds?|requests?|connections?|users?|lines?|%)"
)
_MIXED: Final = 5
"""Changes between letters and digits that nobody would say; `sha256sum` has two."""
_SECRET, _LONG, _DIGITS, _SHORTEST_WORD = 16, 20, 2, 3
"""Characters of a secret; of one that need hold no digits, else these; letters of a word."""


def _host(found: re.Match[str]) -> bool:
    *labels, end = found["name"].split(".")
    if end == "NET" or labels[0].lower() in _NO_HOSTS:
        return False
    told = len(labels) + 1 >= _LABELS or found["port"] or "-" in found["name"]
    return bool(_ENDS.fullmatch(end) or (told and _OTHER_ENDS.fullmatch(end)))


def _ip6(found: re.Match[str]) -> bool:
    said = found[0] if found[0].endswith("::") else found[0].removesuffix(":")
    try:
        ip = IPv6Address(said)
    except AddressValueError:
        return False
    numbers = [one for one in said.split(":") if one]
    slices = all(one.isdecimal() and len(one) <= _SLICE for one in numbers)
    code = slices or not any(map(str.isdecimal, said))
    return not (code or ip.is_loopback)


def _absolute(found: re.Match[str]) -> bool:
    """Whether it is a path from the root; no closing tag, no division and no comment."""
    said = found[0].rstrip(".-")
    parts = [one for one in said.split("/") if one]
    before = found.string[found.start() - 1 : found.start()]
    if len(parts) == 1 and (said.startswith("//") or before in ("<", ")", "]")):
        return False
    return len(parts) > 1 or (len(parts) == 1 and len(parts[0]) > 1 and not parts[0].isdecimal())


def _relative(found: re.Match[str]) -> bool:
    """Whether words with slashes between them are a path, and not `and/or`."""
    said = found[0].rstrip(".-")
    parts = [one for one in said.split("/") if one]
    if said.startswith(("./", "../", "~")) or not _ROOTS.isdisjoint(parts[1:-1]):
        return True
    if parts[0] in _FOLDERS or any(one[0] == "." and one.strip(".") for one in parts):
        return True
    if len(parts) > 1 and _FILE.fullmatch(parts[-1]):
        return True
    said_plainly = all(one.isalpha() for one in parts) or all(one.isdecimal() for one in parts)
    return len(parts) > 2 and not said_plainly  # noqa: PLR2004 - such as n/a, 24/7


def _spaced(found: re.Match[str]) -> bool:
    """A path with spaces is known by the quotes around it; others are known by themselves."""
    *folders, _ = re.split(r"[\\/]", found[0])
    return any(" " in one for one in folders)


def _random(found: re.Match[str]) -> bool:
    """Whether it is a secret, which nobody would say: its kinds of characters keep changing.

    Of 500 random tokens of 24 letters and digits nine in ten are found (seeds 0 to 499).
    """
    said = found[0]
    kinds = ["0" if one.isdecimal() else "A" if one.isupper() else "a" for one in said]
    changes = [one + other for one, other in pairwise(kinds) if one != other]
    if sum("0" in one for one in changes) >= _MIXED:
        return True
    digits = 0 if len(said) >= _LONG else _DIGITS
    in_words = _SHORTEST_WORD * sum(one != "Aa" for one in changes) < len(said)
    return not (in_words or len(said) < _SECRET or kinds.count("0") < digits)


_KEY: Final = (
    r"(?:(?i:password|passwd|passphrase|secret|token|credential|(?:api|access|private|secret)"
    r"[_-]?key)s?[\"']?\s{0,3}[:=]\s{0,3})"
)
_HEX: Final = "[0-9a-fA-F]"
_SECRETS: Final = (
    # keys and certificates in PEM, JSON web tokens, tokens that say whose they are
    r"-----BEGIN [A-Z0-9 ]{1,40}-----[\sA-Za-z0-9+/=]*+(?:-----END [A-Z0-9 ]{1,40}-----)?",
    r"(?<![\w-])eyJ[\w-]{8,}+(?:\.[\w-]++){1,2}",
    _START + r"(?:(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|hf|npm|pypi|whsec|shpat)[-_]"
    r"(?=[\w-]{0,60}\d)[\w-]{16,}+|(?:AKIA|ASIA)[0-9A-Z]{16}|(?:AIza|ya29\.)[\w-]{20,}+)",
    # Authorization: Bearer …; what a password is said to be, in quotes, or without them
    r"(?i:\b(?:bearer|basic))\s{1,3}(?=\S{0,60}\d)[\w.~+/-]{12,}+=*",
    _KEY + r"(?P<quote>[\"'])[^\"'\n<>]{4,100}(?P=quote)",
    _KEY + r"(?=[^\s\"'<>]{0,40}\d)(?=[^\s\"'<>]{0,40}[A-Za-z])"
    r"[^\s\"'<>,;(){}\[\]]{6,200}+(?!\()",
)
_FORMS: Final = (
    _Rule(
        re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://"
            r"[^\s<>\"'`)\]}]*[^\s<>\"'`)\]}.,;:!?]"
        )
    ),
    # bob@acme.com, deploy@prod-db-1
    _Rule(re.compile(r"(?<![\w.+%-])[\w.+%-]++@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)")),
    _Rule(re.compile(r"(?<![\w.+%-])[\w.+%-]++@[A-Za-z]\w*+-[\w-]++")),
    # UUIDs, hardware addresses
    _Rule(re.compile(rf"(?<!{_HEX}){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}{_END}")),
    _Rule(re.compile(rf"{_START}(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}{_END}")),
    # 10.0.0.12:5432, fe80::1, db.acme.com:5432/main, redis-cache:6379
    _Rule(
        re.compile(
            _START + r"(?<![0-9]\.)(?!127\.|0\.0\.0\.0(?![0-9]))"
            r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?:\.(?=[0-9])|(?![0-9]))){4}"
            r"(?<=[0-9])(?::[0-9]{1,5})?(?!\.?[0-9])(?![A-Za-z_])"
        )
    ),
    _Rule(re.compile(rf"(?<![\w:])(?:{_HEX}{{0,4}}:){{2,7}}{_HEX}{{0,4}}(?![\w:])"), _ip6),
    _Rule(
        re.compile(
            r"(?<![\w-])(?<!\w\.)(?P<name>(?:[\w-]{1,63}\.){1,20}[A-Za-z]{2,12})"
            r"(?P<port>:[0-9]{1,5})?(?![\w-])(?!\.\w)(?:/(?:[\w@+~%$=&#*/-]|\.(?=\w))*+)?"
        ),
        _host,
    ),
    _Rule(re.compile(r"(?<![\w.-])[A-Za-z]\w*+(?:-\w++)+:[0-9]{4,5}(?![\w.:])")),
    # "/home/ada lovelace/x", C:\Users\bob and \\server\share, app\models\user.py
    _Rule(re.compile(r"(?<=[\"'])(?:~?/|[A-Za-z]:[\\/])[^\"'\n<>]{1,300}(?=[\"'])"), _spaced),
    _Rule(
        re.compile(
            _START + r"(?:[A-Za-z]:[\\/](?=\w{2})|\\\\[\w.-]{1,64}\\\w)[^\s\"'`<>|:*?;,)\]}]*"
        )
    ),
    _Rule(re.compile(r"(?<![\w.\\-])[\w.-]++(?:\\[\w.-]+)*\\[\w-]+\.[A-Za-z]\w{0,4}" + _END)),
    # src/app/user.py, ../x, ~/x; /home/bob/x
    _Rule(re.compile(r"(?<![\w.@+~%$/-])[\w.@+~%$-]++(?:/[\w.@+~%$=&#*-]*+)++"), _relative),
    _Rule(
        re.compile(r"(?<![\w./~\\])/{1,3}(?![/*])[\w.@+~%$=&#-]++(?:/[\w.@+~%$=&#*-]*+)*+"),
        _absolute,
    ),
)
_NUMBERED: Final = (
    # ABC-123, 3f2a9c1b
    _Rule(
        re.compile(
            rf"{_START}(?<!-)(?!(?:{_STANDARDS})-)"
            r"[A-Z][A-Z0-9]{1,9}-[0-9]{1,6}(?![^\W_]|-[0-9])"
        )
    ),
    _Rule(re.compile(rf"{_START}(?:0[xX])?(?=[0-9]*+[a-fA-F]|0[xX]){_HEX}{{8,}}+{_END}")),
    # 48213; round numbers, quantities and error codes identify nobody
    _Rule(
        re.compile(
            r"(?<![0-9])(?<![0-9][.,])(?<!CVE-[0-9]{4}-)(?<!SQLSTATE[ :=\[])(?<!ORA-)"
            r"(?<![Ee]rror )(?![1-9][0-9]?0{4,}(?![0-9]))[0-9]{5,}+(?!\.[0-9])"
            rf"(?! ?{_UNITS}{_END})"
        )
    ),
    # 4111 1111 1111 1111, +351 912 345 678
    _Rule(re.compile(r"(?<![\d.,])\+?\d{1,4}(?:[ -](?!000)\d{3,4}){2,6}(?![.,]?\d)")),
    # a8Kd92mXq0ZpL3vT7w
    _Rule(re.compile(_START + r"[A-Za-z0-9]{10,}+" + _END), _random, SECRET),
)
_PLACES: Final = (*(_Rule(re.compile(one), said=SECRET) for one in _SECRETS), *_FORMS)
"""Every pattern looks at a character a bounded number of times: it starts where a run of its
characters starts, is possessive, or has an upper bound.
"""
