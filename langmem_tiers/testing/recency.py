"""A new put replaces every vector of the item: old texts are not found any more."""

from langgraph.store.base import PutOp

from langmem_tiers.testing.check import IndexNeeds, check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, true

NS = ("recency",)
OLD, NEW = "green tea with lemon", "ships in the harbour"
EXACT = 0.99


async def _score(store: StoreDriver, query: str) -> float | None:
    """Return the score of the one item, None if it has none or is left out."""
    scores = [item.score for item in await store.search(NS, query=query)]
    true(len(scores) <= 1, f"one item was found {len(scores)} times")
    return scores[0] if scores else None


def _is_exact(score: float | None) -> bool:
    return score is not None and score > EXACT


async def _forgot(store: StoreDriver, text: str) -> None:
    score = await _score(store, text)
    true(not _is_exact(score), f"the old text still scores {score}")


@check(index=IndexNeeds())
async def an_update_embeds_the_new_text(store: StoreDriver) -> None:
    """After an update the new text is found and the old one is not."""
    await store.put(NS, "k", {"text": OLD})
    await store.put(NS, "k", {"text": NEW})
    await _forgot(store, OLD)
    true(_is_exact(await _score(store, NEW)), "the new text is not found")


@check(index=IndexNeeds())
async def an_unindexed_update_forgets_the_vector(store: StoreDriver) -> None:
    """After an update with `index=False` the item has no score."""
    await store.put(NS, "k", {"text": OLD})
    await store.put(NS, "k", {"text": NEW}, index=False)
    equal(await _score(store, OLD), None, "score")


@check(index=IndexNeeds())
async def an_update_without_the_field_forgets_the_vector(store: StoreDriver) -> None:
    """After an update whose value lacks the indexed field the item has no score."""
    await store.put(NS, "k", {"text": OLD})
    await store.put(NS, "k", {"other": NEW})
    equal(await _score(store, OLD), None, "score")


@check(index=IndexNeeds())
async def a_blanked_text_forgets_the_vector(store: StoreDriver) -> None:
    """After an update that blanks the indexed text the old text is not found."""
    await store.put(NS, "k", {"text": OLD})
    await store.put(NS, "k", {"text": ""})
    await _forgot(store, OLD)


@check(index=IndexNeeds(fields=("parts[*]",)))
async def a_shrunk_list_forgets_the_rest(store: StoreDriver) -> None:
    """After an update to a shorter list the texts that are gone are not found."""
    await store.put(NS, "k", {"parts": [NEW, "rust", OLD]})
    await store.put(NS, "k", {"parts": [NEW, "rust"]})
    await _forgot(store, OLD)
    await store.put(NS, "k", {"parts": [NEW]})
    await _forgot(store, "rust")


@check(index=IndexNeeds())
async def other_fields_in_an_update_replace_the_old_ones(store: StoreDriver) -> None:
    """After an update that names other fields only those are found."""
    await store.put(NS, "k", {"text": OLD, "title": NEW})
    await store.put(NS, "k", {"text": OLD, "title": NEW}, index=["title"])
    await _forgot(store, OLD)


@check(index=IndexNeeds())
async def a_deleted_item_leaves_no_vector(store: StoreDriver) -> None:
    """An item deleted and put again without an index has no score."""
    await store.put(NS, "k", {"text": OLD})
    await store.delete(NS, "k")
    equal(await store.keys(NS, query=OLD), [], "keys after delete")
    await store.put(NS, "k", {"text": OLD}, index=False)
    equal(await _score(store, OLD), None, "score")


@check(index=IndexNeeds())
async def the_last_put_of_a_batch_is_the_one_embedded(store: StoreDriver) -> None:
    """Of several puts to one key in one batch only the last one's text is found."""
    await store.batch([PutOp(NS, "k", {"text": OLD}), PutOp(NS, "k", {"text": NEW})])
    await _forgot(store, OLD)
    true(_is_exact(await _score(store, NEW)), "the last text is not found")
    await store.batch([PutOp(NS, "k", {"text": OLD}), PutOp(NS, "k", {"text": NEW}, False)])  # noqa: FBT003
    equal(await _score(store, OLD), None, "score")
