"""What holds for a whole forgetting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.consolidate.archive import Files
from langmem_tiers.core.config import StoreOptions


class Forgetting(NamedTuple):
    """How something is forgotten."""

    options: StoreOptions
    files: Callable[[], Files]
    """Where archives are; asked for only where there are any."""
    now: datetime
    checkpointer: Any = None
    """Whose threads go along: what has `delete_thread`, of LangGraph's kind."""
    advance: Callable[[int], object] = lambda _: None
    """Is told of each memory and each file that is done with."""
