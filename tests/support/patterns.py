"""Every pattern of the package, how each is used, and the texts on which it would be slow.

A pattern is slow where a run of its characters is looked at anew from each of them. So the texts
are made of the pattern itself: whatever it may repeat, repeated, after what leads there; beside
them stand runs of letters, digits, blanks, signs and mixtures.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

import langmem_tiers

_OPTIONAL = ("langmem_tiers.cli.__main__", "langmem_tiers.interop.vector_store")
"""What is a program, or needs a package that holds others back."""
_AT_THE_START = frozenset(("match", "fullmatch"))
_METHODS = frozenset(("search", "sub", "subn", "split", "findall", "finditer")) | _AT_THE_START
_EACH = "a1_ .,:;-/\\'\"([{<`#@=%A\n\t中é*+|$&!?~^>)]}b0Z\u0416\u2019\ufe64"
_FLAGS = re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE | re.ASCII
_ODDLY = 3
"""Walks through a pattern: its alternatives are taken by chance."""

PIECES = (
    *("a", "a_", "a.", "a-", "a/", "a'", "a@", "a=", "a\n", "A", "AB", "ABa", "é", "ab ", "Ab "),
    *("ab, ", "a b.", "1", "1,", "1-", "1.", "1:", "1\n", "0x", " ", "\n", "\t", "\r\n", " \n"),
    *(".", ". ", ",", ":", '"', "'", "`", "“", "_", "-", "- ", "* ", ">", "<", "|", "=", "$", "€"),
    *("(", "[", "[(", "()", "[a](", "{", '{"a":', "\\", "%", "#", "^", "~", "&", "!", "?", "\x00"),
    *("中", "中。", "QUJD", "http://", "```", "Error: ", 'File "', "/home/a", "<a", "a b ", "é "),
)
"""What the texts are runs of, whatever the pattern."""


class Used(NamedTuple):
    """A pattern, where it stands, and how it is used."""

    name: str
    pattern: re.Pattern[str]
    methods: AbstractSet[str]

    def calls(self) -> Iterator[Callable[[str], object]]:
        """What to do with a text: to find all costs as much as any search, split or replacement."""
        for method in sorted(self.methods & _AT_THE_START):
            yield getattr(self.pattern, method)
        if self.methods - _AT_THE_START:
            yield lambda text: sum(1 for _ in self.pattern.finditer(text))


class Family(NamedTuple):
    """Texts that differ in their length."""

    before: str
    piece: str
    after: str

    def text(self, length: int) -> str:
        """The text of at least this length."""
        times = max(1, (length - len(self.before)) // len(self.piece))
        return self.before + self.piece * times + self.after


@cache
def modules() -> tuple[ModuleType, ...]:
    """All modules of the package."""
    found = pkgutil.walk_packages(langmem_tiers.__path__, "langmem_tiers.")
    return tuple(importlib.import_module(one.name) for one in found if one.name not in _OPTIONAL)


@cache
def every_pattern() -> tuple[Used, ...]:
    """Each pattern once: those in the modules' names, and those that functions spell out."""
    found: dict[tuple[str, int], tuple[str, re.Pattern[str]]] = {}
    seen: set[int] = set()
    for module in modules():
        for name, value in vars(module).items():
            if not name.startswith("__"):
                _collect(value, f"{_short(module)}.{name}", found, seen)
    methods = _methods()
    in_turn = {_short(module): _of_those_in_turn(module) for module in modules()}
    looped = {place: some for module in modules() for place, some in _of_loops(module).items()}
    used = [
        Used(
            name,
            pattern,
            methods.get(id(pattern))
            or looped.get(name.partition("[")[0])
            or in_turn[_home(name)]
            or {"search"},
        )
        for name, pattern in found.values()
    ]
    spelt_out = [one for module in modules() for one in _spelt_out(module)]
    _nodes.cache_clear()  # there are many of them
    return (*used, *spelt_out)


def families(pattern: re.Pattern[str], seed: int = 0) -> list[Family]:
    """The texts that a pattern is tried on."""
    tree = parser.parse(pattern.pattern, pattern.flags & _FLAGS)
    pumps: dict[tuple[str, str], None] = {}
    for turn in range(_ODDLY):
        chance = random.Random(1_000 * seed + turn)  # noqa: S311 - the same in each run
        walk = _Walk(chance, pattern.flags)
        whole = walk.sequence(tree, "")
        pumps.update(dict.fromkeys(walk.pumps))
        pumps.update(dict.fromkeys(("", one) for one in (whole, whole[: len(whole) // 2]) if one))
    found = [Family("", piece, after) for piece in PIECES for after in ("", "\x01")]
    for before, piece in pumps:
        found.extend(Family(before, piece, after) for after in ("", "\x01"))
        found.extend(
            Family("", again, "\x01")
            for again in (before, before + piece, before + piece * 8)
            if before
        )
    return list(dict.fromkeys(found))


def _home(name: str) -> str:
    """The module in whose names a pattern stands."""
    return max((_short(one) for one in modules() if name.startswith(f"{_short(one)}.")), key=len)


def _short(module: ModuleType) -> str:
    return module.__name__.removeprefix("langmem_tiers.")


def _collect(
    value: object,
    path: str,
    found: dict[tuple[str, int], tuple[str, re.Pattern[str]]],
    seen: set[int],
) -> None:
    """The patterns in a value, however deep."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            found.setdefault((value.pattern, value.flags), (path, value))
        return
    if id(value) in seen or isinstance(value, str | bytes | int | float | type | ModuleType):
        return
    seen.add(id(value))
    for name, each in _parts(value):
        _collect(each, f"{path}{name}", found, seen)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        return ((f"[{key!r:.30}]", each) for key, each in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ((f"[{at}]", each) for at, each in enumerate(value))
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return ((f".{name}", getattr(value, name, None)) for name in names)
    if type(value).__module__.startswith("langmem_tiers") and hasattr(value, "__dict__"):
        return ((f".{name}", each) for name, each in vars(value).items())
    return iter(())


def _methods() -> dict[int, frozenset[str]]:
    """By the identity of a pattern: what is called on it by its name."""
    found: dict[int, frozenset[str]] = {}
    for module in modules():
        for node in _nodes(module):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                value = getattr(module, node.value.id, None)
                if isinstance(value, re.Pattern) and node.attr in _METHODS:
                    found[id(value)] = found.get(id(value), frozenset()) | {node.attr}
    return found


def _of_loops(module: ModuleType) -> dict[str, frozenset[str]]:
    """By the name of several patterns: what is called on each in comprehensions over them."""
    found: dict[str, frozenset[str]] = {}
    for node in _nodes(module):
        for loop in getattr(node, "generators", ()):
            if isinstance(loop.iter, ast.Name) and isinstance(loop.target, ast.Name):
                called = {
                    one.attr
                    for one in ast.walk(node)
                    if isinstance(one, ast.Attribute)
                    and one.attr in _METHODS
                    and isinstance(one.value, ast.Name)
                    and one.value.id == loop.target.id
                }
                place = f"{_short(module)}.{loop.iter.id}"
                found[place] = found.get(place, frozenset()) | called
    return found


def _of_those_in_turn(module: ModuleType) -> frozenset[str]:
    """What is called on patterns that have a name for a moment, as in a loop."""
    return frozenset(
        node.attr
        for node in _nodes(module)
        if isinstance(node, ast.Attribute)
        and node.attr in _METHODS
        and isinstance(node.value, ast.Name)
        and node.value.id != "re"
        and not isinstance(getattr(module, node.value.id, None), re.Pattern)
    )


@cache
def _nodes(module: ModuleType) -> tuple[ast.AST, ...]:
    try:
        source = inspect.getsource(module)
    except OSError:  # an empty file
        return ()
    return tuple(ast.walk(ast.parse(source)))


def _spelt_out(module: ModuleType) -> Iterator[Used]:
    """What is handed to `re` where it is used."""
    for call in _nodes(module):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        function = call.func
        if function.attr not in _METHODS:
            continue
        if not isinstance(function.value, ast.Name) or function.value.id != "re":
            continue
        if isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
            pattern = re.compile(call.args[0].value)
            yield Used(f"{_short(module)}:{call.lineno}", pattern, frozenset((function.attr,)))


class _Walk:
    """One way through a pattern: a text that it may match, and what it may repeat on the way."""

    def __init__(self, chance: random.Random, flags: int) -> None:
        self._chance = chance
        self._flags = flags
        self._groups: dict[int | None, str] = {}
        self.pumps: list[tuple[str, str]] = []
        """What leads to a repetition, and what is repeated."""

    def sequence(self, tree: Sequence[tuple[Any, Any]], before: str) -> str:
        """A text for these, one after another."""
        said = ""
        for code, argument in tree:
            said += self._one(code, argument, before + said)
        return said

    def _one(self, code: object, argument: Any, before: str) -> str:  # noqa: PLR0911 - a case each
        if code is codes.LITERAL:
            return chr(argument)
        if code in (codes.IN, codes.ANY, codes.NOT_LITERAL):
            several = self._characters(code, argument)
            return self._chance.choice(several) if several else "a"
        if code in (codes.BRANCH, codes.ATOMIC_GROUP):
            chosen = self._chance.choice(argument[1]) if code is codes.BRANCH else argument
            return self.sequence(chosen, before)
        if code is codes.SUBPATTERN:
            self._groups[argument[0]] = self.sequence(argument[3], before)
            return self._groups[argument[0]]
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, item = argument
            return self._repeated(least, most, item, before)
        if code is codes.GROUPREF:
            return self._groups.get(argument, "")
        return self._looked_ahead(code, argument, before)

    def _looked_ahead(self, code: object, argument: Any, before: str) -> str:
        if code is not codes.ASSERT or argument[0] < 0 or self._chance.random() < 0.5:
            return ""
        return self.sequence(argument[1], before)

    def _repeated(self, least: int, most: Any, item: Any, before: str) -> str:
        if most is codes.MAXREPEAT or most >= 20:
            body = self.sequence(item, before)
            if body:
                self.pumps.append((before, body))
            code, argument = item[0]
            if len(item) == 1 and code in (codes.IN, codes.ANY, codes.NOT_LITERAL):
                several = self._characters(code, argument)
                self.pumps.extend((before, one) for one in 'a 1."\nA_' if one in several)
        times = max(least, self._chance.randint(0, 2) if most > least else least)
        return "".join(self.sequence(item, before) for _ in range(min(times, 40)))

    def _characters(self, code: object, argument: Any) -> list[str]:
        """Some that a class has."""
        if code is codes.ANY:
            return [one for one in _EACH if one != "\n" or self._flags & re.DOTALL]
        if code is codes.NOT_LITERAL:
            return [one for one in _EACH if one != chr(argument)]
        return _within(argument)


def _within(items: Sequence[tuple[Any, Any]]) -> list[str]:
    """Some characters of a class in brackets."""
    negated = items[0][0] is codes.NEGATE
    found = [one for one in _EACH if any(_has(item, one) for item in items) is not negated]
    if found or negated:
        return found
    literal = [chr(argument) for code, argument in items if code is codes.LITERAL]
    return literal + [chr(argument[0]) for code, argument in items if code is codes.RANGE]


def _has(item: tuple[Any, Any], one: str) -> bool:
    code, argument = item
    if code is codes.LITERAL:
        return one == chr(argument)
    if code is codes.RANGE:
        return bool(argument[0] <= ord(one) <= argument[1])
    kind = str(argument)
    if code is not codes.CATEGORY:
        return False
    there = (
        one.isdecimal()
        if kind.endswith("DIGIT")
        else one.isspace()
        if kind.endswith("SPACE")
        else one.isalnum() or one == "_"
    )
    return there is not ("_NOT_" in kind)
