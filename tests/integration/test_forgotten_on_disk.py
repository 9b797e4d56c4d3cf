"""After the recipe of docs/forgetting.md nothing of it is in the data directory or in the log."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from langmem_tiers import TieredStore
from tests.support.forgetting import MARK, NAME, SAID, converse, everywhere, own
from tests.support.opening import text_index
from tests.support.servers import own_server

PAGE = Path(__file__).parents[2] / "docs" / "forgetting.md"
NUMBERS = 16
"""Of a vector, which nothing else has in a row."""


def recipe() -> dict[str, Any]:
    """The functions of the page, which are what users run."""
    (body,) = re.findall(r"```python\n(from pathlib.*?)\n\nwith ", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(body, PAGE.name, "exec"), names)  # noqa: S102 - the page's own
    return names


@pytest.mark.slow
def test_the_recipe_leaves_no_word_and_no_vector_in_the_data_directory(tmp_path: Path) -> None:
    page, cold = recipe(), tmp_path / "cold"
    with own_server(tmp_path) as server:
        with TieredStore.from_conn_string(server.url, index=text_index()) as store:
            store.setup()
            everywhere(store, server.url, cold)
            with PostgresSaver.from_conn_string(server.url) as saver:
                saver.setup()
                converse(saver, "chat-7", SAID)
                with psycopg.connect(server.url, autocommit=True) as conn:
                    conn.execute("ANALYZE")
                    conn.execute("CHECKPOINT")
                vector = embedding(server.url)
                receipt: Any = own(store).forget(subject=NAME, checkpointer=saver)
        where = tmp_path / "server"
        for trace in (MARK.encode(), vector):
            assert page["held"](where, trace), "it is in pages and in the log still"
        page["end_it"](server.url)
        with TieredStore.from_conn_string(server.url, index=text_index()) as store:
            assert own(store).admin.verify_forgotten(receipt)
        for trace in (MARK.encode(), vector):
            assert page["held"](where, trace) == []
    for trace in (MARK.encode(), vector):
        assert page["held"](tmp_path, trace) == []


def embedding(url: str) -> bytes:
    """The first numbers of the vector of what was said, as the server's pages have them."""
    query = """SELECT v.embedding::vector::real[] FROM memory.vectors v
               JOIN memory.memories m ON m.tenant = v.tenant AND m.id = v.id
               WHERE m.value ->> 'content' = %s"""
    with psycopg.connect(url) as conn:
        row = conn.execute(query, [SAID]).fetchone()
    assert row is not None
    return struct.pack(f"={NUMBERS}e", *row[0][:NUMBERS])
