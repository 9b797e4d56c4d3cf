"""One way to write a check, two ways to call the store."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

from langgraph.store.base import NOT_PROVIDED, BaseStore, Item, Op, Result, SearchItem

Mode = Literal["batch", "abatch"]
Namespace = tuple[str, ...]


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
        found = await self._call("get", namespace, key, refresh_ttl=refresh_ttl)
        return cast("Item | None", found)

    async def value(self, namespace: Namespace, key: Any) -> dict[str, Any] | None:
        """Return the value stored under the key, None if there is none."""
        item = await self.get(namespace, key)
        return None if item is None else item.value

    async def delete(self, namespace: Namespace, key: Any) -> None:
        """Call `delete` or `adelete`."""
        await self._call("delete", namespace, key)

    async def search(self, namespace_prefix: Any, /, **options: Any) -> list[SearchItem]:
        """Call `search` or `asearch`."""
        found = await self._call("search", namespace_prefix, **options)
        return cast("list[SearchItem]", found)

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
