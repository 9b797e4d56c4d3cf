"""What one project learned, said so that everybody may read it: without a model.

`abstracted` puts placeholders in the place of all that identifies; `leaks` says what still does.
Both go by the same rules, so that nothing leaks from what was abstracted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial
from ipaddress import AddressValueError, IPv6Address
from itertools import pairwise
from typing import Final, NamedTuple

from langmem_tiers.core.errors import InvalidTypeError, short

PATH, URL, HOST, EMAIL = "<path>", "<url>", "<host>", "<email>"
ID, SECRET, NAME = "<id>", "<secret>", "<name>"
PROJECT: Final = "the project"
"""Stands for a private name where it is a word of a sentence; within code, `<name>` does."""


class Generaliser(NamedTuple):
    """Says for everybody what was learned in one project; the names are private ones.

    What both return is checked by nobody else: it must not identify the project. None is of what is
    about its project alone, and stays there.
    """

    call: Callable[[str, Sequence[str]], str | None]
    acall: Callable[[str, Sequence[str]], Awaitable[str | None]]


class _Rule(NamedTuple):
    """What to look for, and what to put there: the match itself where nothing is identified."""

    pattern: re.Pattern[str]
    put: Callable[[re.Match[str]], str]
    group: int | str = 0
    """What of the match identifies; the rest is there to be said well."""


def abstracted(content: str, private: Iterable[str]) -> str:
    """The text without what identifies anybody; abstracted again, it stays the same.

    `private` are names of projects, agents, sessions and tenants, found in any case and spelling
    (`billing-service`, `billing_service`, `BillingService`), as words of their own. Paths, URLs,
    hosts, e-mail addresses, ids, tickets and secrets are known by their form. Names of one
    character, or without a letter or digit, say nothing of anybody and are left.

    Takes time in proportion to the text and to the number of names.
    """
    rules = _rules(private)
    while True:  # ends: every round leaves less that is not a placeholder
        content, found = _swept(content, rules)
        if not found:
            return content


def leaks(text: str, private: Iterable[str]) -> tuple[str, ...]:
    """What identifies somebody in a text, each once and as it stands there; see `abstracted`."""
    return tuple(dict.fromkeys(_swept(text, _rules(private))[1]))


def _swept(text: str, rules: tuple[_Rule, ...]) -> tuple[str, list[str]]:
    """The text after each rule was applied once, and what they found."""
    found: list[str] = []

    def put(rule: _Rule, match: re.Match[str]) -> str:
        new = rule.put(match)
        if new != match[0]:
            found.append(match[rule.group])
        return new

    for rule in rules:
        text = rule.pattern.sub(partial(put, rule), text)
    return text, found


def _rules(private: Iterable[str]) -> tuple[_Rule, ...]:
    """Names stand before ids, which may be parts of them, and after places, which hold them."""
    if isinstance(private, str):
        raise InvalidTypeError(
            f"private is a list of names, such as ['acme'], not {short(private)}"
        )
    return *_PLACES, *_names(frozenset(private)), *_IDS


# ---- private names --------------------------------------------------------------------------

_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
"""Where a word may start and end; `_` joins words, and is none of their characters."""
_KEPT: Final = "|".join((PATH, URL, HOST, EMAIL, ID, SECRET, NAME, f"{_START}{PROJECT}{_END}"))
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_BETWEEN: Final = r"[\s_./-]?"
_GLUE_BEFORE: Final = frozenset("_-./\\@#$:=")
_GLUE_AFTER: Final = re.compile(r"[_\-/\\(=]|[.:@]\w")
_IN_CAMEL_CASE: Final = 4
"""Letters of a name from which on it is found within other names: `acme` in `AcmeClient`."""


@lru_cache(maxsize=64)
def _names(private: frozenset[str]) -> tuple[_Rule, ...]:
    spelt = {tuple(_WORDS.findall(name)) for name in private}
    names = sorted((one for one in spelt if len("".join(one)) > 1), key=_longest_first)
    if not names:
        return ()
    spoken = "|".join(_BETWEEN.join(map(re.escape, one)) for one in names)
    coded = "|".join(map(_coded, names))
    pattern = re.compile(
        rf"{_KEPT}|(?P<before>{_START}(?i:the|our|my) )?"
        rf"(?P<name>{_START}(?i:{spoken}){_END}|{coded})"
        rf"(?P<after> (?i:project|repository|repo|codebase|service){_END})?"
    )
    return (_Rule(pattern, _named, "name"),)


def _longest_first(words: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return -len("".join(words)), words


def _coded(words: tuple[str, ...]) -> str:
    """The name within another one in camel case; a pattern that never matches if it is short."""
    if len("".join(words)) < _IN_CAMEL_CASE:
        return "(?!)"
    first, *others = (re.escape(one.capitalize()) for one in words)
    low = re.escape(words[0].lower())
    return f"(?:(?<=[a-z0-9]){first}|{_START}(?:{first}|{low})){''.join(others)}(?![a-z0-9])"


def _named(found: re.Match[str]) -> str:
    name = found["name"]
    if name is None:
        return found[0]
    if _within_code(found.string, *found.span("name")):
        return f"{found['before'] or ''}{NAME}{found['after'] or ''}"
    return PROJECT


def _within_code(text: str, start: int, end: int) -> bool:
    before, after = text[max(start - 1, 0) : start], text[end : end + 1]
    if before in _GLUE_BEFORE or before.isalnum() or after.isalnum():
        return True
    return _GLUE_AFTER.match(text, end) is not None


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


def _host(found: re.Match[str]) -> str:
    *labels, end = found["name"].split(".")
    if end == "NET" or labels[0].lower() in _NO_HOSTS:
        return found[0]
    told = len(labels) + 1 >= _LABELS or found["port"] or "-" in found["name"]
    return HOST if _ENDS.fullmatch(end) or (told and _OTHER_ENDS.fullmatch(end)) else found[0]


def _ip6(found: re.Match[str]) -> str:
    said = found[0] if found[0].endswith("::") else found[0].removesuffix(":")
    try:
        ip = IPv6Address(said)
    except AddressValueError:
        return found[0]
    slices = all(one.isdecimal() and len(one) < 4 for one in said.split(":") if one)  # noqa: PLR2004
    code = slices or not any(map(str.isdecimal, said))
    return found[0] if code or ip.is_loopback else HOST + found[0][len(said) :]


def _absolute(found: re.Match[str]) -> str:
    """A path from the root; no closing tag, no division and no comment."""
    said = found[0].rstrip(".-")
    parts = [one for one in said.split("/") if one]
    before = found.string[found.start() - 1 : found.start()]
    if len(parts) == 1 and (said.startswith("//") or before in ("<", ")", "]")):
        return found[0]
    if not parts or (len(parts) == 1 and (len(parts[0]) == 1 or parts[0].isdecimal())):
        return found[0]
    return PATH + found[0][len(said) :]


def _relative(found: re.Match[str]) -> str:
    said = found[0].rstrip(".-")
    return PATH + found[0][len(said) :] if _is_path(said) else found[0]


def _is_path(said: str) -> bool:
    """Whether words with slashes between them are a path, and not `and/or`."""
    parts = [one for one in said.split("/") if one]
    if said.startswith(("./", "../", "~")) or not _ROOTS.isdisjoint(parts[1:-1]):
        return True
    if parts[0] in _FOLDERS or any(one[0] == "." and one.strip(".") for one in parts):
        return True
    if len(parts) > 1 and _FILE.fullmatch(parts[-1]):
        return True
    said_plainly = all(one.isalpha() for one in parts) or all(one.isdecimal() for one in parts)
    return len(parts) > 2 and not said_plainly  # noqa: PLR2004 - such as n/a, 24/7


def _spaced(found: re.Match[str]) -> str:
    """A path with spaces is known by the quotes around it; others are known by themselves."""
    *folders, _ = re.split(r"[\\/]", found[0])
    return PATH if any(" " in one for one in folders) else found[0]


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


def _rule(pattern: str, put: str | Callable[[re.Match[str]], str]) -> _Rule:
    """A text is put wherever the pattern is found, with what its groups hold."""
    template = put if isinstance(put, str) else ""
    return _Rule(re.compile(pattern), put if callable(put) else lambda one: one.expand(template))


_KEY: Final = (
    r"(?P<key>(?i:password|passwd|passphrase|secret|token|credential|(?:api|access|private|secret)"
    r"[_-]?key)s?[\"']?\s{0,3}[:=]\s{0,3})"
)
_HEX: Final = "[0-9a-fA-F]"
_SECRETS: Final = (
    # keys and certificates in PEM, JSON web tokens, tokens that say whose they are
    (
        r"-----BEGIN [A-Z0-9 ]{1,40}-----[\sA-Za-z0-9+/=]*+(?:-----END [A-Z0-9 ]{1,40}-----)?",
        SECRET,
    ),
    (r"(?<![\w-])eyJ[\w-]{8,}+(?:\.[\w-]++){1,2}", SECRET),
    (
        _START + r"(?:(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|hf|npm|pypi|whsec|shpat)[-_]"
        r"(?=[\w-]{0,60}\d)[\w-]{16,}+|(?:AKIA|ASIA)[0-9A-Z]{16}|(?:AIza|ya29\.)[\w-]{20,}+)",
        SECRET,
    ),
    # Authorization: Bearer …; what a password is said to be, in quotes, or without them
    (
        r"(?P<key>(?i:\b(?:bearer|basic))\s{1,3})(?=\S{0,60}\d)[\w.~+/-]{12,}+=*",
        rf"\g<key>{SECRET}",
    ),
    (
        _KEY + r"(?P<quote>[\"'])[^\"'\n<>]{4,100}(?P=quote)",
        rf"\g<key>\g<quote>{SECRET}\g<quote>",
    ),
    (
        _KEY + r"(?=[^\s\"'<>]{0,40}\d)(?=[^\s\"'<>]{0,40}[A-Za-z])"
        r"[^\s\"'<>,;(){}\[\]]{6,200}+(?!\()",
        rf"\g<key>{SECRET}",
    ),
)
_FORMS: Final = (
    (
        (
            r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://"
            r"[^\s<>\"'`)\]}]*[^\s<>\"'`)\]}.,;:!?]"
        ),
        URL,
    ),
    # bob@acme.com, deploy@prod-db-1
    (r"(?<![\w.+%-])[\w.+%-]++@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)", EMAIL),
    (r"(?<![\w.+%-])[\w.+%-]++@[A-Za-z]\w*+-[\w-]++", HOST),
    # UUIDs, hardware addresses
    (rf"(?<!{_HEX}){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}" + _END, ID),
    (_START + rf"(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}" + _END, ID),
    # 10.0.0.12:5432, fe80::1, db.acme.com:5432/main, redis-cache:6379
    (
        _START + r"(?<![0-9]\.)(?!127\.|0\.0\.0\.0(?![0-9]))"
        r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?:\.(?=[0-9])|(?![0-9]))){4}"
        r"(?<=[0-9])(?::[0-9]{1,5})?(?!\.?[0-9])(?![A-Za-z_])",
        HOST,
    ),
    (rf"(?<![\w:])(?:{_HEX}{{0,4}}:){{2,7}}{_HEX}{{0,4}}(?![\w:])", _ip6),
    (
        (
            r"(?<![\w-])(?<!\w\.)(?P<name>(?:[\w-]{1,63}\.){1,20}[A-Za-z]{2,12})"
            r"(?P<port>:[0-9]{1,5})?(?![\w-])(?!\.\w)(?:/(?:[\w@+~%$=&#*/-]|\.(?=\w))*+)?"
        ),
        _host,
    ),
    (r"(?<![\w.-])[A-Za-z]\w*+(?:-\w++)+:[0-9]{4,5}(?![\w.:])", HOST),
    # "/home/ada lovelace/x", C:\Users\bob and \\server\share, app\models\user.py
    (r"(?<=[\"'])(?:~?/|[A-Za-z]:[\\/])[^\"'\n<>]{1,300}(?=[\"'])", _spaced),
    (
        _START + r"(?:[A-Za-z]:[\\/](?=\w{2})|\\\\[\w.-]{1,64}\\\w)[^\s\"'`<>|:*?;,)\]}]*",
        PATH,
    ),
    (r"(?<![\w.\\-])[\w.-]++(?:\\[\w.-]+)*\\[\w-]+\.[A-Za-z]\w{0,4}" + _END, PATH),
    # src/app/user.py, ../x, ~/x; /home/bob/x
    (r"(?<![\w.@+~%$/-])[\w.@+~%$-]++(?:/[\w.@+~%$=&#*-]*+)++", _relative),
    (r"(?<![\w./~\\])/{1,3}(?![/*])[\w.@+~%$=&#-]++(?:/[\w.@+~%$=&#*-]*+)*+", _absolute),
)
_NUMBERED: Final = (
    # ABC-123, 3f2a9c1b
    (
        _START + rf"(?<!-)(?!(?:{_STANDARDS})-)[A-Z][A-Z0-9]{{1,9}}-[0-9]{{1,6}}(?![^\W_]|-[0-9])",
        ID,
    ),
    (_START + rf"(?:0[xX])?(?=[0-9]*+[a-fA-F]|0[xX]){_HEX}{{8,}}+" + _END, ID),
    # 48213; round numbers, quantities and error codes identify nobody
    (
        r"(?<![0-9])(?<![0-9][.,])(?<!CVE-[0-9]{4}-)(?<!SQLSTATE[ :=\[])(?<!ORA-)(?<![Ee]rror )"
        r"(?![1-9][0-9]?0{4,}(?![0-9]))[0-9]{5,}+(?!\.[0-9])(?! ?" + _UNITS + _END + ")",
        ID,
    ),
    # a8Kd92mXq0ZpL3vT7w
    (_START + r"[A-Za-z0-9]{10,}+" + _END, _random),
)
_PLACES: Final = tuple(_rule(*one) for one in (*_SECRETS, *_FORMS))
_IDS: Final = tuple(_rule(*one) for one in _NUMBERED)
"""Every pattern looks at a character a bounded number of times: it starts where a run of its
characters starts, is possessive, or has an upper bound. None reaches over `<` or `>`, so that no
placeholder is ever part of something found later.
"""
