"""What a failed test asserted: its signature where the message tells nothing but two values.

A runner names the test that failed, and that is what was asserted, whatever came out of it. Where
no runner did, it is what Python shows of the assertion: with each literal by its type alone.
"""

from __future__ import annotations

import ast
import re
from typing import Final

ASSERTION: Final = "AssertionError"
_ASSERTIONS: Final = frozenset({ASSERTION, "ERR_ASSERTION", "JestAssertionError", "Failed"})
"""The classes by which Python, Node, Jest and pytest say that a test's claim does not hold."""
_NAMED: Final = tuple(
    re.compile(one, re.MULTILINE)
    for one in (
        r"^_{3,80} (?!ERROR )(?P<name>\S.{0,200}?) _{3,80}$",  # pytest
        r"^FAIL: (?P<name>\w{1,200}) \(",  # unittest
        r"^---- (?P<name>\S.{0,200}) stdout ----$",  # Rust
        r"^ {0,40}--- FAIL: (?P<name>\S{1,200}) \(",  # Go
        r"^ {0,40}not ok \d{1,9} - (?P<name>.{1,200})$",  # TAP
        r"^ FAIL  \S{1,200} > (?P<name>.{1,200})$",  # Vitest
    )
)
"""How runners name a test that failed."""
_MARKED: Final = re.compile(
    r"^ {0,40}[✖●] (?!Test suite)(?P<name>\S.{0,200}?)(?: \(\d[\d.]*ms\))?$", re.MULTILINE
)
"""How Node and Jest do; the same marks stand before much else."""
_EXPECTS: Final = re.compile(r"^ {1,40}expect\(", re.MULTILINE)
"""What Jest shows of a claim."""
_OWN: Final = re.compile(r" [\u203a>] |::|\.(?=\w+$)")
"""What stands between the names of a suite, or a class, and the test's own."""
_FRAME: Final = re.compile(
    r'^  File "[^"\n]*", line \d+, in (?P<name>\S+)(?:\n    (?P<line>\S.{0,999}))?$', re.MULTILINE
)
_BOTH: Final = re.compile(
    r"^ {0,9}left: (?P<left>.{0,300})\n {0,9}right: (?P<right>.{0,300})$", re.MULTILINE
)
"""What Rust shows of two values."""
_LONGEST: Final = 300
"""Characters of what was asserted that count."""


def asserted(text: str, error: str, said: str) -> str | None:
    """What a failed test asserted, if `error` or what it `said` shows that it is one; else None."""
    holds_not = error in _ASSERTIONS or said.startswith("assertion ")
    marks = (*_NAMED, _MARKED) if holds_not or _EXPECTS.search(text) else _NAMED
    name = next((found["name"] for one in marks if (found := one.search(text))), None)
    if name is not None and (holds_not or error == "error"):
        plain = name.partition("[")[0] if name.endswith("]") else name  # without its parameters
        return f"test {_OWN.split(plain)[-1]}"[:_LONGEST]
    if not holds_not:
        return None
    frames = [*_FRAME.finditer(text)]
    if frames and (line := frames[-1]["line"] or "").startswith("assert "):
        return f"{frames[-1]['name']}: {_shape(line) or '<value>'}"[:_LONGEST]
    if both := _BOTH.search(text):
        return " == ".join(_shape(one) or "<value>" for one in both.groups())
    return None


def _shape(line: str) -> str | None:
    """A line of Python with its literals by their types; None if it is cut off, or no Python."""
    try:
        (one,) = ast.parse(line).body
        told = one.test if isinstance(one, ast.Assert) else one
        return " ".join(ast.unparse(_Shapes().visit(told)).split())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


class _Shapes(ast.NodeTransformer):
    """Puts the type of a literal in its place."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return node if node.value is None else _named(type(node.value).__name__)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        inner = self.visit(node.operand)
        return inner if isinstance(node.operand, ast.Constant) else node

    def visit_JoinedStr(self, _: ast.JoinedStr) -> ast.AST:
        return _named("str")

    def visit_List(self, _: ast.List) -> ast.AST:
        return _named("list")

    def visit_Tuple(self, _: ast.Tuple) -> ast.AST:
        return _named("tuple")

    def visit_Set(self, _: ast.Set) -> ast.AST:
        return _named("set")

    def visit_Dict(self, _: ast.Dict) -> ast.AST:
        return _named("dict")


def _named(kind: str) -> ast.Name:
    return ast.Name(f"<{kind}>", ast.Load())
