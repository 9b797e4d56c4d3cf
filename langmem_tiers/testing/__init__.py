"""A conformance kit for authors and users of LangGraph stores.

`BaseStoreConformance` is a pytest class: subclass it, say how to open an empty store, and
every rule of the `BaseStore` contract is checked through `batch` and through `abatch`.
`run_check` runs one rule without pytest.
"""

from langmem_tiers.testing.kit import (
    Mode,
    OpenedStore,
    StoreDriver,
    StoreFactory,
    TrigramEmbeddings,
)
from langmem_tiers.testing.run import (
    BaseStoreConformance,
    CheckResult,
    check_names,
    run_check,
)

__all__ = [
    "BaseStoreConformance",
    "CheckResult",
    "Mode",
    "OpenedStore",
    "StoreDriver",
    "StoreFactory",
    "TrigramEmbeddings",
    "check_names",
    "run_check",
]
