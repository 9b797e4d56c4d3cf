"""What of a database is logged, and who is said to act."""

from __future__ import annotations

from typing import Annotated

from langmem_tiers.core.checks import checked_switch
from langmem_tiers.core.errors import ConfigurationError, short
from langmem_tiers.core.records import by, record

_LONGEST = 255
"""Characters of an actor's name, as of a label: our own choice."""


def _actor(given: object, what: str) -> str:
    if isinstance(given, str) and given.isprintable() and 0 < len(given.strip()) <= _LONGEST:
        return given
    raise ConfigurationError(
        f"{what} is a name of up to {_LONGEST} printable characters, not {short(given)}"
    )


@record
class Audit:
    """What goes into the audit log of a store, and under which name; docs/audit.md has it all.

    Raises:
        ConfigurationError: for a value that cannot work.

    Example:
        ```python
        from langmem_tiers import Audit, TieredStore

        store = TieredStore.embedded("./.memory", audit=Audit(reads=True, actor="support-bot"))
        ```
    """

    writes: Annotated[bool, by(checked_switch)] | None = None
    """Whether the database logs what is written, whoever writes: `setup` switches it on or off for
    all. None leaves it as it is: a new database logs."""
    reads: Annotated[bool, by(checked_switch)] = False
    """Whether this store logs which memories it returns. A read then waits for one commit more."""
    actor: Annotated[str, by(_actor)] | None = None
    """Who this store writes and reads for, beside the role that logged in."""


def checked_audit(given: object) -> Audit:
    """What goes into the log; what an `Audit` says by itself if none is given."""
    if not isinstance(given, Audit | None):
        raise ConfigurationError(f"audit is Audit(reads=True) or the like, not {short(given)}")
    return Audit() if given is None else given
