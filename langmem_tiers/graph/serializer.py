"""What a worker reads of a checkpoint: plain data and LangGraph's `Send`, and nothing else."""

from __future__ import annotations

from copy import copy
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_POS_ARGS, JsonPlusSerializer

from langmem_tiers.core.errors import CheckpointError, MissingExtraError, short
from langmem_tiers.graph.consolidation_nodes import NOT_OURS

try:
    from langgraph.types import Send
except ImportError as error:
    raise MissingExtraError(
        "the worker needs LangGraph: pip install 'langmem-tiers[worker]'"
    ) from error

_WRITTEN: Final = ("null", "msgpack")
"""The forms in which a cycle's values are written."""
_SEND: Final = (EXT_CONSTRUCTOR_POS_ARGS, Send.__module__, Send.__name__)


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
        known = _Known()
        try:
            value = known.reader.loads_typed((form, blob))
        except ValueError as error:
            raise CheckpointError(f"a checkpoint is damaged ({error}): {NOT_OURS}") from error
        if known.refused:
            raise CheckpointError(f"a checkpoint names {known.refused[0]}: {NOT_OURS}")
        return value


class _Known:
    """Reads one value, and notes what it names that no cycle writes.

    It notes, as the reader of msgpack hides whatever is raised while it reads.
    """

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.reader = JsonPlusSerializer(__unpack_ext_hook__=self._built)

    def _built(self, code: int, blob: bytes) -> Send | None:
        match self.reader.loads_typed(("msgpack", blob)):
            case [str(module), str(name), [str(node), arg]] if (code, module, name) == _SEND:
                return Send(node, arg)
            case [str(module), str(name), *_]:
                self.refused.append(short(f"{module}.{name}"))
            case _:
                self.refused.append(f"a value of the kind {code}")
        return None


def strictly(checkpointer: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """The same checkpointer, which reads as a `CycleSerializer` where it read as LangGraph does.

    A serializer of somebody's own, one that encrypts for instance, is left to them.
    """
    if type(checkpointer.serde) is not JsonPlusSerializer:
        return checkpointer
    own = copy(checkpointer)
    own.serde = CycleSerializer()
    return own
