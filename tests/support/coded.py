"""Errors of ours by their codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from langmem_tiers.core import errors

BY_CODE: Final[Mapping[errors.ErrorCode, type[errors.TieredMemoryError]]] = {
    "archive": errors.FileError,
    "dimension_mismatch": errors.ConfigurationError,
    "embedded_server": errors.DatabaseError,
    "import_file": errors.FileError,
    "invalid_filter": errors.InvalidInputError,
    "lease_lost": errors.ConflictError,
    "migration": errors.DatabaseError,
    "model_failed": errors.EmbeddingError,
    "not_quarantined": errors.InvalidInputError,
    "not_set_up": errors.DatabaseError,
    "pool_exhausted": errors.DatabaseError,
    "query_timeout": errors.DatabaseError,
    "tenant_required": errors.InvalidInputError,
    "tier_conflict": errors.InvalidInputError,
    "too_large": errors.InvalidInputError,
}
"""The class of each."""


def coded(
    code: errors.ErrorCode, match: str | None = None
) -> pytest.RaisesExc[errors.TieredMemoryError]:
    """Expect the error of that code, of its very class."""
    kind = BY_CODE[code]
    return pytest.raises(
        kind, match=match, check=lambda error: (type(error), error.code) == (kind, code)
    )
