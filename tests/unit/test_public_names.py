"""What `langmem_tiers` offers by name, and what it loads for it."""

from __future__ import annotations

import ast
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import langmem_tiers


def in_a_new_process(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def for_type_checkers() -> dict[str, str]:
    """The module of each name that a type checker sees."""
    tree = ast.parse(Path(langmem_tiers.__file__).read_text(encoding="utf-8"))
    return {
        name.name: (one.module or "").removeprefix("langmem_tiers.")
        for one in ast.walk(tree)
        if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("langmem_tiers.")
        for name in one.names
    }


@pytest.mark.parametrize("name", langmem_tiers.__all__)
def test_every_name_is_there_and_is_completed(name: str) -> None:
    assert getattr(langmem_tiers, name) is not None
    assert name in dir(langmem_tiers)


def test_type_checkers_see_the_names_where_they_are_loaded_from() -> None:
    assert for_type_checkers() == langmem_tiers._MODULES
    assert sorted(langmem_tiers._MODULES) == sorted(langmem_tiers.__all__)


def test_a_name_that_is_not_there_is_told_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'langmem_tiers' has no attribute 'Nothing'"):
        langmem_tiers.Nothing  # type: ignore[attr-defined]  # noqa: B018 - asked for


def test_the_package_loads_a_module_when_a_name_of_it_is_asked_for() -> None:
    program = (
        "import sys, langmem_tiers\n"
        "def loaded(): return sorted(one for one in sys.modules if 'langmem_tiers.' in one)\n"
        "print(loaded(), end=' ')\n"
        "langmem_tiers.TieredMemoryError\n"
        "print(loaded())"
    )
    assert in_a_new_process(program) == "[] ['langmem_tiers.errors']"


def test_the_store_alone_needs_neither_chat_models_nor_settings() -> None:
    program = (
        "import sys\n"
        "from langmem_tiers import TieredStore\n"
        "models = 'langchain_core.language_models.chat_models'\n"
        "heavy = models, 'langgraph.graph', 'pydantic_settings', 'yaml'\n"
        "print([one for one in heavy if one in sys.modules])"
    )
    assert in_a_new_process(program) == "[]"


def test_the_package_documents_itself() -> None:
    assert "TieredStore" in pydoc.HTMLDoc().document(langmem_tiers)
