"""The signs by which a text shows that it wants to instruct whoever reads it, with weights.

A sign counts differently by who speaks: a user's orders are what memory is for, so only what no
user writes by hand counts there; the words of a tool or a page are data, so orders to an assistant
count. The weights were set on the tuned half of `benchmarks.gate_corpus`.
"""

from __future__ import annotations

from typing import Final

from langmem_tiers.remember.injection_address import ADDRESS
from langmem_tiers.remember.injection_claims import CLAIMED
from langmem_tiers.remember.injection_orders import ORDERED

SIGNS: Final = (*ADDRESS, *ORDERED, *CLAIMED)
