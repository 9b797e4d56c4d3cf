"""Rules for changes: texts that are put again, lifetimes that end, and many callers at once."""

import asyncio
from typing import cast

from langgraph.store.base import PutOp, TTLConfig

from langmem_tiers.testing.kit import EXACT, NS, IndexNeeds, Rules, equal, requires, true

OLD, NEW = "green tea with lemon", "ships in the harbour"


def _is_exact(score: float | None) -> bool:
    return score is not None and score > EXACT


BLINK = 0.0005
SHORT = 0.015
OMIT = TTLConfig(omit_expired=True)


async def _sleep_share(share: float, ttl: float = SHORT) -> None:
    await asyncio.sleep(share * ttl * 60)


async def _wait_until_expired(ttl: float = BLINK) -> None:
    await asyncio.sleep(ttl * 60 + 0.02)


WRITERS = 8


def _writer_value(n: int) -> dict[str, object]:
    return {"writer": n, "echo": [n] * 50}


class Recency(Rules, index=IndexNeeds()):
    """Texts that are put again."""

    async def _score(self, query: str) -> float | None:
        """Return the score of the one item, None if it has none or is left out."""
        scores = [item.score for item in await self.search(NS, query=query)]
        true(len(scores) <= 1, f"one item was found {len(scores)} times")
        return scores[0] if scores else None

    async def _forgot(self, text: str) -> None:
        score = await self._score(text)
        true(not _is_exact(score), f"the old text still scores {score}")

    async def an_update_embeds_the_new_text(self) -> None:
        """After an update the new text is found and the old one is not."""
        await self.put(NS, "k", {"text": OLD})
        await self.put(NS, "k", {"text": NEW})
        await self._forgot(OLD)
        true(_is_exact(await self._score(NEW)), "the new text is not found")

    async def an_unindexed_update_forgets_the_vector(self) -> None:
        """After an update with `index=False` the item has no score."""
        await self.put(NS, "k", {"text": OLD})
        await self.put(NS, "k", {"text": NEW}, index=False)
        equal(await self._score(OLD), None, "score")

    async def an_update_without_the_field_forgets_the_vector(self) -> None:
        """After an update whose value lacks the indexed field the item has no score."""
        await self.put(NS, "k", {"text": OLD})
        await self.put(NS, "k", {"other": NEW})
        equal(await self._score(OLD), None, "score")

    async def a_blanked_text_forgets_the_vector(self) -> None:
        """After an update that blanks the indexed text the old text is not found."""
        await self.put(NS, "k", {"text": OLD})
        await self.put(NS, "k", {"text": ""})
        await self._forgot(OLD)

    @requires(index=IndexNeeds(fields=("parts[*]",)))
    async def a_shrunk_list_forgets_the_rest(self) -> None:
        """After an update to a shorter list the texts that are gone are not found."""
        await self.put(NS, "k", {"parts": [NEW, "rust", OLD]})
        await self.put(NS, "k", {"parts": [NEW, "rust"]})
        await self._forgot(OLD)
        await self.put(NS, "k", {"parts": [NEW]})
        await self._forgot("rust")

    async def other_fields_in_an_update_replace_the_old_ones(self) -> None:
        """After an update that names other fields only those are found."""
        await self.put(NS, "k", {"text": OLD, "title": NEW})
        await self.put(NS, "k", {"text": OLD, "title": NEW}, index=["title"])
        await self._forgot(OLD)

    async def a_deleted_item_leaves_no_vector(self) -> None:
        """An item deleted and put again without an index has no score."""
        await self.put(NS, "k", {"text": OLD})
        await self.delete(NS, "k")
        equal(await self.keys(NS, query=OLD), [], "keys after delete")
        await self.put(NS, "k", {"text": OLD}, index=False)
        equal(await self._score(OLD), None, "score")

    async def the_last_put_of_a_batch_is_the_one_embedded(self) -> None:
        """Only the last text of several puts to one key in one batch is found."""
        await self.batch([PutOp(NS, "k", {"text": OLD}), PutOp(NS, "k", {"text": NEW})])
        await self._forgot(OLD)
        true(_is_exact(await self._score(NEW)), "the last text is not found")
        await self.batch([PutOp(NS, "k", {"text": OLD}), PutOp(NS, "k", {"text": NEW}, False)])  # noqa: FBT003
        equal(await self._score(OLD), None, "score")


class Ttl(Rules, ttl=OMIT):
    """Lifetimes that end."""

    async def _put_and_expire(self) -> None:
        await self.put(NS, "gone", {"n": 1}, ttl=BLINK)
        await self.put(NS, "kept", {"n": 1}, ttl=None)
        await _wait_until_expired()

    async def ttl_support_is_declared(self) -> None:
        """`supports_ttl` is True and `ttl_config` is the configuration that was given."""
        equal(self.store.supports_ttl, True, "supports_ttl")  # noqa: FBT003
        equal((self.store.ttl_config or {}).get("omit_expired"), True, "omit_expired")  # noqa: FBT003

    async def a_fraction_of_a_minute_is_a_lifetime(self) -> None:
        """An item put for 0.015 minutes is read as often as one likes until then, and then gone."""
        await self.put(NS, "k", {"n": 1}, ttl=SHORT)
        for _ in range(2):
            equal(await self.value(NS, "k"), {"n": 1}, "get while alive")
            equal(await self.keys(NS), ["k"], "search while alive")
        await _sleep_share(1.1)
        equal(await self.value(NS, "k"), None, "get when expired")

    async def expired_items_are_not_found(self) -> None:
        """With `omit_expired`, neither get, search nor list_namespaces shows what has expired."""
        await self._put_and_expire()
        await self.put(("other",), "gone", {"n": 1}, ttl=BLINK)
        await _wait_until_expired()
        equal(await self.value(NS, "gone"), None, "get")
        equal(await self.keys(NS), ["kept"], "search")
        equal(await self.list_namespaces(), [NS], "list_namespaces")

    async def expired_items_take_no_place_on_a_page(self) -> None:
        """With `omit_expired`, a page is filled with living items."""
        for n in range(6):
            await self.put(NS, f"k{n}", {"n": n}, ttl=BLINK if n % 2 else None)
        await _wait_until_expired()
        pages = [await self.keys(NS, limit=2, offset=at) for at in (0, 2)]
        equal(sorted(key for page in pages for key in page), ["k0", "k2", "k4"], "keys")

    async def reading_an_expired_item_does_not_revive_it(self) -> None:
        """With `omit_expired`, a read that refreshes leaves the dead dead."""
        await self._put_and_expire()
        for _ in range(2):
            equal(await self.get(NS, "gone", refresh_ttl=True), None, "get")
            equal(await self.keys(NS, refresh_ttl=True), ["kept"], "search")

    @requires(ttl=TTLConfig())
    async def omit_expired_is_read_at_each_call(self) -> None:
        """Setting `omit_expired` in the store's configuration works from the next call on."""
        await self._put_and_expire()
        cast("TTLConfig", self.store.ttl_config)["omit_expired"] = True
        equal(await self.keys(NS), ["kept"], "search")
        equal(await self.value(NS, "gone"), None, "get")

    @requires(ttl=TTLConfig(omit_expired=True, default_ttl=BLINK))
    async def put_uses_the_default_ttl(self) -> None:
        """A put that says nothing of a TTL takes the configuration's `default_ttl`."""
        await self.put(NS, "k", {"n": 1})
        await _wait_until_expired()
        equal(await self.value(NS, "k"), None, "get")

    @requires(ttl=TTLConfig(omit_expired=True, default_ttl=BLINK))
    async def no_ttl_beats_the_default_ttl(self) -> None:
        """`ttl=None` and a TTL of its own are kept against `default_ttl`."""
        await self.put(NS, "none", {"n": 1}, ttl=None)
        await self.put(NS, "hour", {"n": 1}, ttl=60)
        await _wait_until_expired()
        equal(sorted(await self.keys(NS)), ["hour", "none"], "keys")

    @requires(ttl=TTLConfig(omit_expired=True, default_ttl=BLINK))
    async def raw_puts_have_no_default_ttl(self) -> None:
        """`default_ttl` is for put: an operation given to batch means what it says."""
        await self.batch([PutOp(NS, "k", {"n": 1}), PutOp(NS, "gone", {"n": 1}, ttl=BLINK)])
        await _wait_until_expired()
        equal(await self.keys(NS), ["k"], "keys")

    async def a_put_without_ttl_clears_an_earlier_one(self) -> None:
        """The TTL belongs to the last put."""
        await self.put(NS, "k", {"n": 1}, ttl=BLINK)
        await self.put(NS, "k", {"n": 2})
        await _wait_until_expired()
        equal(await self.value(NS, "k"), {"n": 2}, "get")

    async def reading_extends_the_lifetime(self) -> None:
        """A get or a search gives an item its whole TTL again."""
        for key in ("got", "found"):
            await self.put((*NS, key), key, {"n": 1}, ttl=SHORT)
        await _sleep_share(0.55)
        await self.get((*NS, "got"), "got")
        await self.search((*NS, "found"))
        await _sleep_share(0.65)
        equal(sorted(await self.keys(NS)), ["found", "got"], "keys after 1.2 lifetimes")

    async def reading_without_refresh_does_not_extend(self) -> None:
        """`refresh_ttl=False` reads and leaves the end where it was."""
        await self.put(NS, "k", {"n": 1}, ttl=SHORT)
        await _sleep_share(0.55)
        item = await self.get(NS, "k", refresh_ttl=False)
        true(item is not None, "the item is gone before its time")
        equal(await self.keys(NS, refresh_ttl=False), ["k"], "search while alive")
        await _sleep_share(0.55)
        equal(await self.keys(NS), [], "keys after 1.1 lifetimes")

    @requires(ttl=TTLConfig(omit_expired=True, refresh_on_read=False))
    async def refresh_on_read_may_be_off(self) -> None:
        """With `refresh_on_read` False, reads extend nothing unless they ask for it."""
        for key in ("got", "asked"):
            await self.put((*NS, key), key, {"n": 1}, ttl=SHORT)
        await _sleep_share(0.55)
        true(await self.get((*NS, "got"), "got") is not None, "the item is gone before its time")
        await self.get((*NS, "asked"), "asked", refresh_ttl=True)
        await _sleep_share(0.65)
        equal(await self.keys(NS), ["asked"], "keys after 1.2 lifetimes")

    async def only_the_page_is_refreshed(self) -> None:
        """A search extends the lifetime of the items it returns, not of others that match."""
        for n in range(3):
            await self.put(NS, f"k{n}", {"n": n}, ttl=SHORT)
        await _sleep_share(0.55)
        page = await self.keys(NS, limit=1)
        equal(len(page), 1, "size of the page")
        await _sleep_share(0.65)
        equal(await self.keys(NS), page, "keys after 1.2 lifetimes")


class Concurrency(Rules):
    """Many callers at once."""

    async def writers_of_one_key_leave_one_item(self) -> None:
        """Concurrent puts of one new key leave one item, whole, from one of them."""
        for key in ("a", "b", "c"):
            await asyncio.gather(*(self.put(NS, key, _writer_value(n)) for n in range(WRITERS)))
        items = await self.search(NS)
        equal(sorted(item.key for item in items), ["a", "b", "c"], "keys")
        true(
            all(item.value in map(_writer_value, range(WRITERS)) for item in items),
            "a value is torn",
        )

    async def writers_of_many_keys_lose_nothing(self) -> None:
        """Concurrent puts of different keys are all kept."""
        await asyncio.gather(
            *(self.put(NS, f"k{n:02}", _writer_value(n)) for n in range(3 * WRITERS))
        )
        keys = sorted(await self.keys(NS, limit=100))
        equal(keys, [f"k{n:02}" for n in range(3 * WRITERS)], "keys")

    async def readers_beside_writers_see_whole_values(self) -> None:
        """A get beside puts of the same key sees one put's value, whole."""
        await self.put(NS, "k", _writer_value(0))
        writes = [self.put(NS, "k", _writer_value(n)) for n in range(1, WRITERS)]
        reads = [self.value(NS, "k") for _ in range(WRITERS)]
        seen = (await asyncio.gather(*writes, *reads))[len(writes) :]
        whole = [_writer_value(n) for n in range(WRITERS)]
        true(all(value in whole for value in seen), f"values: {seen!r:.200}")

    async def batches_in_opposite_order_do_not_deadlock(self) -> None:
        """Concurrent batches that write the same keys in opposite order all succeed."""
        keys = [f"k{n}" for n in range(20)]
        batches = (
            self.batch([PutOp(NS, key, _writer_value(n)) for key in keys[:: -1 if n % 2 else 1]])
            for n in range(WRITERS)
        )
        await asyncio.gather(*batches)
        items = await self.search(NS, limit=100)
        equal(sorted(item.key for item in items), sorted(keys), "keys")

    @requires(index=IndexNeeds())
    async def writers_of_one_key_leave_one_vector(self) -> None:
        """After concurrent puts of one key only the text that is stored is found."""
        texts = [f"{'abcdefgh'[n] * 9} {n}" for n in range(WRITERS)]
        for key in ("a", "b"):
            await asyncio.gather(*(self.put((*NS, key), key, {"text": text}) for text in texts))
            kept = [item.value["text"] for item in await self.search((*NS, key))]
            scores = {text: await self._best_score(key, text) for text in texts}
            exact = [text for text, score in scores.items() if score > EXACT]
            equal(exact, kept, f"exact hits in {scores}")

    async def _best_score(self, label: str, query: str) -> float:
        items = await self.search((*NS, label), query=query)
        return max((item.score or 0.0 for item in items), default=0.0)
