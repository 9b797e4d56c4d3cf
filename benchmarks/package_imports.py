"""Who imports whom in a package: how deep that goes, and where it goes in circles."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter

from benchmarks.package_source import Module

Graph = Mapping[str, set[str]]
"""The modules that each module imports."""

Circle = tuple[str, ...]
_FOR_TYPES = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def graph(modules: Sequence[Module], *, everywhere: bool = False) -> Graph:
    """What is imported where a module runs; `everywhere` for types and in functions as well.

    `from a import b` imports the module a.b if there is one, else a. That a.b runs a package's
    own a/__init__.py first is no import of its.
    """
    names = {one.name for one in modules}
    return {
        one.name: set(_imported(one, names, everywhere=everywhere)) - {one.name} for one in modules
    }


def _imported(module: Module, names: set[str], *, everywhere: bool) -> Iterator[str]:
    for node in _statements(module.tree, everywhere=everywhere):
        if isinstance(node, ast.Import):
            yield from names.intersection(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            origin = _origin(module, node)
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield from names.intersection({inner if inner in names else origin})


def _origin(module: Module, node: ast.ImportFrom) -> str:
    """The module that `from` names, dots resolved."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".")
    up = node.level - module.is_package
    return ".".join([*package[: len(package) - up], *filter(None, [node.module])])


def _statements(tree: ast.AST, *, everywhere: bool) -> Iterator[ast.AST]:
    for node in _children(tree, everywhere=everywhere):
        yield node
        yield from _statements(node, everywhere=everywhere)


def _children(node: ast.AST, *, everywhere: bool) -> Iterable[ast.AST]:
    if everywhere:
        return ast.iter_child_nodes(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ()
    if isinstance(node, ast.If) and ast.unparse(node.test) in _FOR_TYPES:
        return node.orelse
    return ast.iter_child_nodes(node)


def circles(imports: Graph) -> list[Circle]:
    """Groups of modules that import each other, directly or not, in order."""
    return sorted(one for one in set(_groups(imports).values()) if len(one) > 1)


def longest_path(imports: Graph) -> int:
    """How many modules stand on each other at most; a circle counts as one."""
    groups = _groups(imports)
    below = {
        group: {groups[other] for module in group for other in imports[module]} - {group}
        for group in groups.values()
    }
    depth: dict[Circle, int] = {}
    for group in TopologicalSorter(below).static_order():
        depth[group] = 1 + max((depth[one] for one in below[group]), default=0)
    return max(depth.values(), default=0)


def _groups(imports: Graph) -> dict[str, Circle]:
    """Of each module those that it reaches and that reach it, itself among them."""
    reached = {module: _reached(imports, module) for module in imports}
    return {
        module: tuple(sorted({module, *(one for one in found if module in reached[one])}))
        for module, found in reached.items()
    }


def _reached(imports: Graph, start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        fresh = imports[todo.pop()] - found
        found |= fresh
        todo.extend(fresh)
    return found
