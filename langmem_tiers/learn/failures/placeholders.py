"""What is accidental in an error message, and what stands in its place."""

from __future__ import annotations

import builtins
import re
from http import HTTPStatus
from typing import Final

LONGEST: Final = 2_000
"""Characters of a message that are looked at."""

_PHRASES: Final = "|".join(sorted({re.escape(one.phrase) for one in HTTPStatus}, reverse=True))
_CODES: Final = ("code", "kind", "type")
_BUILT_IN: Final = frozenset(dir(builtins))
_POWER: Final = r"[eE][-+]?\d+"
_UNIT: Final = "(?:[mnµu]s|s|secs?|seconds?|m|mins?|minutes?|h|hours?|days?)"
_NOUNS: Final = (
    "branch|column|command|commit|container|database|deployment|directory|endpoint|field|file|"
    "function|group|host|image|job|key|lookup|module|namespace|network|node|option|package|pod|"
    "port|process|project|ref|relation|repository|resolve|role|rule|schema|secret|server|service|table|"
    "target|task|tool|unit|user|variable|volume|connect(?:ing)? to"
)
_SUFFIXES: Final = (
    "py|pyi|pyc|ipynb|js|mjs|cjs|jsx|ts|tsx|go|rs|java|kt|c|h|cc|cpp|hpp|rb|php|sh|sql|json|ya?ml|"
    "toml|ini|cfg|conf|env|lock|md|rst|txt|csv|tsv|parquet|xml|html|css|log|so|dll|whl|zip|gz|pem"
)

# The first that matches at a place wins; a group's name says what stands in its place. What is
# named `keep` stays as it is: placeholders, and the codes that say what kind of failure it is.
_ACCIDENTS: Final = re.compile(
    rf"""
    (?P<keep>
        <(?:value|path|url|addr|time|id|n)>
      | \[(?:Errno|WinError)\ -?\d{{1,5}}\] | \(os\ error\ \d{{1,5}}\)
      | '[1-5]\d\d\ (?:{_PHRASES})' | \b[1-5]\d\d\ (?:{_PHRASES}|(?:Client|Server)\ Error)\b
      | (?i:\bSQLSTATE\W{{0,2}}(?=\w{{5}}\b)\w*\d\w*)
      | (?i:\b(?:exit(?:ed)?|code|status|status_code|returncode|errno|rc|signal
        |http(?:/[\d.]{{1,3}})?)
        (?:\ ?[:=]\ ?|\ with\ |\ ))-?\d{{1,3}}\b(?![.:]\d|\w)
      | \A\#\d{{3,5}}(?=:\ ) | \bcurl:\ \(\d{{1,3}}\)
      | (?i:\bError\ )\d{{1,3}}\b(?![.:]\d|\w)
      | \bORA-\d{{5}}\b
      | (?i:\b(?:utf-?(?:8|16|32)|latin-?1|cp125\d|base(?:16|32|64)|sha-?(?:1|256|512)|md5|x509
        |u?int(?:8|16|32|64)|float(?:16|32|64)|[iuf](?:8|16|32|64)|ipv[46]|oauth2|s3|k8s)\b
        (?![-.:]\w))
    )
  | (?P<time>
        \b\d{{4}}[-/]\d\d?[-/]\d\d?(?:[T\ _]\d\d?[:_]\d\d(?:[:_]\d\d)?(?:[.,]\d+)?)?
            (?:Z\b|\ ?[+-]\d\d:?\d\d\b)?
      | \b\d\d?:\d\d:\d\d(?:[.,]\d+)?
      | \b\d+(?:\.\d+)?(?:{_POWER})?\ ?{_UNIT}(?:\ ?\d+(?:\.\d+)?\ ?{_UNIT})*\b
    )
  | (?P<url> \b[A-Za-z][\w+.-]{{1,20}}://[^\s'"<>`)\]}}]+ | \b[\w.+-]+@[\w.-]+:[\w./~-]+ )
  | (?P<value>
        (?<!\w)(?P<quote>['"`])(?:\\.|[^\\])*?(?:(?P=quote)(?!\w)|$)
      | “[^”]*” | \u2018[^\u2019]*\u2019 | «[^»]*»
      | \[(?=['"<\d\s\]-])[^\[\]]*\] | \((?=['"\d-])[^()]*\)
      | \b[\w.-]+(?:[=!<>~]=|\^)[\w.*]+
      | [\w./+-]*@[\w^~*][\w.^~*+-]*
    )
  | (?P<blob> \{{.*\}} )
  | (?P<path>
        \b[A-Za-z]:[\\/](?:[^\\/\s'":*?<>|]+(?:\ [^\\/\s'":*?<>|]+){{0,2}}[\\/])*
            [^\\/\s'":*?<>|,;)]*(?::\d+){{0,2}}
      | (?<![\w<>])(?:~|\.{{1,2}})?/(?:[^/\s'":<>()]+(?:\ [^/\s'":<>()]+){{0,2}}/)*[^/\s'":<>(),;]*
            (?::\d+){{0,2}}
      | \b[\w.@+-]+(?:[/\\][\w.@+-]+)+[/\\]?(?::\d+){{0,2}}
      | \b[\w-]+(?:\.[\w-]+)*\.(?:{_SUFFIXES})\b(?::\d+){{0,2}}
    )
  | (?P<addr>
        \b0x[0-9a-fA-F]+\b | \b\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?\b
      | (?<![\w:])(?:[0-9a-fA-F]{{0,4}}:){{2,7}}[0-9a-fA-F]{{1,4}}\b
      | \b(?:localhost|[A-Za-z][\w.-]*(?=:\d))(?::\d{{2,5}})?\b
    )
  | (?P<call> \b[\w.]+\(\) )
  | (?P<id>
        \b(?!\d+(?:\.\d+)?{_POWER}\b)(?=[\w-]*\d)(?=[\w-]*[^\W\d])
            \w[\w-]*(?:\.\w[\w-]*)*(?::\w[\w.-]*)?
    )
  | (?P<dotted> \b[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)+ | \b(?=[a-z\d]*_)[_a-z]+[a-z\d_]*\b )
  | (?P<n> (?<!\w)[-+]?\d+(?:[.,_:x]\d+)*(?:{_POWER})?(?:\ ?(?:[kKMGTP]i?B|bytes?|B))?\b%? | \d+ )
    """,
    re.VERBOSE,
)
_LIST: Final = re.compile(r"(<(?:value|path|n|id)>)(?:(?:, and |, or |, | and | or |: |/| )\1)+")
_ALONE: Final = re.compile(r"<\w+>[.]?")
_FOLLOWS: Final = "in|on|at|from|for|port|after|is|was|not|does|already|failed"
_NAMED: Final = re.compile(
    rf"\b((?:{_NOUNS}) )(?:<\w+>|(?!named?\b|called\b)[\w.-]+)"
    rf"(?=$|[,;:)]| [<(]|(?<!\b[io]n)(?<!\bis) (?:{_FOLLOWS})\b)"
)
_IN_BRACKETS: Final = re.compile(r"(<\w+>) \((?:<\w+>|[\w.-]+)\)")
_ARROW: Final = re.compile(r"\S+ -> \S+")
_VERSIONS: Final = re.compile(r" \(from versions: [^()]*\)")
_NO_TOOL: Final = re.compile(r"^\S+(?= is not a valid tool\b)")
_LAST_WORD: Final = re.compile(r"(?<=[^\s:]: )(?:<\w+>|(?=\w*[a-z])[\w.-]+)$")
_COMPARED: Final = re.compile(r"(assert )?(?:[^:]*: )?.*? (==|!=|<=|>=|<|>) .*")
_RELATED: Final = re.compile(r"assert .*? ((?:not )?in|is(?: not)?) .*")
_CHOICES: Final = re.compile(r"\bone of .*")
_TOUCHING: Final = re.compile(r"<\w+>(?:[-_.:/(=,]*<\w+>\)?)+")
_IN_PLACE: Final = (
    *((_TOUCHING, "<value>"), (_NAMED, r"\1<value>"), (_IN_BRACKETS, r"\1"), (_ARROW, "<value>")),
    *((_VERSIONS, ""), (_NO_TOOL, "<value>"), (_CHOICES, "one of <value>")),
)
_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f]+")


def template(message: str) -> str:
    """The message in one line, with placeholders for all that is accidental in it."""
    line = _SPACE.sub(" ", message[:LONGEST]).strip()
    line = _LIST.sub(r"\1", _ACCIDENTS.sub(_placeholder, line))
    for accidental, placeholder in _IN_PLACE:
        line = accidental.sub(placeholder, line)
    line = _LAST_WORD.sub("<value>", line.strip(" .:,;-"))
    return "<value>" if _ALONE.fullmatch(line) else line


def comparison(message: str) -> str:
    """What an assertion compared, by its operator alone: the operands can be anything."""
    if found := _COMPARED.fullmatch(message):
        return f"{found[1] or ''}<value> {found[2]} <value>"
    return _RELATED.sub(r"assert <value> \1 <value>", message)


def _placeholder(found: re.Match[str]) -> str:
    kind, text = found.lastgroup or "", found[0]
    if found["keep"]:
        return text
    if found["value"] is not None:
        return "<value>"
    if kind == "blob":
        return _code(text)
    if kind == "call":
        return text if text[:-2] in _BUILT_IN else "<value>()"
    return "<value>" if kind == "dotted" else f"<{kind}>"


def _code(blob: str) -> str:
    """The error code that a JSON body names, in capitals, as codes are kept."""
    for key in _CODES:
        if found := re.search(
            rf"\b{key}['\"]?\s*[:=]\s*['\"]?(?!error\b)([A-Za-z_]{{3,}})\b", blob
        ):
            return found[1].upper()
    return "<value>"
