"""How near a tool call is to what its turn is about, as its memory says."""

from __future__ import annotations

from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore, local_index
from tests.support.coordinating import coordinator

PROMPT = "Release the shop to production"


def kept(memory: MemoryCoordinator, *calls: tuple[str, dict[str, Any]]) -> list[float]:
    """The relevance of each call, as told in its memory."""
    with MemoryOrchestrator(memory) as turn:
        turn.assemble_context(PROMPT)
        keys = [turn.track_tool_invocation(tool, **told).key for tool, told in calls]
        turn.commit()
    found = filter(None, (memory.get(str(key)) for key in keys))
    return [one.value["tool_call"]["relevance"] for one in found]


@pytest.mark.parametrize("by", ["vectors", "words"])
def test_a_call_is_near_by_what_it_means_and_without_a_model_by_the_words_it_shares(
    database_url: str, by: str
) -> None:
    index = local_index() if by == "vectors" else {}
    with TieredStore(database_url, index=index) as store:
        store.setup()
        memory = coordinator(store, project_id="shop")
        deploy: dict[str, Any] = {"parameters": {"target": "live"}, "result": "version 4 is live"}
        weather: dict[str, Any] = {"parameters": {"city": "Porto"}, "result": "rain until nine"}
        near, far, shared, told = kept(
            memory,
            ("deploy", deploy),
            ("get_weather", weather),
            ("open_shop", {"result": "production"}),
            ("deploy", {**deploy, "relevance": 0.75}),
        )

    assert told == 0.75
    if by == "vectors":
        assert near > far >= 0
        assert near > 0
    else:
        assert (near, far) == (0, 0)
        assert shared == 0.4  # two of five words
