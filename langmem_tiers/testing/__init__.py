"""What authors and users of LangGraph stores need in their tests.

`BaseStoreConformance` is a pytest class: subclass it, say how to open an empty store, and
every rule of the `BaseStore` contract is checked through `batch` and through `abatch`.
`run_check` runs one rule without pytest.
"""

from langmem_tiers.testing.check import OpenedStore, StoreFactory
from langmem_tiers.testing.driver import Mode, StoreDriver
from langmem_tiers.testing.embeddings import TrigramEmbeddings
from langmem_tiers.testing.run import CheckResult, check_names, run_check
from langmem_tiers.testing.suite import BaseStoreConformance
from langmem_tiers.testing.table import conformance_table

__all__ = [
    "BaseStoreConformance",
    "CheckResult",
    "Mode",
    "OpenedStore",
    "StoreDriver",
    "StoreFactory",
    "TrigramEmbeddings",
    "check_names",
    "conformance_table",
    "run_check",
]
