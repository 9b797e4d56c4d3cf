"""What a report of consolidation says where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from langmem_tiers import ConsolidationReport, InvalidInputError


@pytest.mark.parametrize("state", [None, {}, {"messages": []}, {"consolidated": None}], ids=repr)
def test_a_state_in_which_no_cycle_has_ended_has_no_report(state: dict[str, Any] | None) -> None:
    with pytest.raises(InvalidInputError, match="no cycle has ended"):
        ConsolidationReport.of(state)
