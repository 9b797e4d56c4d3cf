"""What a worker reads of its checkpoints: where a tenant's thread stands, and plain data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from types import UnionType
from typing import Any, Final, NamedTuple, get_origin, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_POS_ARGS, JsonPlusSerializer

from langmem_tiers.consolidate.lease import thread_of
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.core.errors import CheckpointError, MissingExtraError, short
from langmem_tiers.graph.consolidation_nodes import LEASE, NOT_OURS, ConsolidationState, HeldTenant

try:
    from langgraph.types import Send, StateSnapshot
except ImportError as error:
    raise MissingExtraError(
        "the worker needs LangGraph: pip install 'langmem-tiers[worker]'"
    ) from error

FENCE = "fence"
"""Where the metadata of a checkpoint says under which fence it was written."""
_WRITTEN: Final = ("null", "msgpack")
"""The forms in which a cycle's values are written."""
_SEND: Final = (EXT_CONSTRUCTOR_POS_ARGS, Send.__module__, Send.__name__)


class Thread(NamedTuple):
    """Where a tenant's thread stands: what the latest holder of its lease wrote last."""

    tenant: str
    snapshot: StateSnapshot | None
    is_newest: bool
    """Whether nobody who had lost the lease wrote after it."""

    @classmethod
    def of(cls, tenant: str, history: Sequence[StateSnapshot], fence: int | None) -> Thread:
        """Read it from the latest checkpoints, the newest first.

        `fence` is the reader's own, if it holds the lease: one that is higher is of leases that
        have been deleted since.

        Raises:
            CheckpointError: if what it holds is no state of a cycle.
        """

        def rank(one: StateSnapshot) -> int:
            written: int = (one.metadata or {}).get(FENCE, 0)  # type: ignore[assignment]
            return written if fence is None or written <= fence else -1

        if not history:
            return cls(tenant, None, is_newest=True)
        best = max(history, key=rank)
        _check_state(best.values)
        return cls(tenant, best, is_newest=best is history[0])

    @property
    def is_at_work(self) -> bool:
        """Whether a cycle was begun and has not ended."""
        return self.snapshot is not None and bool(self.snapshot.next)

    @property
    def is_ended(self) -> bool:
        """Whether there was a cycle, and it has ended."""
        return self.snapshot is not None and not self.snapshot.next

    @property
    def last(self) -> dict[str, Any] | None:
        """The report of the last cycle that ended, as the graph keeps it."""
        return None if self.snapshot is None else self.snapshot.values.get("consolidated")

    @property
    def report(self) -> ConsolidationReport | None:
        """The same, for people; None while a cycle is at work."""
        last = self.last if self.is_ended else None
        return None if last is None else ConsolidationReport.of(last)

    def ahead(self, fence: int) -> tuple[dict[str, Any] | None, RunnableConfig]:
        """What the graph is given to go on from here, or to begin."""
        config = config_of(self.tenant)
        config["metadata"] = {FENCE: fence}
        config["max_concurrency"] = 1  # recalls beside a cycle keep their pace
        config["configurable"][LEASE] = HeldTenant(self.tenant, fence)
        if self.snapshot is not None and not self.is_newest:
            config["configurable"] |= self.snapshot.config["configurable"]
        return None if self.is_at_work else {}, config


_KINDS = {
    name: kind if isinstance(kind, UnionType) else get_origin(kind) or kind
    for name, kind in get_type_hints(ConsolidationState).items()
}
"""Of which kind each part of a cycle's state is."""


def _check_state(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if not isinstance(value, _KINDS[name]):
            raise CheckpointError(
                f"a checkpoint holds {short(value)} where {name} of a cycle is: {NOT_OURS}"
            )


def config_of(tenant: str) -> RunnableConfig:
    """The config that names a tenant's thread."""
    return {"configurable": {"thread_id": thread_of(tenant)}}


class CycleSerializer(JsonPlusSerializer):
    """Writes as LangGraph's own serializer does, and reads what a cycle writes alone.

    LangGraph's builds whatever a value names: any callable, unless it is told to be strict, and
    then what it does not know is handed on as it is. Here it is refused.
    """

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value.

        Raises:
            CheckpointError: for what no cycle writes, and for what is damaged.
        """
        form, blob = data
        if form not in _WRITTEN:
            raise CheckpointError(f"a checkpoint holds a value as {short(form)}: {NOT_OURS}")
        refused: list[str] = []  # as the reader of msgpack hides whatever is raised while it reads

        def built(code: int, named: bytes) -> Send | None:
            match reader.loads_typed(("msgpack", named)):
                case [str(module), str(name), [str(node), arg]] if (code, module, name) == _SEND:
                    return Send(node, arg)
                case [str(module), str(name), *_]:
                    refused.append(short(f"{module}.{name}"))
                case _:
                    refused.append(f"a value of the kind {code}")
            return None

        reader = JsonPlusSerializer(__unpack_ext_hook__=built)
        try:
            value = reader.loads_typed((form, blob))
        except ValueError as error:
            raise CheckpointError(f"a checkpoint is damaged ({error}): {NOT_OURS}") from error
        if refused:
            raise CheckpointError(f"a checkpoint names {refused[0]}: {NOT_OURS}")
        return value


def strictly(checkpointer: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """The same checkpointer, which reads as a `CycleSerializer` where it read as LangGraph does.

    A serializer of somebody's own, one that encrypts for instance, is left to them.
    """
    if type(checkpointer.serde) is not JsonPlusSerializer:
        return checkpointer
    own = copy(checkpointer)
    own.serde = CycleSerializer()
    return own
