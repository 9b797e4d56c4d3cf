"""What is accidental in an error message, and what stands in its place."""

from __future__ import annotations

import builtins
import re
from http import HTTPStatus
from typing import Final

from langmem_tiers.learn.failures.bodies import said_by
from langmem_tiers.learn.failures.wording import reworded

LONGEST: Final = 2_000
"""Characters of a message that are looked at."""

_PHRASES: Final = "|".join(sorted({re.escape(one.phrase) for one in HTTPStatus}, reverse=True))
_BUILT_IN: Final = frozenset(dir(builtins))
_SCRAMBLED: Final = 12
_POWER: Final = r"[eE][-+]?\d+"
_UNIT: Final = (
    "(?:[mnµu]s|s|secs?|(?:milli|micro|nano)?seconds?|m|mins?|minutes?|h|hours?|days?|weeks?|months?|"
    "years?)"
)
_MONTH: Final = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK: Final = r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\ ?[AP]M\b)?"
_ZONE: Final = r"(?:Z\b|\ ?[+-]\d\d:?\d\d\b|\ (?:UTC|GMT)\b)?"
MOMENT: Final = rf"""(?:
    \b\d{{4}}[-/]\d\d?[-/]\d\d?(?:[T\ _]\d\d?[:_]\d\d(?:[:_]\d\d)?(?:[.,]\d+)?)?{_ZONE}
  | \b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\ )?
    (?:{_MONTH}\ {{1,2}}\d\d?|\d\d?[\ /-]{_MONTH})(?:,?[\ /-]\d{{4}})?(?:[\ :]{_CLOCK}{_ZONE})?
    (?:\ \d{{4}}\b)?
)"""
"""A point in time with its date, as a verbose pattern."""
_SUFFIXES: Final = (
    "py|pyi|pyc|ipynb|js|mjs|cjs|jsx|ts|tsx|go|rs|java|kt|c|h|cc|cpp|hpp|rb|php|sh|sql|json|ya?ml|"
    "toml|ini|cfg|conf|env|lock|md|rst|txt|csv|tsv|parquet|xml|html|css|log|so|dll|whl|zip|gz|pem"
)
_QUOTED: Final = r"""'(?:\\.|[^\\'])*+' | "(?:\\.|[^\\"])*+" """

# The first that matches at a place wins; a group's name says what it is. What is named `keep` stays
# as it is: placeholders, and the codes that say what kind of failure it is.
_ACCIDENTS: Final = re.compile(
    rf"""
    (?P<keep>
        <value>
      | \bAn\ error\ occurred\ \(\w+\)
      | \[(?:Errno|WinError)\ -?\d{{1,5}}\] | \(os\ error\ \d{{1,5}}\)
      | '[1-5]\d\d\ (?:{_PHRASES})' | \b[1-5]\d\d\ (?:{_PHRASES}|(?:Client|Server)\ Error)\b
      | (?i:\bSQLSTATE\W{{0,2}}(?=\w{{5}}\b)\w*\d\w*)
      | (?i:\b(?:exit(?:ed)?|code|status|status_code|returncode|errno|rc|signal
        |http(?:/[\d.]{{1,3}})?)
        (?:\ ?[:=]\ ?|\ with\ |\ ))-?\d{{1,3}}\b(?![.:]\d|\w)
      | (?i:\b(?:API|server|upstream|endpoint|request)\ (?:returned|responded\ with|failed\ with)\ )
        [45]\d\d\b(?![.:]\d|\w)
      | \A\#\d{{3,5}}(?=:\ ) | \bcurl:\ \(\d{{1,3}}\)
      | (?i:\bError\ )\d{{1,3}}\b(?![.:]\d|\w)
      | \bORA-\d{{5}}\b
      | (?i:\b(?:utf-?(?:8|16|32)|latin-?1|cp125\d|base(?:16|32|64)|sha-?(?:1|256|512)|md5|x509
        |u?int(?:8|16|32|64)|float(?:16|32|64)|[iuf](?:8|16|32|64)|ipv[46]|oauth2|s3|k8s)\b
        (?![-.:][\w%]))
    )
  | (?P<time>
        {MOMENT} | \b\d\d?:\d\d:\d\d(?:[.,]\d+)?
      | \b\d+(?:\.\d+)?(?:{_POWER})?\ ?{_UNIT}(?:\ ?\d+(?:\.\d+)?\ ?{_UNIT})*\b
    )
  | (?P<url>
        \b[A-Za-z][\w+.-]{{1,20}}://[^\s'"<>`)\]}}]+
      | \b[\w.+-]{{1,100}}@[\w.-]{{1,100}}:[\w./~-]+
    )
  | (?P<secret>
        \b(?:Bearer|Basic)\ [\w+/.~-]+=*
      | \b(?:sk|pk|rk|gh[opsu]|xox[abp]|glpat|hf)[-_][\w+/-]+=*
      | (?<![\w/.\\~+-])(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])(?=[\w+/-]*[\d+/])
        [A-Za-z\d+/_-]{{16,}}+={{0,2}}(?![\w/\\=]|[.:]\w)
    )
  | (?P<made>
        \b[\w.]{{1,100}}\((?=['"\d-]|\[|\{{|<)(?:{_QUOTED} | [^()] | \([^()]*+\))*+\)
    )
  | (?P<value>
        (?<!\w)`[^`']*'(?!\w)
      | (?<!\w)(?P<quote>['"`])(?:\\.|[^\\])*?(?:(?P=quote)(?!\w)|$)
      | “[^”]*” | \u2018[^\u2019]*\u2019 | «[^»]*»
      | \[(?=['"<\d\s\]\[{{(-]|[\w.-]+,\ )(?:{_QUOTED} | [^\[\]] | \[[^\[\]]*+\])*+\]
      | \[(?=['"<\d\s\]-])[^\[\]]*\] | (?<=[a-z]\ )\[[a-z][\w.:@/-]*\]
      | \((?=['"\d-])[^()]*\)
      | \b[\w.-]{{1,100}}(?:[=!<>~]=|\^)[\w.*]+
      | [\w./+-]{{0,100}}@[\w^~*][\w.^~*+-]*
      | (?<!\w)<[A-Za-z_][\w.]*[\ :(\[](?:[^<>]|<[^<>]*+>)*+>
      | (?<!\w)<(?:/?[a-z][\w-]*|[^<>\s]*@[^<>\s]*)>
      | \([\w,\ ]+\)=\([^()]*\) | \b[\w.-]+:latest\b
      | (?i:\b(?:get|post|put|patch|delete|head))(?=\ ["'<]?https?://)
      | (?<![\w-])--[A-Za-z][\w-]*(?:=\S+)?
      | (?<=[a-z]=)(?:None|True|False|null|true|false|nan)\b
    )
  | (?P<blob> \{{(?:{_QUOTED} | [^{{}}] | \{{[^{{}}]*+\}})*+\}} | \{{.*\}} )
  | (?P<path>
        \b[A-Za-z]:[\\/](?:[^\\/\s'":*?<>|]+(?:\ [^\\/\s'":*?<>|]+){{0,2}}[\\/])*
            [^\\/\s'":*?<>|,;)]*(?::\d+){{0,2}}
      | \\\\[\w.$-]+(?:\\[^\\/\s'":*?<>|,;)]+)+(?::\d+){{0,2}}
      | (?<![\w<>])(?:~|\.{{1,2}})?/(?:[^/\s'":<>()]+(?:\ [^/\s'":<>()]+){{0,2}}/)*[^/\s'":<>(),;]*
            (?::\d+){{0,2}}
      | (?<![\w:])(?::[\w-]+){{2,}} | \b[\w.@+-]{{1,100}}(?:[/\\][\w.@+-]+)+[/\\]?(?:::?[\w.-]*\w)*
      | \b(?=[\w.-]{{1,100}}\.(?:{_SUFFIXES})\b)
            [\w-]+(?:\.[\w-]+)*\.(?:{_SUFFIXES})\b(?::\d+){{0,2}}
    )
  | (?P<addr>
        \bipv[46]:[^\s,;]*[^\s,;:] | \b0x[0-9a-fA-F]+\b | \b\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?\b
      | (?<![\w:])\[?(?:[0-9a-fA-F]{{0,4}}:){{2,7}}[0-9a-fA-F]{{1,4}}\b(?:\]:\d+)?
      | \b(?:localhost|[A-Za-z][\w.-]{{0,100}}(?=:\d))(?::\d{{2,5}})?\b
    )
  | (?P<release>
        \bv?\d+\.\d+\.\d+(?:[-+.]?[A-Za-z][\w.+-]*|(?![\w.]))
      | \bv?\d+\.\d+(?:[-.]?(?:rc|alpha|beta|dev|post|a|b)[-.]?\d|[-+][A-Za-z])[\w.+-]*
    )
  | (?P<call> \b[\w.]{{1,100}}\(\) )
  | (?P<id>
        \b(?!\d+(?:\.\d+)?{_POWER}\b)(?=[\w-]{{0,100}}\d)(?=[\w-]{{0,100}}[^\W\d])
            \w[\w-]*(?:\.\w[\w-]*)*(?::\w[\w.-]*)?
      | \b[a-z]+_(?=\w*[A-Z])(?=\w*[a-z])\w+
    )
  | (?P<dotted> \b[^\W\d][\w-]{{0,100}}(?:\.[^\W\d][\w-]*)+ | \b(?=[a-z\d]*_)[_a-z]+[a-z\d_]*\b )
  | (?P<word> \b[A-Za-z]{{{_SCRAMBLED},}}\b )
  | (?P<n>
        (?<!\w)[-+]?[$€£¥]?\d+(?:[.,_:x]\d+)*(?:{_POWER})?(?:\ ?(?:[kKMGTP]i?B|bytes?|B))?\b%? | \d+
    )
    """,
    re.VERBOSE,
)
_CAUSE: Final = re.compile(r"(?:Error|Exception|Timeout)$")
_ERRNO: Final = re.compile(r"\[(?:Errno|WinError) -?\d{1,5}\]")
_HUMP: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ALONE: Final = re.compile(r"<value>[.]?")
_COMPARED: Final = re.compile(r"(assert )?(?:[^:]*: )?.*? (==|!=|<=|>=|<|>) .*")
_RELATED: Final = re.compile(r"assert .*? ((?:not )?in|is(?: not)?) .*")
_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f]+")


def template(message: str) -> str:
    """The message in one line, with a placeholder for all that is accidental in it."""
    line = _SPACE.sub(" ", message[:LONGEST]).strip()
    line = reworded(_ACCIDENTS.sub(_placeholder, line))
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
    if kind in ("n", "release"):
        return f"<{kind}>"
    special = _SPECIAL.get(kind)
    return special(text) if special else "<value>"


def _word(text: str) -> str:
    """A word whose capitals stand where chance put them is a key's or a hash's, not a name's."""
    return "<value>" if len(text) < 3 * len(_HUMP.findall(text)) else text


def _blob(text: str) -> str:
    said = said_by(text)
    return template(said) if said else "<value>"


def _call(text: str) -> str:
    return text if text[:-2] in _BUILT_IN else "<value>()"


def _made(call: str) -> str:
    """A value as it is made is one value; of a cause, its class and its number stay."""
    name, _, arguments = call.partition("(")
    if not _CAUSE.search(name) and name not in _BUILT_IN:
        return "<value>"
    number = _ERRNO.search(arguments)
    return f"{name}({number[0]} <value>)" if number else f"{name}(<value>)"


_SPECIAL: Final = {"made": _made, "word": _word, "blob": _blob, "call": _call}
