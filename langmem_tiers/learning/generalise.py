"""Decide whether a text may go to all projects unchanged, or only in general words.

No text is rewritten or guessed here. The reason that holds a text back is returned; then a person
or a model writes general words, or the text stays. A part of a text identifies somebody by its
form, or as a label of a project in any spelling.
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
from langmem_tiers.core.chat_models import make_asker
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.texts import RULE_CHARACTERS, normalise, words
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.core.values import content_of
from langmem_tiers.learning.reflexion import LESSON_FROM
from langmem_tiers.recall.prompt_text import escape_fences
from langmem_tiers.remember.new_memory import checked_text

LESSON_FIELDS: Final = ("original_approach", "failure_reason", "improved_approach")
"""Fields of a lesson with its texts."""
_CAPITALISE_NOUNS: Final = frozenset({"german"})
"""Languages of an index in which all nouns have capitals."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_BEGINS: Final = re.compile(r"(?:\A|\n|[.!?:;…][^\w\s]*\s)[^\w\n]*\Z")
"""Characters before the first word of a sentence."""
_LOOKED_BACK: Final = 12
"""Number of characters before a word that are searched for the end of a sentence."""
_IN_A_ROW: Final = 5
"""The least consecutive words of a quotation."""
_MOST_NAMED: Final = 3
"""The most names that a reason lists."""


class Vocabulary(NamedTuple):
    """The words of a tenant that a project's memory is compared with."""

    labels: Sequence[str]
    """Names of its own context and of the projects that used it, without common words."""
    known_words: frozenset[str]
    """Words of the tenant's other projects, folded."""
    capitalised: frozenset[str]
    """Words that the project capitalises inside a sentence."""
    utterances: Sequence[str]
    """Messages of the project's conversations."""
    capitals_matter: bool
    """True if a capital tells a name from other words."""


def make_vocabulary(
    content: str,
    labels: Iterable[str],
    own: Iterable[str],
    others: Sequence[str],
    *,
    utterances: Sequence[str] = (),
    language: str = "",
) -> Vocabulary:
    """Make the vocabulary from the project's memories, those of others, and its conversations.

    A label is a common word if it is one word, and another project's memory with a different
    content has it in small letters.
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
    """Yield capitalised words but "I", each with True if it also begins a sentence."""
    for match in _WORD.finditer(text):
        start = match.start()
        if len(match[0]) > 1 and match[0][0].isupper():
            yield match[0], bool(_BEGINS.search(text, max(0, start - _LOOKED_BACK), start))


def reason_to_rewrite(value: Mapping[str, Any], vocabulary: Vocabulary) -> str | None:
    """Return the reason why a memory needs general words; None if it may go unchanged."""
    content = content_of(value).removeprefix(LESSON_FROM)
    lesson = value.get("memory_type") == REFLEXION
    texts = [content, *(value[name] for name in LESSON_FIELDS if isinstance(value.get(name), str))]
    if value.get("speaker"):
        return "it was said in a conversation"
    task = str(value.get("task_id"))
    # a request has more words than the name of a task
    asked = f"\nAsked: {task}\n" in content and any(True for _ in _word_runs(task))
    if lesson and (asked or any(is_quotation(text, vocabulary.utterances) for text in texts)):
        return "it quotes a conversation"
    if sum(map(len, texts)) > RULE_CHARACTERS:
        return "it is too long to be looked at as a whole"
    names = dict.fromkeys(name for text in texts for name in find_names(text, vocabulary))
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f"it names {', '.join(list(names)[:_MOST_NAMED])}{more}" if names else None


def is_quotation(text: str, utterances: Iterable[str]) -> bool:
    """Tell whether five consecutive words of a text occur in a message."""
    rows = set(_word_runs(text))
    return bool(rows) and any(not rows.isdisjoint(_word_runs(each)) for each in utterances)


def _word_runs(text: str) -> Iterator[tuple[str, ...]]:
    tokens = words(text)
    return zip(*(tokens[start:] for start in range(_IN_A_ROW)), strict=False)


def find_names(text: str, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the identifying parts of a text, then its capitalised names.

    A word is a name if it has a capital inside a sentence, here or elsewhere in its project, and no
    other project of the tenant knows it.
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
    """Tell whether a single word, such as a tag, names nobody: each capitalised part is known.

    Beside `general` words every part has to be in these words, or known to another project.
    """
    known_words = vocabulary.known_words
    if general is not None:
        known_words |= _folded_words(general)
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


# ---- generalisation by a model --------------------------------------------------------------


class Generaliser(NamedTuple):
    """Functions that rewrite a memory for all projects, given its text and private names.

    Nobody else checks the returned text: it must not identify the project. None keeps a memory that
    is about its project alone where it is.
    """

    call: Callable[[str, Sequence[str]], str | None]
    acall: Callable[[str, Sequence[str]], Awaitable[str | None]]


class General(BaseModel):
    """What a model is asked for."""

    content: str = Field(description=prompts.GENERAL_CONTENT)
    bound: bool = Field(default=False, description=prompts.GENERAL_BOUND)


def generaliser_of(model: BaseChatModel) -> Generaliser:
    """Return a generaliser that asks a chat model. It raises `ModelError` without a usable answer.

    If the model finds a memory to be about its project alone, the result is None. Other answers are
    checked by `find_identifying`. If an answer still identifies somebody, the model is told so
    once. A second such answer is not usable.

    Example:
        ```python
        from langmem_tiers.learning.generalise import generaliser_of

        general = generaliser_of(model).call("In billing-service, run migrations first", ["acme"])
        ```
    """
    return Generaliser(*make_asker(model, General, _GeneralRequest))


class _GeneralRequest(NamedTuple):
    """A request to rewrite a memory of one project for all projects."""

    content: str
    private: Sequence[str]

    def messages(self) -> list[BaseMessage]:
        """Return the messages to the model."""
        names = "\n".join(escape_fences(name) for name in self.private)
        asked = prompts.GENERALISE_MEMORY.format(content=escape_fences(self.content), names=names)
        return [SystemMessage(prompts.GENERALISE), HumanMessage(asked)]

    def read(self, answer: General) -> str | None:
        """Return the text of an answer; None if the memory is about its project alone.

        Raises:
            InvalidInputError: if the text is empty, or still identifies somebody.
        """
        if answer.bound:
            return None
        content = checked_text(answer.content, "content").strip()
        if names := find_identifying(content, self.private):
            raise InvalidInputError(prompts.STILL_NAMED.format(leaks=", ".join(names)))
        return content


# ---- identifying parts ----------------------------------------------------------------------

SECRET: Final = "a secret"  # noqa: S105 - the words for one
"""Text that stands in for a secret."""


class _Rule:
    """A pattern, a check that a match identifies somebody, and a stand-in for the match."""

    def __init__(
        self,
        pattern: str,
        holds: Callable[[re.Match[str]], bool] = lambda _: True,
        stand_in: str | None = None,
    ) -> None:
        self.pattern, self.holds, self.stand_in = re.compile(pattern), holds, stand_in


_SLICE: Final = 3
"""The most digits of a number in a slice, such as `[1:100]`."""


def find_identifying(text: str, labels: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of a text that identify somebody, each once, and "a secret" for secrets.

    `labels` are names of projects, agents, sessions and tenants. They are found as separate words,
    in any case and spelling (`billing-service`, `billing_service`, `BillingService`). Paths, URLs,
    hosts, e-mail addresses, ids, tickets and secrets are found by their form. Labels of one
    character, or without a letter or digit, are ignored.

    The time is proportional to the text and to the number of labels.
    """
    if isinstance(labels, str):
        raise InvalidTypeError(f"labels is a list of names, such as ['acme'], not {short(labels)}")
    leaks: list[str] = []

    def blank(rule: _Rule, match: re.Match[str]) -> str:
        if not rule.holds(match):
            return match[0]
        leaks.append(rule.stand_in or match[0])
        return _BLANK

    # Labels come before ids, which may be parts of them, and after places, which contain them.
    for rule in (*_PLACES, *_label_rules(frozenset(labels)), *_NUMBERED):
        text = rule.pattern.sub(partial(blank, rule), text)
    return tuple(dict.fromkeys(leaks))


_BLANK: Final = "<>"
"""Replacement of a part that was found: no pattern matches across it."""

# ---- labels -----------------------------------------------------------------------------------

_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
"""The start and end of a word; `_` joins words, and is no character of a word."""
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_BETWEEN: Final = r"[\s_./-]?"
_IN_CAMEL_CASE: Final = 4
"""The least letters of a label that is found within other names: `acme` in `AcmeClient`."""


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
    """Return a pattern for a label within a camel-case name; a short label never matches."""
    if len("".join(words)) < _IN_CAMEL_CASE:
        return "(?!)"
    first, *others = (re.escape(word.capitalize()) for word in words)
    low = re.escape(words[0].lower())
    return f"(?:(?<=[a-z0-9]){first}|{_START}(?:{first}|{low})){''.join(others)}(?![a-z0-9])"


# ---- identifying forms ----------------------------------------------------------------------

_HOST_ENDS: Final = re.compile(
    r"(?i)com|org|net|edu|gov|mil|internal|intranet|lan|corp|localdomain"
)
_UNSURE_HOST_ENDS: Final = re.compile(
    r"(?i)io|dev|ai|co|cloud|tech|xyz|local"
    r"|eu|uk|de|fr|nl|pl|se|ch|dk|fi|cz|ru|jp|cn|kr|au|nz|ca|br|mx|za"
)
"""Ends of hosts that also end names in code (`threading.local`): these hosts need another sign."""
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
"""Standards with names like tickets: UTF-8, SHA-256, ISO-8601."""
_UNITS: Final = (
    r"(?:[mµun]?s|px|[kKMGTP]?i?[bB]|k|m|x|h|d|bytes?|chars?|characters|tokens?|rows?|items?"
    r"|records?|times|seconds?|milliseconds?|requests?|connections?|users?|lines?|%)"
)
_MIXED: Final = 5
"""The least changes between letters and digits in a secret; `sha256sum` has two."""
_SECRET, _LONG, _DIGITS, _SHORTEST_WORD = 16, 20, 2, 3
"""The least characters of a secret; of a secret without digits; the least digits of a shorter one;
the least letters of a word."""


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
    """Tell whether a match is an absolute path, and no closing tag, division or comment."""
    path = match[0].rstrip(".-")
    parts = [part for part in path.split("/") if part]
    before = match.string[match.start() - 1 : match.start()]
    if len(parts) == 1 and (path.startswith("//") or before in ("<", ")", "]")):
        return False
    return len(parts) > 1 or (len(parts) == 1 and len(parts[0]) > 1 and not parts[0].isdecimal())


def _is_relative_path(match: re.Match[str]) -> bool:
    """Tell whether words with slashes between them are a path, and not `and/or`."""
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
    """Tell whether a quoted path has spaces; paths without spaces match other rules."""
    *folders, _ = re.split(r"[\\/]", match[0])
    return any(" " in folder for folder in folders)


def _is_random_secret(match: re.Match[str]) -> bool:
    """Tell whether a token is a random secret: its kinds of characters keep changing.

    Nine in ten of 500 random tokens of 24 letters and digits are found (seeds 0 to 499).
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
    # keys and certificates in PEM, JSON web tokens, tokens with a prefix of their issuer
    r"-----BEGIN [A-Z0-9 ]{1,40}-----[\sA-Za-z0-9+/=]*+(?:-----END [A-Z0-9 ]{1,40}-----)?",
    r"(?<![\w-])eyJ[\w-]{8,}+(?:\.[\w-]++){1,2}",
    _START + r"(?:(?:sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|hf|npm|pypi|whsec|shpat)[-_]"
    r"(?=[\w-]{0,60}\d)[\w-]{16,}+|(?:AKIA|ASIA)[0-9A-Z]{16}|(?:AIza|ya29\.)[\w-]{20,}+)",
    # Authorization: Bearer …; the value of a password, in quotes, or without them
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
"""Rules before those of labels. Every pattern reads a character a bounded number of times: it
starts where a run of its characters starts, is possessive, or has an upper bound."""
