"""When a memory says it is true, as it is read and checked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import read_recall_fields
from langmem_tiers.remember.new_memory import NewMemory, to_write

MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone
CONTEXT = MemoryContext(tenant="acme")


def write(**given: Any) -> Any:
    return to_write(
        NewMemory(content="x", tier=Tier.WORKING, **given),
        context=CONTEXT,
        types=MemoryTypes(),
        index=None,
        default_ttl=None,
    )


@given(
    MOMENTS, st.timedeltas(timedelta(microseconds=1), timedelta(days=9999)), st.integers(-12, 12)
)
def test_what_is_given_is_what_is_read_in_whatever_zone(
    began: datetime, lasts: timedelta, zone: int
) -> None:
    there = timezone(timedelta(hours=zone))
    one = write(valid_from=began.astimezone(there), valid_to=began + lasts)
    assert (one.recall_fields.valid_from, one.recall_fields.valid_to) == (began, began + lasts)
    assert read_recall_fields({"valid_to": began.isoformat()}).valid_to == began


@given(MOMENTS, st.timedeltas(timedelta(0), timedelta(days=9999)))
def test_an_end_that_is_not_after_the_beginning_is_refused_and_not_read(
    ended: datetime, before: timedelta
) -> None:
    began = ended + before
    with pytest.raises(InvalidInputError, match="valid_to"):
        write(valid_from=began, valid_to=ended)
    read = read_recall_fields({"valid_from": began.isoformat(), "valid_to": ended.isoformat()})
    assert (read.valid_from, read.valid_to) == (None, None)
