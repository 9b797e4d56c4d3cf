"""Workers that promote in processes of their own, which a test may kill."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import DatabaseUnavailableError, OutcomeUnknownError
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from tests.support.coordinating import coordinator
from tests.support.opening import text_index

PROVEN = PromotionPolicy(min_age_days=0.0)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


@contextmanager
def promoting(url: str, number: int) -> Iterator[Sequence[BaseProcess]]:
    """So many workers that promote until nothing is left; all of them have begun."""
    heard, said = _context.Pipe(duplex=False)
    workers = [_context.Process(target=_promote_all, args=(url, said)) for _ in range(number)]
    try:
        for one in workers:
            one.start()
        for _ in workers:
            assert heard.poll(60)
            assert heard.recv() == "ready"
        yield workers
    finally:
        for one in workers:
            one.kill()
            one.join()
        heard.close()
        said.close()


def _promote_all(url: str, said: Connection) -> None:
    warnings.simplefilter("error")
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        store.setup()
        memory = coordinator(store, policy=PROVEN)
        said.send("ready")
        while True:
            try:
                if not any(one.promoted for one in memory.learning.promote()):
                    break
            except (DatabaseUnavailableError, OutcomeUnknownError):
                time.sleep(0.05)
