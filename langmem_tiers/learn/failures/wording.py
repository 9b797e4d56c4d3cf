"""Names that only the words around them show, and values that stand side by side."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

_NOUNS: Final = (
    "account|argument|attribute|bean|branch|bucket|channel|class|cluster|collection|column|command|"
    "commit|container|customer|database|deployment|device|directory|endpoint|enum|field|"
    "file|fixture|function|group|host|id|image|index|instance|job|key|lookup|model|module|namespace|"
    "network|node|option|order|organi[sz]ation|package|parameter|partition|plugin|pod|port|process|project|property"
    "|queue|ref|relation|repository|resolve|resource|role|route|rule|schema|secret|server|service|"
    "session|stream|symbol|table|target|task|tenant|thread|token|tool|topic|unit|user|variable|"
    "volume|worker|workflow|connect(?:ing)? to(?! host )"
)
_FOLLOWS: Final = (
    "in|on|at|from|for|port|after|is|was|not|does|did|has|had|have|already|failed|timed|could|can|"
    "cannot|will|must|with|of|to|by|because|while|and|exited|returned|exceeded|raised|crashed|took"
)
_NOT_NAMES: Final = (
    f"(?:{_FOLLOWS}|ids?|named?|called|or|out|no|too|all|any|are|were|it|the|a|an|Error|Exception)"
)
_HAPPENED: Final = (
    r"\w+ed|missing|unavailable|unreachable|unhealthy|failure|full|busy|empty|exists|down|mismatch"
)
_NAMED: Final = re.compile(
    rf"((?:\b(?:{_NOUNS})|(?:\A|(?<=[:.] ))(?i:{_NOUNS})) )"
    rf"(?:<\w+>|(?!{_NOT_NAMES}(?![\w.-])|(?i:{_HAPPENED})(?=$|[,;:)]))[\w.-]+)"
    rf"(?=$|[,;:)]| [<(]| (?:{_FOLLOWS})\b)"
)
_KINDS: Final = re.compile(
    r"(?<=\bof type )[\w.]+|(?<=\bfor type )[\w.]+|(?<=\ban instance of )[\w.]+"
    r"|(?<=\ba valid )[A-Z][a-z]\w*"
    r"|(?<=\bfor )[^\w\s<\"'()]{1,3}(?=: )"
)
_RELEASED: Final = re.compile(
    r"(?:\A|(?<=\brequires )|(?<=\bhave )|(?<=\bneeds )|(?<=\bwith ))"
    r"(?!(?:version|python|than|from|in|to)\b)[A-Za-z][\w.-]* <release>"
)
_COUNTED: Final = r"<n> (?:[a-z]+ )?(?!(?:was|has|is|does|this)\b)[A-Za-z]"
_PLURAL: Final = re.compile(rf"({_COUNTED}+?(?:ss|ch|sh|x))es\b|({_COUNTED}+[^\Ws])s\b")
_INTERNAL: Final = re.compile(r"<(?:n|release)>")
_BETWEEN: Final = r"[ ]?[-,;:/|+&@.]{1,3}[ ]?|[ ](?:and|or|to|of)[ ]|,[ ](?:and|or)[ ]|[ ]"
_RUN: Final = re.compile(
    rf"<value>(?:[(\[]<value>[)\]]|(?:{_BETWEEN}|[^\s<>()\[\]]{{1,30}})?<value>)+"
)
_FILLED: Final = re.compile(r"<value>(?:/|={1,2}|\+)(?=$|[\s,.;:)\]])")
_FIELD: Final = re.compile(
    r"^\w+(?=: (?:Field required|Input should be|Value error|Extra inputs|Missing required))"
)
_SETTING: Final = re.compile(
    r"\b[A-Z][A-Z\d_]{2,}"
    r"(?= (?:(?:is|was|must be|has to be) )?(?:not )?(?:set|defined|required|missing)\b)"
)
_GIVEN: Final = re.compile(
    r"\b(?!(?:code|status|state|reason|error|cause|type|kind)=)([a-z_]+=)[\w.-]+(?=[\s,;)\]]|$)"
)
_IN_BRACKETS: Final = re.compile(r"(<value>) \((?:<value>|[\w.-]+)\)")
_ARROW: Final = re.compile(r"(?<!\S)\S++ -> \S+")
_VERSIONS: Final = re.compile(r" \(from versions: [^()]*\)")
_SUBJECT: Final = re.compile(
    r"\A(?!(?:it|this|that|there|what|index|file|key|value)\b)"
    r"[a-z][\w-]*(?= is not (?:a|an|defined)\b)"
    r"|\A\S+(?= is not a valid tool\b)"
)
_CHOICES: Final = re.compile(
    r"\b(one of|choose from|choices are:?|options are:?|available:|expected one of:?) .*",
    re.IGNORECASE,
)
_PHRASES: Final = "|".join(one.phrase for one in HTTPStatus if " " not in one.phrase)
_LAST_NAMED: Final = re.compile(rf"(\b(?:{_NOUNS})s?: )[\w.-]+$")
_LAST_WORD: Final = re.compile(
    rf"(?<=[^\s:]: )(?:<value>|(?!(?:{_PHRASES}|\w+ed)$)(?=\w*[a-z])[\w.-]+)$"
)
_IN_PLACE: Final = (
    *((_PLURAL, r"\1\2"), (_RELEASED, "<value>"), (_INTERNAL, "<value>"), (_RUN, "<value>")),
    *((_FILLED, "<value>"), (_KINDS, "<value>"), (_NAMED, r"\1<value>"), (_FIELD, "<value>")),
    *(
        (_SETTING, "<value>"),
        (_GIVEN, r"\1<value>"),
        (_IN_BRACKETS, r"\1"),
        (_ARROW, "<value>"),
        (_VERSIONS, ""),
    ),
    *(
        (_SUBJECT, "<value>"),
        (_CHOICES, r"\1 <value>"),
        (_LAST_NAMED, r"\1<value>"),
        (_RUN, "<value>"),
    ),
)


def reworded(line: str) -> str:
    """A line whose names, shown by the words around them, and runs of values are one value each."""
    for accidental, placeholder in _IN_PLACE:
        line = accidental.sub(placeholder, line)
    return _LAST_WORD.sub("<value>", line.lstrip(" .:,;-").rstrip(' .:,;-"'))
