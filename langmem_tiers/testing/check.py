"""What a check is: one rule of the contract, and the store it needs."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from langgraph.store.base import BaseStore, TTLConfig

from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.embeddings import TrigramEmbeddings

DIMS = 64

Body = Callable[[StoreDriver], Awaitable[None]]
Embed = Callable[[list[str]], list[list[float]]]
OpenedStore = AbstractContextManager[BaseStore] | AbstractAsyncContextManager[BaseStore]


class StoreFactory(Protocol):
    """Opens a fresh, empty store for one check.

    `index` (a dict) and `ttl` are as LangGraph's own stores take them, or None. The context
    manager may be sync or async; one that is both is entered async.
    """

    def __call__(self, *, index: Any, ttl: TTLConfig | None) -> OpenedStore:
        """Return a context manager whose `with` or `async with` yields the store."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNeeds:
    """The vector index a check wants: the fields to embed, the metric, the model."""

    fields: tuple[str, ...] = ("text",)
    distance_type: str = "cosine"
    embed: Embed | None = None

    def config(self) -> dict[str, Any]:
        """Return an index configuration of 64 dimensions, new each time."""
        config: dict[str, Any] = {
            "dims": DIMS,
            "embed": self.embed or TrigramEmbeddings(DIMS),
            "fields": list(self.fields),
        }
        if self.distance_type != "cosine":
            config["distance_type"] = self.distance_type
        return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule: its name and claim, the store it needs, and the body that tries it."""

    name: str
    area: str
    claim: str
    body: Body = field(repr=False)
    index: IndexNeeds | None = None
    ttl: TTLConfig | None = None


def check(
    *, index: IndexNeeds | None = None, ttl: TTLConfig | None = None
) -> Callable[[Body], Check]:
    """Make a check of an async function; its docstring's first line is the claim."""

    def made(body: Body) -> Check:
        return Check(
            name=body.__name__,
            area=body.__module__.rpartition(".")[2],
            claim=(body.__doc__ or "").partition("\n")[0].rstrip("."),
            body=body,
            index=index,
            ttl=ttl,
        )

    return made


def checks_of(modules: Iterable[object]) -> dict[str, Check]:
    """Return the checks that are defined in the modules, by name, in order of definition."""
    found = (each for module in modules for each in vars(module).values())
    return {each.name: each for each in found if isinstance(each, Check)}
