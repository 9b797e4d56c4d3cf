"""Values are JSON objects: what survives the trip, and what is refused."""

from datetime import UTC, datetime
from typing import Any

from langmem_tiers.testing.check import check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, refused

NS = ("values",)
MEGABYTE = 1_000_000


async def _survives(store: StoreDriver, value: dict[str, Any]) -> None:
    await store.put(NS, "k", value)
    found = [await store.value(NS, "k"), *(item.value for item in await store.search(NS))]
    equal(found, [value, value], "from get and from search")


async def _writes_nothing(store: StoreDriver, *values: Any) -> None:
    for value in values:
        what = f"put of {value!r:.80}"
        await refused(store.put(NS, "k", {"v": value}), ValueError, TypeError, what=what)
        await refused(store.put(NS, "k", {"a": [{"v": value}]}), ValueError, TypeError, what=what)
    equal(await store.keys(NS), [], "keys that were written")


@check()
async def nested_values_survive(store: StoreDriver) -> None:
    """Empty and nested lists and objects and null come back as they were."""
    await _survives(store, {"a": {}, "b": [], "c": [[{"d": [None, "", {"": {}}]}]], "e": None})


@check()
async def empty_values_survive(store: StoreDriver) -> None:
    """The empty object is a value, not a delete."""
    await _survives(store, {})


@check()
async def booleans_stay_booleans(store: StoreDriver) -> None:
    """True comes back as True and 1 as 1."""
    await store.put(NS, "k", {"v": [True, 1, False, 0]})
    value = await store.value(NS, "k")
    equal(repr(value), repr({"v": [True, 1, False, 0]}), "the value")


@check()
async def big_integers_survive(store: StoreDriver) -> None:
    """Integers of any size come back exactly."""
    await _survives(store, {"v": [2**53 + 1, 2**63, -(2**64) - 1, 10**30, -(10**300)]})


@check()
async def floats_survive(store: StoreDriver) -> None:
    """Floats come back as the same float, the largest and the smallest too."""
    await _survives(store, {"v": [0.1, -1.5, 1e23, 5e-324, 1.7976931348623157e308, 1 / 3]})


@check()
async def text_survives(store: StoreDriver) -> None:
    """Quotes, escapes, control characters, emoji and combining marks come back unchanged."""
    odd = "'\"\\ \\u0000 %s %(x)s {0} $1 \x01\x1f\x7f \r\n\t \u2028\ufeff é e\u0301 👩‍🚀 \U0010ffff"
    await _survives(store, {"v": odd, odd: 1})


@check()
async def long_text_survives(store: StoreDriver) -> None:
    """A text of one megabyte comes back whole."""
    text = "".join(chr(97 + n * n % 26) for n in range(MEGABYTE))
    await store.put(NS, "k", {"v": text})
    value = await store.value(NS, "k")
    equal(value == {"v": text}, True, "the same text")  # noqa: FBT003


@check()
async def unicode_keys_survive(store: StoreDriver) -> None:
    """Keys and labels may be any text: Unicode, spaces, quotes, percent signs, dots in keys."""
    keys = ["ключ", "鍵 👩‍🚀", "a.b", "a b", "50%_\\", "'; --", '"', "e\u0301", "\n"]
    for key in keys:
        await store.put((*NS, "метка 🏷"), key, {"k": key})
    found = [await store.value((*NS, "метка 🏷"), key) for key in keys]
    equal(found, [{"k": key} for key in keys], "values by key")


@check()
async def nul_characters_are_refused(store: StoreDriver) -> None:
    """A NUL character in a value is a ValueError or TypeError and writes nothing."""
    await _writes_nothing(store, "a\x00b", {"a\x00b": 1})


@check()
async def lone_surrogates_are_refused(store: StoreDriver) -> None:
    """A lone surrogate in a value is a ValueError or TypeError and writes nothing."""
    await _writes_nothing(store, "\ud800", "a\udfffb", {"\ud800": 1})


@check()
async def nan_and_infinity_are_refused(store: StoreDriver) -> None:
    """NaN and infinities in a value are a ValueError or TypeError and write nothing."""
    await _writes_nothing(store, float("nan"), float("inf"), float("-inf"))


@check()
async def values_outside_json_are_refused(store: StoreDriver) -> None:
    """A set, bytes or any other object is a ValueError or TypeError and writes nothing."""
    await _writes_nothing(store, {1}, b"x", object(), 1j, datetime(2024, 1, 1, tzinfo=UTC))


@check()
async def keys_with_nul_or_surrogates_are_refused(store: StoreDriver) -> None:
    """A key with a NUL character or a lone surrogate is a ValueError and writes nothing."""
    for key in ("a\x00b", "\ud800"):
        await refused(store.put(NS, key, {"n": 1}), ValueError, what=f"put at {key!r}")
    equal(await store.keys(NS), [], "keys that were written")
