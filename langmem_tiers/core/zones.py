"""Time zones, by the names of the IANA's database."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short


def zone_of(name: object) -> ZoneInfo:
    """The time zone of that name.

    Raises:
        InvalidInputError: if there is none.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"a time zone is a name, not {type(name).__name__}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInputError(
            f"{short(name, 40)} is no time zone: use a name such as 'UTC' or 'Europe/Berlin'"
        ) from error
