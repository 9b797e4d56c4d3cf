"""How a package's names and docstrings read: what is vague, and what stands for two things."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from benchmarks.package_source import Module

NOUN_CLAUSES = 20
"""The most docstrings that begin with a noun clause."""

VAGUE_VARIABLES = 100
"""The most uses of a variable that is called `one`."""

SHARED_FUNCTIONS = 5
"""The most names of public functions that stand in three modules or more."""

VAGUE = frozenset({"one", "told", "given", "found", "how", "known", "said", "several"})
"""Names that no parameter has, as they don't tell what it holds."""

_NOUN_CLAUSE = re.compile(r"(?:What|Whether|Of|That|Those|Who|Whose|Where|None|How)\b")
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def noun_clauses(module: Module) -> Iterator[str]:
    """Yield `name:line: sentence` for each docstring that begins with a noun clause."""
    for node in ast.walk(module.tree):
        if not isinstance(node, _Documented):
            continue
        text = ast.get_docstring(node) or ""
        if _NOUN_CLAUSE.match(text):
            line = getattr(node, "lineno", 1)
            yield f"{module.name}:{line}: {text.splitlines()[0]}"


def vague_variables(module: Module) -> int:
    """Count the uses of variables and parameters that are called `one`."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "one")
        or (isinstance(node, ast.arg) and node.arg == "one")
        for node in ast.walk(module.tree)
    )


def vague_parameters(module: Module) -> Iterator[str]:
    """Yield `name:line: parameter` for each parameter whose name doesn't tell what it holds."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.arg) and node.arg in VAGUE:
            yield f"{module.name}:{node.lineno}: {node.arg}"


def shared_classes(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Map the class names that stand twice to the modules of the classes."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    return _standing(places, 2)


def shared_functions(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Map the names of public functions that three modules or more have to these modules."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                places[node.name].append(module.name)
    return _standing({name: sorted(set(found)) for name, found in places.items()}, 3)


def _standing(places: Mapping[str, list[str]], times: int) -> dict[str, list[str]]:
    return {name: found for name, found in sorted(places.items()) if len(found) >= times}
