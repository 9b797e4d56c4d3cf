"""docs/specifications.md cannot rot: what it names exists, and what shows it is there to run."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from langmem_tiers.cli.app import app
from langmem_tiers.core.settings import MemorySettings
from tests.support.names import places

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "specifications.md"

_API = re.compile(r"\[`([^`]+)`\]\(([^)]+)\)")
_TEST = re.compile(r"\[(test_\w+)\]\[([\w-]+)\]")
_REFERENCE = re.compile(r"^\[([\w-]+)\]: \.\./(\S+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?P<name>[\w.]+)\((?P<parameter>\w+)=…\)")
_WITHOUT_A_TEST = ("Not there: ", "Replaced: ")


class Row(NamedTuple):
    """One name of a specification, where it is here, and what shows it."""

    there: str
    here: str
    shown_by: str


def rows() -> Iterator[Row]:
    """The rows of the tables that say where a name is."""
    inside = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line == "| there | here | shown by |":
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            _, there, here, shown_by, _ = re.split(r"(?<!\\)\|", line)
            yield Row(there.strip(), here.strip(), shown_by.strip())


ROWS = list(rows())
APIS = sorted({found for row in ROWS for found in _API.findall(row.here)})


@cache
def defined_in(path: str) -> frozenset[str]:
    """The functions of a file of tests."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, kinds))


@cache
def anchors(path: Path) -> frozenset[str]:
    """The headings of a page, as links name them."""
    text = re.sub(
        r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in titles)


def there_is(name: str) -> bool:
    """Whether a name on the page stands for something: public, of a module, or a setting."""
    if name.startswith("langmem-tiers "):
        return name.split()[1] in get_command(app).commands  # type: ignore[attr-defined]
    called = _PARAMETER.fullmatch(name)
    found = _named(called["name"] if called else name)
    if called is None or not found:
        return bool(found)
    return called["parameter"] in inspect.signature(found[0]).parameters


def _named(name: str) -> tuple[Any, ...]:
    """What it stands for; nothing if there is nothing."""
    first, *rest = name.split(".")
    owner: Any = getattr(import_module(places()[first]), first) if first in places() else None
    if first == "memory":
        owner = MemorySettings()
    elif first == "langmem_tiers":
        owner, rest = _of_module(name)
    if owner is None:
        return ()
    for one in rest:
        if not hasattr(owner, one):
            return (owner,) if _made_by_init(owner, one) else ()
        owner = getattr(owner, one)
        owner = owner.func if isinstance(owner, cached_property) else owner  # a namespace
    return (owner,)


def _made_by_init(owner: Any, name: str) -> bool:
    """Whether it is an attribute that each object of a class is given at its beginning."""
    plain = inspect.isclass(owner) and not is_dataclass(owner)
    return plain and f"self.{name} = " in inspect.getsource(owner.__init__)


def _of_module(name: str) -> tuple[Any, list[str]]:
    """The module of a name, and what is sought in it."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 1, -1):
        try:
            return import_module(".".join(parts[:end])), parts[end:]
        except ModuleNotFoundError:
            continue
    return None, []


def test_every_name_exists() -> None:
    assert [api for api, _ in APIS if not there_is(api)] == []
    assert len(APIS) > 200


@pytest.mark.parametrize(
    "name",
    [
        "MemoryCoordinator.dream",
        "MemoryCoordinator.store(colour=…)",
        "StoreResult.consensus_score",
        "Elephant",
        "memory.coordinator.colour",
        "langmem_tiers.elephants.Elephant",
        "langmem-tiers fly",
    ],
)
def test_a_name_that_does_not_exist_would_be_found_out(name: str) -> None:
    assert not there_is(name)


def test_every_name_links_to_a_page_and_its_heading() -> None:
    lost = []
    for _, link in APIS:
        page, _, anchor = link.partition("#")
        file = PAGE.parent / page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            lost.append(link)

    assert sorted(set(lost)) == []


def test_every_test_exists() -> None:
    files = dict(_REFERENCE.findall(PAGE.read_text(encoding="utf-8")))
    told = {(files[ref], name) for row in ROWS for name, ref in _TEST.findall(row.shown_by)}

    assert sorted((file, name) for file, name in told if name not in defined_in(file)) == []


def test_a_row_is_shown_by_a_test_or_says_that_it_is_not_there() -> None:
    bare = [row for row in ROWS if not _TEST.search(row.shown_by)]

    assert [row for row in bare if not row.here.startswith(_WITHOUT_A_TEST)] == []
    assert len(ROWS) > 200
    assert all(row.there and row.here for row in ROWS)


def test_every_test_of_the_specifications_stands_on_the_page() -> None:
    named_tests = {name for row in ROWS for name, _ in _TEST.findall(row.shown_by)}
    files = sorted((ROOT / "tests" / "acceptance").glob("test_specification_*.py"))
    ours = [
        one
        for file in files
        if file.name != Path(__file__).name
        for one in defined_in(str(file.relative_to(ROOT)))
    ]

    assert [one for one in sorted(ours) if one.startswith("test_") and one not in named_tests] == []
