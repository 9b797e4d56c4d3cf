from __future__ import annotations

import os

from langmem_tiers import TieredStore

NAMESPACE = ("acme", "forks")


def reads_right(store: TieredStore, key: str, times: int = 300) -> bool:
    items = [store.get(NAMESPACE, key) for _ in range(times)]
    return all(item is not None and item.value == {"key": key} for item in items)


def test_a_forked_process_gets_connections_of_its_own(own_store: TieredStore) -> None:
    for key in ("parent", "child"):
        own_store.put(NAMESPACE, key, {"key": key}, index=False)
    assert reads_right(own_store, "parent", 1)
    child = os.fork()
    if not child:
        os._exit(0 if reads_right(own_store, "child") else 1)
    right = reads_right(own_store, "parent")
    _, status = os.waitpid(child, 0)
    assert right
    assert os.waitstatus_to_exitcode(status) == 0
    assert reads_right(own_store, "parent", 1)
