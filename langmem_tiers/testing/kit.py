"""The parts of rules: checks, the stores that they need, the driver of a store, and assertions."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_128
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Literal, Protocol, cast

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    Item,
    Op,
    PutOp,
    Result,
    SearchItem,
    TTLConfig,
)

from langmem_tiers.core.checks import checked_instance, checked_list, checked_whole
from langmem_tiers.core.errors import ConfigurationError

Mode = Literal["batch", "abatch"]
Namespace = tuple[str, ...]
DIMS = 64
EXACT = 0.99
"""Scores above it are those of the same text."""
NS = ("users", "ada")

Embed = Callable[[list[str]], list[list[float]]]
OpenedStore = AbstractContextManager[BaseStore] | AbstractAsyncContextManager[BaseStore]


_CENTRE = 127.5
_START, _END = "\x02", "\x03"


class TrigramEmbeddings(Embeddings):
    """Sum one fixed pseudo-random vector for each character trigram of a text.

    Texts that share trigrams are near each other, unrelated texts are near orthogonal (cosine
    about 0, of either sign), distinct texts have distinct vectors. Vectors are `dims` floats
    long and not of unit length. A blank text is the zero vector, as some models return it:
    a store must cope with its missing direction.

    >>> TrigramEmbeddings(dims=3).embed_query(" ")
    [0.0, 0.0, 0.0]
    """

    def __init__(self, dims: int = 64) -> None:
        self.dims = checked_whole(dims, "dims", 1, 16_000, ConfigurationError)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order."""
        return [self.embed_query(text) for text in checked_list(texts, "texts")]

    def embed_query(self, text: str) -> list[float]:
        """Return the text's vector; a query is embedded as a document is."""
        checked_instance(text, str, "text")
        features = Counter(_trigrams(text))
        vectors = (
            [count * byte for byte in _feature_vector(feature, self.dims)]
            for feature, count in features.items()
        )
        centre = _CENTRE * features.total()
        columns = zip(bytes(self.dims), *vectors, strict=True)
        return [(sum(column) - centre) / _CENTRE for column in columns]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return what `embed_documents` does."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return what `embed_query` does."""
        return self.embed_query(text)


def _trigrams(text: str) -> Iterable[str]:
    if not text.strip():
        return
    framed = f"{_START}{text}{_END}"
    yield framed
    yield from (framed[at : at + 3] for at in range(len(framed) - 2))


@lru_cache(maxsize=2**13)
def _feature_vector(feature: str, dims: int) -> bytes:
    """Return bytes, as the sum of whole numbers does not depend on their order."""
    return shake_128(feature.encode("utf-8", "surrogatepass")).digest(dims)


class StoreDriver:
    """A store seen through its sync methods (`"batch"`) or its async ones (`"abatch"`).

    Sync calls run in a worker thread, so that a store bound to the running event loop can be
    called both ways, and calls gathered with `asyncio.gather` really overlap.
    Arguments are passed on as they are, wrong ones too.
    """

    def __init__(self, store: BaseStore, mode: Mode) -> None:
        self.store = store
        self.mode = mode

    async def put(
        self,
        namespace: Namespace,
        key: Any,
        value: Any,
        index: Any = None,
        *,
        ttl: Any = NOT_PROVIDED,
    ) -> None:
        """Call `put` or `aput`; `ttl` is in minutes."""
        await self._call("put", namespace, key, value, index, ttl=ttl)

    async def get(
        self, namespace: Namespace, key: Any, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Call `get` or `aget`."""
        item = await self._call("get", namespace, key, refresh_ttl=refresh_ttl)
        return cast("Item | None", item)

    async def value(self, namespace: Namespace, key: Any) -> dict[str, Any] | None:
        """Return the value stored under the key, None if there is none."""
        item = await self.get(namespace, key)
        return None if item is None else item.value

    async def delete(self, namespace: Namespace, key: Any) -> None:
        """Call `delete` or `adelete`."""
        await self._call("delete", namespace, key)

    async def search(self, namespace_prefix: Any, /, **options: Any) -> list[SearchItem]:
        """Call `search` or `asearch`."""
        items = await self._call("search", namespace_prefix, **options)
        return cast("list[SearchItem]", items)

    async def keys(self, namespace_prefix: Any, /, **options: Any) -> list[str]:
        """Return the keys that a search finds, in its order."""
        return [item.key for item in await self.search(namespace_prefix, **options)]

    async def list_namespaces(self, **options: Any) -> list[Namespace]:
        """Call `list_namespaces` or `alist_namespaces`."""
        return cast("list[Namespace]", await self._call("list_namespaces", **options))

    async def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Call `batch` or `abatch`."""
        return cast("list[Result]", await self._call("batch", ops))

    async def _call(self, name: str, /, *args: Any, **options: Any) -> object:
        if self.mode == "batch":
            return await asyncio.to_thread(self._method(name), *args, **options)
        return await self._method(f"a{name}")(*args, **options)

    def _method(self, name: str) -> Callable[..., Any]:
        return cast("Callable[..., Any]", getattr(self.store, name))


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


Rule = Callable[[Any], Awaitable[None]]
_needs: dict[object, dict[str, Any]] = {}
"""The needs of rules that differ from those of their area."""


def requires(**needs: Any) -> Callable[[Rule], Rule]:
    """Say that a rule needs another `index`, or another `ttl`, than its area."""

    def register(rule: Rule) -> Rule:
        _needs[rule] = needs
        return rule

    return register


class Rules(StoreDriver):
    """An area of the contract: each public method is a rule for the store that it drives.

    The docstring of a rule is its claim. Arguments of the class name its needs: `index`, `ttl`.
    """

    needs: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **needs: Any) -> None:
        super().__init_subclass__()
        cls.needs = needs

    @classmethod
    def checks(cls) -> Iterator["StoreCheck"]:
        """Yield the checks of the rules, in the order in which they are written."""
        for name, rule in vars(cls).items():
            if iscoroutinefunction(rule) and not name.startswith("_"):
                claim = " ".join((rule.__doc__ or "").split()).rstrip(".")
                needs = _needs.get(rule, cls.needs)
                yield StoreCheck(
                    name=name, area=cls.__name__.lower(), claim=claim, rules=cls, **needs
                )

    async def _pages(self, size: int, count: int, **options: Any) -> list[list[str]]:
        """Return the keys on pages of `size` items, for `count` items and one page more."""
        starts = range(0, count + size, size)
        return [await self.keys(NS, limit=size, offset=start, **options) for start in starts]

    async def _have_one_order(self, what: str, **options: Any) -> None:
        """Fail unless items of one time are found in one order, whatever they were put in."""
        keys, orders = [f"k{n:02}" for n in range(12)], []
        for batch in (keys, keys[::-1], keys[6:] + keys[:6]):
            await self.batch([PutOp(NS, key, None) for key in keys])
            await self.batch([PutOp(NS, key, {"text": f"tea {key}"}) for key in batch])
            items = await self.search(NS, limit=20, **options)
            if len({item.updated_at for item in items}) == 1:
                orders.append([item.key for item in items])
        equal(orders, orders[:1] * len(orders), f"orders of items equal in {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """One rule: its name and claim, and the store it needs."""

    name: str
    area: str
    claim: str
    rules: type[Rules]
    index: IndexNeeds | None = None
    ttl: TTLConfig | None = None

    async def run(self, store: BaseStore, mode: Mode) -> None:
        """Run the check on a store."""
        await getattr(self.rules(store, mode), self.name)()


def equal(actual: object, wanted: object, what: str) -> None:
    """Fail unless the two are equal."""
    __tracebackhide__ = True
    if actual != wanted:
        message = f"{what}: found {_short(actual)}, wanted {_short(wanted)}"
        raise AssertionError(message)


def true(condition: object, what: str) -> None:
    """Fail unless the condition holds."""
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(what)


async def refused(call: Awaitable[object], *kinds: type[Exception], what: str) -> None:
    """Fail unless the call raises an error of one of these kinds."""
    __tracebackhide__ = True
    outcome = (await asyncio.gather(call, return_exceptions=True))[0]
    names = " or ".join(kind.__name__ for kind in kinds)
    true(isinstance(outcome, kinds), f"{what}: wanted {names}, got {_short(outcome)}")


def _short(thing: object, longest: int = 300) -> str:
    text = repr(thing)
    return text if len(text) <= longest else f"{text[:longest]}…"
