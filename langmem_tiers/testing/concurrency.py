"""Many callers at once: threads through batch, tasks through abatch."""

import asyncio

from langgraph.store.base import PutOp

from langmem_tiers.testing.check import IndexNeeds, check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, true

NS = ("crowd",)
WRITERS = 8
EXACT = 0.99


def _whole(n: int) -> dict[str, object]:
    return {"writer": n, "echo": [n] * 50}


@check()
async def writers_of_one_key_leave_one_item(store: StoreDriver) -> None:
    """Concurrent puts of one new key leave one item, whole, from one of them."""
    for key in ("a", "b", "c"):
        await asyncio.gather(*(store.put(NS, key, _whole(n)) for n in range(WRITERS)))
    found = await store.search(NS)
    equal(sorted(item.key for item in found), ["a", "b", "c"], "keys")
    true(all(item.value in map(_whole, range(WRITERS)) for item in found), "a value is torn")


@check()
async def writers_of_many_keys_lose_nothing(store: StoreDriver) -> None:
    """Concurrent puts of different keys are all kept."""
    await asyncio.gather(*(store.put(NS, f"k{n:02}", _whole(n)) for n in range(3 * WRITERS)))
    found = sorted(await store.keys(NS, limit=100))
    equal(found, [f"k{n:02}" for n in range(3 * WRITERS)], "keys")


@check()
async def readers_beside_writers_see_whole_values(store: StoreDriver) -> None:
    """A get beside puts of the same key sees one put's value, whole."""
    await store.put(NS, "k", _whole(0))
    writes = [store.put(NS, "k", _whole(n)) for n in range(1, WRITERS)]
    reads = [store.value(NS, "k") for _ in range(WRITERS)]
    seen = (await asyncio.gather(*writes, *reads))[len(writes) :]
    whole = [_whole(n) for n in range(WRITERS)]
    true(all(value in whole for value in seen), f"values: {seen!r:.200}")


@check()
async def batches_in_opposite_order_do_not_deadlock(store: StoreDriver) -> None:
    """Concurrent batches that write the same keys in opposite order all succeed."""
    keys = [f"k{n}" for n in range(20)]
    batches = (
        store.batch([PutOp(NS, key, _whole(n)) for key in keys[:: -1 if n % 2 else 1]])
        for n in range(WRITERS)
    )
    await asyncio.gather(*batches)
    found = await store.search(NS, limit=100)
    equal(sorted(item.key for item in found), sorted(keys), "keys")


@check(index=IndexNeeds())
async def writers_of_one_key_leave_one_vector(store: StoreDriver) -> None:
    """After concurrent puts of one key only the text that is stored is found."""
    texts = [f"{'abcdefgh'[n] * 9} {n}" for n in range(WRITERS)]
    for key in ("a", "b"):
        await asyncio.gather(*(store.put((*NS, key), key, {"text": text}) for text in texts))
        kept = [item.value["text"] for item in await store.search((*NS, key))]
        scores = {text: await _best_score(store, key, text) for text in texts}
        exact = [text for text, score in scores.items() if score > EXACT]
        equal(exact, kept, f"exact hits in {scores}")


async def _best_score(store: StoreDriver, label: str, query: str) -> float:
    found = await store.search((*NS, label), query=query)
    return max((item.score or 0.0 for item in found), default=0.0)
