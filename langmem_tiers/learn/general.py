"""What goes to everybody as it stands, and what only in words that somebody wrote.

Nothing is rewritten here and nothing is guessed: what holds a text back is said, and a person or a
model says it in general words, or it stays. What identifies somebody does so by its form, or is a
label of a project in any spelling.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from ipaddress import AddressValueError, IPv6Address
from itertools import pairwise
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core import prompts
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.reading import RULE_CHARACTERS, normalise, words
from langmem_tiers.core.structured import make_asker
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import content_of
from langmem_tiers.learn.reflexion import LESSON_FROM
from langmem_tiers.recall.fence import escape_fences
from langmem_tiers.remember.new import checked_text

LESSON_FIELDS: Final = ("original_approach", "failure_reason", "improved_approach")
"""Fields of a lesson that say what was learned."""
_CAPITALISE_NOUNS: Final = frozenset({"german"})
"""The languages of an index in which a capital says nothing of a word."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_BEGINS: Final = re.compile(r"(?:\A|\n|[.!?:;…][^\w\s]*\s)[^\w\n]*\Z")
"""What stands before the first word of a sentence."""
_LOOKED_BACK: Final = 12
"""Characters before a word in which the end of another sentence is sought."""
_IN_A_ROW: Final = 5
"""So many words of what somebody said, one after another, are a quotation."""
_MOST_NAMED: Final = 3
"""So many of the words that hold a text back are told."""


class Vocabulary(NamedTuple):
    """What is known of the words of a tenant, as a project's memory is compared with them."""

    labels: Sequence[str]
    """What its own context and those who used it are called, where that is no common word."""
    known_words: frozenset[str]
    """Words of the tenant's other projects, without case."""
    capitalised: frozenset[str]
    """Words that the project itself capitalises inside a sentence."""
    utterances: Sequence[str]
    """What somebody said in the project's conversations."""
    capitals_matter: bool
    """Whether a capital tells a name from other words."""


def make_vocabulary(
    content: str,
    labels: Iterable[str],
    own: Iterable[str],
    others: Sequence[str],
    *,
    utterances: Sequence[str] = (),
    language: str = "",
) -> Vocabulary:
    """Read what the project's own memories say, those of the others, and its conversations.

    A label is a common word if it is one word, and another project's memory, that does not say
    what the content does, has it in small letters.
    """
    same = normalise(content)
    beside = (text for text in others if normalise(text) != same)
    small = {word for text in beside for word in _WORD.findall(text) if word.islower()}
    return Vocabulary(
        [label for label in dict.fromkeys(labels) if label.casefold() not in small],
        frozenset[str]().union(*map(_folded_words, others)),
        frozenset(
            word
            for text in own
            for word, begins in _capitalised_words(text.removeprefix(LESSON_FROM))
            if not begins
        ),
        utterances,
        language.rpartition(".")[2] not in _CAPITALISE_NOUNS,
    )


def _capitalised_words(text: str) -> Iterator[tuple[str, bool]]:
    """Words that begin with a capital, and whether each begins a sentence as well; "I" is none."""
    for match in _WORD.finditer(text):
        start = match.start()
        if len(match[0]) > 1 and match[0][0].isupper():
            yield match[0], bool(_BEGINS.search(text, max(0, start - _LOOKED_BACK), start))


def reason_to_rewrite(value: Mapping[str, Any], vocabulary: Vocabulary) -> str | None:
    """Why a memory goes to everybody only in words that somebody wrote; None if it need not."""
    content = content_of(value).removeprefix(LESSON_FROM)
    lesson = value.get("memory_type") == REFLEXION
    texts = [content, *(value[name] for name in LESSON_FIELDS if isinstance(value.get(name), str))]
    if value.get("speaker"):
        return "it was said in a conversation"
    task = str(value.get("task_id"))
    # what somebody asked for has more words than the name of a task
    asked = f"\nAsked: {task}\n" in content and any(True for _ in _word_runs(task))
    if lesson and (asked or any(is_quotation(text, vocabulary.utterances) for text in texts)):
        return "it quotes a conversation"
    if sum(map(len, texts)) > RULE_CHARACTERS:
        return "it is too long to be looked at as a whole"
    names = dict.fromkeys(name for text in texts for name in find_names(text, vocabulary))
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f"it names {', '.join(list(names)[:_MOST_NAMED])}{more}" if names else None


def is_quotation(text: str, utterances: Iterable[str]) -> bool:
    """Whether five words of a text stand in a row in what somebody said."""
    rows = set(_word_runs(text))
    return (
        any(not rows.isdisjoint(_word_runs(utterance)) for utterance in utterances)
        if rows
        else False
    )


def _word_runs(text: str) -> Iterator[tuple[str, ...]]:
    tokens = words(text)
    return zip(*(tokens[start:] for start in range(_IN_A_ROW)), strict=False)


def find_names(text: str, vocabulary: Vocabulary) -> Iterator[str]:
    """What a text names: what identifies by its form, then words by their capitals.

    A word does that begins with a capital inside a sentence, or does so elsewhere in its project,
    and that no other project of the tenant knows.
    """
    yield from find_identifying(text, vocabulary.labels)
    if not vocabulary.capitals_matter:
        return
    for word, begins in _capitalised_words(text):
        if (
            not begins or word in vocabulary.capitalised
        ) and word.casefold() not in vocabulary.known_words:
            yield word


def names_nobody(word: str, vocabulary: Vocabulary, general: str | None = None) -> bool:
    """Whether a word that stands alone, such as a tag, names nobody: each capital is known.

    Beside `general` words of somebody it is known itself, to these or to another project.
    """
    known_words = (
        vocabulary.known_words
        if general is None
        else vocabulary.known_words | _folded_words(general)
    )
    every = general is not None
    named = (
        part
        for part in _WORD.findall(word)
        if every or (vocabulary.capitals_matter and part[0].isupper())
    )
    return all(part.casefold() in known_words for part in named) and not find_identifying(
        word, vocabulary.labels
    )


def _folded_words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


# ---- a model that says it in general words --------------------------------------------------


class Generaliser(NamedTuple):
    """Says for everybody what was learned in one project; the names are private ones.

    What both return is checked by nobody else: it must not identify the project. None is of what is
    about its project alone, and stays there.
    """

    call: Callable[[str, Sequence[str]], str | None]
    acall: Callable[[str, Sequence[str]], Awaitable[str | None]]


class General(BaseModel):
    """What a model is asked for."""

    content: str = Field(description=prompts.GENERAL_CONTENT)
    bound: bool = Field(default=False, description=prompts.GENERAL_BOUND)


def generaliser_of(model: BaseChatModel) -> Generaliser:
    """A generaliser that asks a chat model; both functions raise `ModelError` without an answer.

    It may say that a memory is about its project alone: the answer is then None. Else it is checked
    by `identifying`. What still identifies somebody is told to the model once; if its second answer
    does as well, there is none, and nothing else stands in for it.

    Example:
        ```python
        from langmem_tiers.learn.general import generaliser_of

        general = generaliser_of(model).call("In billing-service, run migrations first", ["acme"])
        ```
    """
    return Generaliser(*make_asker(model, General, _GeneralRequest))


class _GeneralRequest(NamedTuple):
    """What was learned in one project, to be said for everybody."""

    content: str
    private: Sequence[str]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        names = "\n".join(escape_fences(name) for name in self.private)
        asked = prompts.GENERALISE_MEMORY.format(content=escape_fences(self.content), names=names)
        return [SystemMessage(prompts.GENERALISE), HumanMessage(asked)]

    def read(self, answer: General) -> str | None:
        """What an answer says; None if that it is about its project alone.

        Raises:
            InvalidInputError: if it says nothing, or still identifies somebody.
        """
        if answer.bound:
            return None
        content = checked_text(answer.content, "content").strip()
        if names := find_identifying(content, self.private):
            raise InvalidInputError(prompts.STILL_NAMED.format(leaks=", ".join(names)))
        return content


# ---- what identifies somebody ---------------------------------------------------------------

SECRET: Final = "a secret"  # noqa: S105 - the words for one
"""What is said of a secret, in place of itself."""


class _Rule:
    """What to look for, whether what is found identifies anybody, and what to say of it."""

    def __init__(
        self,
        pattern: str,
        holds: Callable[[re.Match[str]], bool] = lambda _: True,
        stand_in: str | None = None,
    ) -> None:
        self.pattern, self.holds, self.stand_in = re.compile(pattern), holds, stand_in


_SLICE: Final = 3
"""Digits of a number in a slice, such as `[1:100]`, at most."""


def find_identifying(text: str, labels: Iterable[str]) -> tuple[str, ...]:
    """What identifies somebody in a text, each once and as it stands there; of secrets, that.

    `labels` are names of projects, agents, sessions and tenants, found in any case and spelling
    (`billing-service`, `billing_service`, `BillingService`), as words of their own. Paths, URLs,
    hosts, e-mail addresses, ids, tickets and secrets are known by their form. Labels of one
    character, or without a letter or digit, say nothing of anybody and are left.

    Takes time in proportion to the text and to the number of labels.
    """
    if isinstance(labels, str):
        raise InvalidTypeError(f"labels is a list of names, such as ['acme'], not {short(labels)}")
    leaks: list[str] = []

    def blank(rule: _Rule, match: re.Match[str]) -> str:
        if not rule.holds(match):
            return match[0]
        leaks.append(rule.stand_in or match[0])
        return _BLANK

    # Names stand before ids, which may be parts of them, and after places, which hold them.
    for rule in (*_PLACES, *_label_rules(frozenset(labels)), *_NUMBERED):
        text = rule.pattern.sub(partial(blank, rule), text)
    return tuple(dict.fromkeys(leaks))


_BLANK: Final = "<>"
"""Stands for what was found already: no pattern reaches over it."""

# ---- labels -----------------------------------------------------------------------------------

_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
"""Where a word may start and end; `_` joins words, and is none of their characters."""
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_BETWEEN: Final = r"[\s_./-]?"
_IN_CAMEL_CASE: Final = 4
"""Letters of a label from which on it is found within other names: `acme` in `AcmeClient`."""


@lru_cache(maxsize=64)
def _label_rules(labels: frozenset[str]) -> tuple[_Rule, ...]:
    spelt = {tuple(_WORDS.findall(label)) for label in labels}
    # the longest first
    by_length = sorted((-len("".join(parts)), parts) for parts in spelt if len("".join(parts)) > 1)
    if not by_length:
        return ()
    spoken = "|".join(_BETWEEN.join(map(re.escape, parts)) for _, parts in by_length)
    coded = "|".join(_camel_case_pattern(parts) for _, parts in by_length)
    return (_Rule(rf"{_START}(?i:{spoken}){_END}|{coded}"),)


def _camel_case_pattern(words: tuple[str, ...]) -> str:
    """The label within a name in camel case; a pattern that never matches if it is short."""
    if len("".join(words)) < _IN_CAMEL_CASE:
        return "(?!)"
    first, *others = (re.escape(word.capitalize()) for word in words)
    low = re.escape(words[0].lower())
    return f"(?:(?<=[a-z0-9]){first}|{_START}(?:{first}|{low})){''.join(others)}(?![a-z0-9])"


# ---- what identifies by its form ------------------------------------------------------------

_HOST_ENDS: Final = re.compile(
    r"(?i)com|org|net|edu|gov|mil|internal|intranet|lan|corp|localdomain"
)
_UNSURE_HOST_ENDS: Final = re.compile(
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


def _is_host(match: re.Match[str]) -> bool:
    *labels, end = match["name"].split(".")
    if end == "NET" or labels[0].lower() in _NO_HOSTS:
        return False
    is_explicit = len(labels) + 1 >= _LABELS or match["port"] or "-" in match["name"]
    return bool(_HOST_ENDS.fullmatch(end) or (is_explicit and _UNSURE_HOST_ENDS.fullmatch(end)))


def _is_ip6(match: re.Match[str]) -> bool:
    address = match[0] if match[0].endswith("::") else match[0].removesuffix(":")
    try:
        ip = IPv6Address(address)
    except AddressValueError:
        return False
    numbers = [number for number in address.split(":") if number]
    slices = all(number.isdecimal() and len(number) <= _SLICE for number in numbers)
    code = slices or not any(map(str.isdecimal, address))
    return not (code or ip.is_loopback)


def _is_absolute_path(match: re.Match[str]) -> bool:
    """Whether it is a path from the root; no closing tag, no division and no comment."""
    path = match[0].rstrip(".-")
    parts = [part for part in path.split("/") if part]
    before = match.string[match.start() - 1 : match.start()]
    if len(parts) == 1 and (path.startswith("//") or before in ("<", ")", "]")):
        return False
    return len(parts) > 1 or (len(parts) == 1 and len(parts[0]) > 1 and not parts[0].isdecimal())


def _is_relative_path(match: re.Match[str]) -> bool:
    """Whether words with slashes between them are a path, and not `and/or`."""
    path = match[0].rstrip(".-")
    parts = [part for part in path.split("/") if part]
    if path.startswith(("./", "../", "~")) or not _ROOTS.isdisjoint(parts[1:-1]):
        return True
    if parts[0] in _FOLDERS or any(part[0] == "." and part.strip(".") for part in parts):
        return True
    if len(parts) > 1 and _FILE.fullmatch(parts[-1]):
        return True
    said_plainly = all(part.isalpha() for part in parts) or all(part.isdecimal() for part in parts)
    return len(parts) > 2 and not said_plainly  # noqa: PLR2004 - such as n/a, 24/7


def _is_spaced_path(match: re.Match[str]) -> bool:
    """A path with spaces is known by the quotes vocabulary it; others are known by themselves."""
    *folders, _ = re.split(r"[\\/]", match[0])
    return any(" " in folder for folder in folders)


def _is_random_secret(match: re.Match[str]) -> bool:
    """Whether it is a secret, which nobody would say: its kinds of characters keep changing.

    Of 500 random tokens of 24 letters and digits nine in ten are found (seeds 0 to 499).
    """
    token = match[0]
    kinds = [
        "0" if character.isdecimal() else "A" if character.isupper() else "a" for character in token
    ]
    changes = [kind + other for kind, other in pairwise(kinds) if kind != other]
    if sum("0" in change for change in changes) >= _MIXED:
        return True
    digits = 0 if len(token) >= _LONG else _DIGITS
    in_words = _SHORTEST_WORD * sum(change != "Aa" for change in changes) < len(token)
    return not (in_words or len(token) < _SECRET or kinds.count("0") < digits)


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
        r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://"
        r"[^\s<>\"'`)\]}]*[^\s<>\"'`)\]}.,;:!?]"
    ),
    # bob@acme.com, deploy@prod-db-1
    _Rule(r"(?<![\w.+%-])[\w.+%-]++@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)"),
    _Rule(r"(?<![\w.+%-])[\w.+%-]++@[A-Za-z]\w*+-[\w-]++"),
    # UUIDs, hardware addresses
    _Rule(rf"(?<!{_HEX}){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}{_END}"),
    _Rule(rf"{_START}(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}{_END}"),
    # 10.0.0.12:5432, fe80::1, db.acme.com:5432/main, redis-cache:6379
    _Rule(
        _START + r"(?<![0-9]\.)(?!127\.|0\.0\.0\.0(?![0-9]))"
        r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?:\.(?=[0-9])|(?![0-9]))){4}"
        r"(?<=[0-9])(?::[0-9]{1,5})?(?!\.?[0-9])(?![A-Za-z_])"
    ),
    _Rule(rf"(?<![\w:])(?:{_HEX}{{0,4}}:){{2,7}}{_HEX}{{0,4}}(?![\w:])", _is_ip6),
    _Rule(
        r"(?<![\w-])(?<!\w\.)(?P<name>(?:[\w-]{1,63}\.){1,20}[A-Za-z]{2,12})"
        r"(?P<port>:[0-9]{1,5})?(?![\w-])(?!\.\w)(?:/(?:[\w@+~%$=&#*/-]|\.(?=\w))*+)?",
        _is_host,
    ),
    _Rule(r"(?<![\w.-])[A-Za-z]\w*+(?:-\w++)+:[0-9]{4,5}(?![\w.:])"),
    # "/home/ada lovelace/x", C:\Users\bob and \\server\share, app\models\user.py
    _Rule(r"(?<=[\"'])(?:~?/|[A-Za-z]:[\\/])[^\"'\n<>]{1,300}(?=[\"'])", _is_spaced_path),
    _Rule(_START + r"(?:[A-Za-z]:[\\/](?=\w{2})|\\\\[\w.-]{1,64}\\\w)[^\s\"'`<>|:*?;,)\]}]*"),
    _Rule(r"(?<![\w.\\-])[\w.-]++(?:\\[\w.-]+)*\\[\w-]+\.[A-Za-z]\w{0,4}" + _END),
    # src/app/user.py, ../x, ~/x; /home/bob/x
    _Rule(r"(?<![\w.@+~%$/-])[\w.@+~%$-]++(?:/[\w.@+~%$=&#*-]*+)++", _is_relative_path),
    _Rule(
        r"(?<![\w./~\\])/{1,3}(?![/*])[\w.@+~%$=&#-]++(?:/[\w.@+~%$=&#*-]*+)*+", _is_absolute_path
    ),
)
_NUMBERED: Final = (
    # ABC-123, 3f2a9c1b
    _Rule(
        rf"{_START}(?<!-)(?!(?:{_STANDARDS})-)"
        r"[A-Z][A-Z0-9]{1,9}-[0-9]{1,6}(?![^\W_]|-[0-9])"
    ),
    _Rule(rf"{_START}(?:0[xX])?(?=[0-9]*+[a-fA-F]|0[xX]){_HEX}{{8,}}+{_END}"),
    # 48213; round numbers, quantities and error codes identify nobody
    _Rule(
        r"(?<![0-9])(?<![0-9][.,])(?<!CVE-[0-9]{4}-)(?<!SQLSTATE[ :=\[])(?<!ORA-)"
        r"(?<![Ee]rror )(?![1-9][0-9]?0{4,}(?![0-9]))[0-9]{5,}+(?!\.[0-9])"
        rf"(?! ?{_UNITS}{_END})"
    ),
    # 4111 1111 1111 1111, +351 912 345 678
    _Rule(r"(?<![\d.,])\+?\d{1,4}(?:[ -](?!000)\d{3,4}){2,6}(?![.,]?\d)"),
    # a8Kd92mXq0ZpL3vT7w
    _Rule(_START + r"[A-Za-z0-9]{10,}+" + _END, _is_random_secret, SECRET),
)
_PLACES: Final = (*(_Rule(pattern, stand_in=SECRET) for pattern in _SECRETS), *_FORMS)
"""Every pattern looks at a character a bounded number of times: it starts where a run of its
characters starts, is possessive, or has an upper bound.
"""
