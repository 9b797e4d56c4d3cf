"""What stands around a message: a tool node's words, `repr`, JSON, places, shells, classes."""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers.learn.failures.bodies import Said, called, said_by, titled, unescaped
from langmem_tiers.learn.failures.exceptions import CAMEL, CARRIERS, is_class, message_of
from langmem_tiers.learn.failures.placeholders import MOMENT

# ---- what a text is wrapped in --------------------------------------------------------------

_TOOL_NODE: Final = re.compile(
    r"\AError (?:invoking|executing) tool '[^'\n]*' with kwargs .*? with error:\s", re.DOTALL
)
_ADVICE: Final = re.compile(
    r"(?:(?<!\s)\s++)?+Please fix (?:your mistakes|the error and try again)\.?\s*\Z"
)
_GENERIC: Final = re.compile(
    r"\A(?:(?:npm )?(?:error|fatal error|fatal|exception|toolexception|critical|errors?!):\s*)+",
    re.IGNORECASE,
)
_REPR: Final = re.compile(r"\A([A-Za-z_]\w*)\(((?:-?\d|b?['\"]|[\[{]).*)?\)\Z", re.DOTALL)
_HTTP_ERROR: Final = re.compile(r"\A<HTTPError (\d{3}): ['\"](.*)['\"]>\Z", re.DOTALL)
_TUPLE: Final = re.compile(r"\d{3,5}, b['\"]")
_ARGUMENTS: Final = re.compile(r"""(?:(-?\d{1,9}), )?(['"])((?:\\.|(?!\2)[^\\])*)\2""", re.DOTALL)
_PROCESSES: Final = {
    "CalledProcessError": "returned non-zero exit status {}",
    "TimeoutExpired": "timed out after <value>",
}


def unwrapped(text: str) -> Said | None:
    """Without what LangGraph's tool node and a printed level of severity put around it."""
    shorter = _ADVICE.sub("", text[-200:])
    text = text[:-200] + shorter
    if found := _TOOL_NODE.match(text):
        text = text[found.end() :]
    return Said(None, _GENERIC.sub("", text))


def from_repr(text: str) -> Said | None:
    """An exception as `repr` prints it."""
    if http := _HTTP_ERROR.match(text):
        return Said("HTTPError", f"HTTP Error {http[1]}: {unescaped(http[2])}")
    found = _REPR.match(text)
    known = found is not None and CAMEL.fullmatch(found[1])
    return _of_call(found[1], found[2] or "") if found and known else None


def _of_call(name: str, arguments: str) -> Said | None:
    """An exception by its name and the arguments it was made with."""
    if name in _PROCESSES:
        return Said(name, _PROCESSES[name].format(arguments.partition(",")[0]))
    if name.startswith("Unicode"):
        return Said(name, f"can't {name[7:-5].lower()}: {arguments.rpartition(', ')[2][1:-1]}")
    if name == "KeyError" or not arguments or arguments.startswith("{"):
        return Said(name, arguments)
    if _TUPLE.match(arguments):
        return Said(name, f"({arguments})")
    said = _ARGUMENTS.match(arguments)
    return _of_arguments(name, said[1], unescaped(said[3])) if said else None


def _of_arguments(name: str, number: str | None, said: str) -> Said:
    """As `str` prints the exception: an `OSError` with its number."""
    if number and not said.startswith("["):
        return Said(name, f"[Errno {number}] {said}")
    return message_of(name, said)


def from_body(text: str) -> Said | None:
    """What a body says that is all there is: JSON, a page, the text of a remote call."""
    if text[:1] in ("{", "[") and text[-1:] in ("}", "]") and "{" in text:
        said = said_by(text)
    else:
        said = titled(text)
    return Said(None, said) if said else called(text)


# ---- what stands before the message ---------------------------------------------------------

_PLACE: Final = re.compile(
    r"(?:vet: )?(?:[^\s:'\"]+:\d+(?::\d+)?(?::in [`'][^'\n]*')?:?"
    r"|\S+\(\d+,\d+\):|\S+: line \d+:|<value>:) +(?=\S)"
)
_MARK: Final = re.compile(r"[│╷╵•✖×●>*]+ +(?=\S)")
_SHELL: Final = re.compile(r"(?:/\S*/)?(?:ba|da|fi|k|z)?sh: (?:(?:line )?\d+: )?(?=\S)")
_LOG: Final = re.compile(
    rf"""
    \[ {MOMENT} [^\[\]\n]{{0,80}} \] \s+ (?=\S)
  | \[? {MOMENT} (?:[T\ ]\d\d:\d\d(?::\d\d)?)? (?:[.,]\d+)? \]? [:|,]? \s+
        (?!(?:is|was|are|not|does|did|has|in|to|and|after|before)\b)
  | (?:ts|time|timestamp|level|lvl|caller|logger|source)=[^\n]{{0,200}}?\bmsg="?
  | \[ (?!(?:Errno|WinError|SSL)\b) [\w.:@/-]{{1,60}} (?:\ [\w.:@/-]{{1,60}})? \] :? \s+ (?=[\[\w(])
  | \[?(?:ERROR|CRITICAL|FATAL|PANIC|SEVERE|WARNING)\]?[ |:]+ (?:\[[\w.:-]{{1,60}}\]\s+)?
        (?:[\w.]+:\ )?
  | (?:[\w$]+\.)+[\w$]+\ -\ (?=\S)
  | [\w.-]{{1,60}}\ [\w./-]{{1,60}}\[\d+\]:\ (?=\S)
  | (?!\w*(?:Error|Exception|Violation|Failure):)[\w-]{{1,60}}:\ (?=(?:FATAL|ERROR|CRITICAL|PANIC):)
    """,
    re.VERBOSE,
)
_CODE: Final = re.compile(
    r"(?:error ?\[?)?\b([A-Z]{1,3}\d{3,5}|E[A-Z]{4,}|ERR_[A-Z_]+)(?:\]?: | (?:\[\*\] )?(?=[A-Z`]))"
)
_CLASS: Final = re.compile(
    r"(?:Uncaught |Exception in thread \"[^\"\n]*+\" |Caused by: )*+"
    r"\(?((?:[\w$]+\.)*([A-Za-z_]\w*))(?:: ?|\) |$)"
)
_DB_API: Final = re.compile(r"""\((\d{3,5}), b?(['"])(.*)\2\)""", re.DOTALL)
_PANIC: Final = re.compile(r"panic: ")
_PROSE: Final = re.compile(
    r"(?!Command\b)[^:\n'\"( ]+ [^:\n'\"(]{0,80}: "
    r"(?=(?:[A-Za-z_]\w*\.)*[A-Z]\w*[a-z](?:Error|Exception)(?:: |\())"
)
_COMMAND: Final = re.compile(r"(?:\S+: (?:command )?not found|command not found: \S+)")
_PROCESS: Final = re.compile(
    r"Command .* (returned non-zero exit status -?\d+(?=\.?$)|died with .*|timed out after .*)\.?"
)
_CODEC: Final = re.compile(r"\S+ codec can't (encode|decode) .* in position \S+: (.*)")
_ERRNO: Final = re.compile(r"(\[(?:Errno|WinError) -?\d+\] [^:]*): ?(?:['\"<].*)")
_PROSE_KEY: Final = re.compile(r"\"(\[.*\] not (?:found )?in (?:the )?\w+)\"")
_TAIL: Final = re.compile(
    r"[.?]? ?Did you (?:mean|forget).*| \((?:[^()]*, )?line (?:\d+|<value>)\)$"
)


def unprefixed(text: str) -> Said | None:
    """Without the log's, compiler's or shell's words before it, or by the class that is named."""
    for accidental in (_MARK, _LOG, _PLACE, _SHELL, _PROSE):
        if found := accidental.match(text):
            return Said(None, text[found.end() :])
    if found := _DB_API.fullmatch(text):
        return Said(None, f"#{found[1]}: {unescaped(found[3])}")
    if found := _PANIC.match(text):
        return Said("panic", text[found.end() :])
    if (found := _CODE.match(text)) and found[1] != "ERROR":
        return Said(found[1], text[found.end() :])
    if (found := _CLASS.match(text)) and is_class(found[1], found[2]):
        name = None if found[2] in CARRIERS else found[2]
        return Said(name, text[found.end() :])
    return None


def canonical(text: str) -> Said | None:
    """What only one of the forms of the same failure says is left out."""
    if _COMMAND.fullmatch(text):
        return Said(None, "command not found")
    if found := _PROCESS.fullmatch(text):
        return Said(None, found[1])
    if found := _CODEC.fullmatch(text):
        return Said(None, f"can't {found[1]}: {found[2]}")
    if found := _ERRNO.fullmatch(text) or _PROSE_KEY.fullmatch(text):
        return Said(None, found[1])
    return Said(None, _TAIL.sub("", text))
