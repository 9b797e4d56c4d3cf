"""One run of a scenario: a store on a database of its own, and every call that is made, told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

from benchmarks.recorded.adapter import PACKAGE
from benchmarks.recorded.plain import Plain
from benchmarks.recorded.stable import Clock
from langmem_tiers import CoordinatorSettings, MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.testing import TrigramEmbeddings

T = TypeVar("T")
Mode = Literal["sync", "async"]
MODES: tuple[Mode, Mode] = ("sync", "async")
Called = tuple[str, str, Mode]
"""A class, "" for none, its verb or a function, and how it was called."""

PATIENT = CoordinatorSettings(query_timeout_ms=60_000)
_DIMS = 64
_ARGUMENTS = 200
"""Characters of a call's arguments that are shown."""


class World:
    """A store, its clock, and the calls that are made in it."""

    def __init__(
        self, mode: Mode, url: str, folder: Path, loop: asyncio.AbstractEventLoop, sent: list[str]
    ) -> None:
        self.mode: Mode = mode
        self.url = url
        self.folder = folder
        self.server = folder.parent / "server"
        self.clock = Clock()
        self.called: set[Called] = set()
        self.blocks: list[str] = []
        self.calls = 0
        self.plain = Plain({url: "<url>", str(self.server): "<server>", str(folder): "<folder>"})
        self.store = self.new_store()
        self._loop = loop
        self._sent = sent

    @staticmethod
    def index() -> dict[str, Any]:
        """Vectors that are made of a text's letters."""
        return {"dims": _DIMS, "embed": TrigramEmbeddings(_DIMS), "fields": ["text"]}

    def new_store(self, **options: Any) -> TieredStore:
        """A store on the world's database, not opened."""
        given = {"index": self.index(), "clock": self.clock, **options}
        return TieredStore.from_conn_string(self.url, **given)

    def memory(self, tenant: str = "acme", **options: Any) -> MemoryCoordinator:
        """A coordinator on the store; labels of a context are taken out of its options."""
        named = ("agent_id", "project_id", "session_id")
        labels = {name: options.pop(name) for name in named if name in options}
        context = MemoryContext(tenant=tenant, **labels)
        return MemoryCoordinator(self.store, context=context, **{"settings": PATIENT, **options})

    def open(self) -> None:
        """Open the store, blocking or on the loop."""
        if self.mode == "sync":
            self.store.__enter__()
        else:
            self._awaited(self.store.__aenter__())

    def close(self) -> None:
        self.call(self.store, "close")

    def call(self, thing: Any, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb, or its async twin if there is one, and record what comes of it."""
        for owner in type(thing).__mro__ if not isinstance(thing, type) else thing.__mro__:
            self.called.add((owner.__name__, verb, self.mode))
        name = thing.__name__ if isinstance(thing, type) else _name(thing)
        twin = getattr(thing, f"a{verb}", None) if self.mode == "async" else None
        return self._recorded(f"{name}.{verb}", getattr(thing, verb), twin, args, options)

    def quietly(self, thing: Any, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb whose answer is too volatile to be recorded as it is."""
        kept, sent = list(self.blocks), list(self._sent)
        found = self.call(thing, verb, *args, **options)
        self.blocks, self._sent[:] = kept, sent
        return found

    def made(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a function that has no twin, and record what comes of it."""
        name = function.__name__
        self.called.add(("", name, self.mode))
        return self._recorded(name, function, None, args, options)  # type: ignore[no-any-return]

    def twins(self, function: Any, twin: Any, *args: Any, **options: Any) -> Any:
        """Call one of two functions that are twins."""
        self.called.add(("", function.__name__, self.mode))
        chosen = twin if self.mode == "async" else None
        return self._recorded(function.__name__, function, chosen, args, options)

    def watched(self, kind: type[T], *args: Any, **options: Any) -> T:
        """An object whose public methods are noted when somebody else calls them."""
        watching = {
            name: self._watching(kind, name, does)
            for name, does in _methods(kind)
            if not isinstance(does, classmethod | staticmethod)
        }
        made: T = type(kind.__name__, (kind,), watching)(*args, **options)
        return made

    def told(self, title: str, value: Any) -> None:
        """Record a value that no call returned."""
        self._tell(title, {"is": self.plain(value)})

    def _watching(self, kind: type[Any], name: str, does: Any) -> Any:
        @wraps(does)
        def watching(*args: Any, **options: Any) -> Any:
            verb = name[1:] if name[:1] == "a" and hasattr(kind, name[1:]) else name
            mode: Mode = "sync" if verb == name else "async"
            self.called.add((kind.__name__, verb, mode))
            return does(*args, **options)

        return watching

    def _recorded(
        self, name: str, does: Any, twin: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        shown = self._shown(args, options)
        del self._sent[:]
        self.calls += 1
        result = None
        try:
            result = self._done(does, twin, args, options)
        except Exception as error:  # noqa: BLE001 - it is what is recorded
            came: Any = self.plain.error(error)
        else:
            came = {"result": self.plain(result)}
        self._tell(f"{name}({shown})", {"sent": list(self._sent), **came})
        return result

    def _done(self, does: Any, twin: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if twin is None:
            return does(*args, **options)

        async def awaited() -> Any:
            return await twin(*args, **options)

        return self._awaited(awaited())

    def _awaited(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _shown(self, args: tuple[Any, ...], options: dict[str, Any]) -> str:
        given = [json.dumps(self.plain(one), ensure_ascii=False, sort_keys=True) for one in args]
        given += [
            f"{name}={json.dumps(self.plain(one), ensure_ascii=False, sort_keys=True)}"
            for name, one in options.items()
        ]
        text = ", ".join(given)
        return text if len(text) <= _ARGUMENTS else f"{text[: _ARGUMENTS - 1]}…"

    def _tell(self, title: str, what: dict[str, Any]) -> None:
        body = json.dumps(what, indent=1, sort_keys=True, ensure_ascii=False)
        self.blocks.append(f"# {title}\n{body}")


def _name(thing: object) -> str:
    """The name of a thing's type, and its own if it is one of LangChain's or LangGraph's."""
    kind, own = type(thing), getattr(thing, "name", None)
    ours = kind.__module__.startswith(PACKAGE)
    return kind.__name__ if ours or not isinstance(own, str) else f"{kind.__name__} {own}"


def _methods(kind: type[Any]) -> list[tuple[str, Any]]:
    found = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith(PACKAGE):
            found.update({name: one for name, one in vars(owner).items() if callable(one)})
    return [(name, one) for name, one in found.items() if not name.startswith("_")]
