"""The tree of errors and their codes."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from langmem_tiers.core import errors
from langmem_tiers.postgres.flow import Flow, Query, retry_on_conflict
from tests.support.coded import BY_CODE

ROOT = Path(__file__).parents[2]
CLASSES = [
    one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, errors.TieredMemoryError)
]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_is_the_same_in_another_process(kind: type[errors.TieredMemoryError]) -> None:
    code = next((code for code, one in BY_CODE.items() if one is kind), None)
    error = kind("give less", code=code)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(again), str(again), again.code) == (kind, "give less", code)


def test_what_a_model_said_and_a_long_message_stay_in_another_process() -> None:
    failed = errors.EmbeddingError.from_model("no key")
    again = pickle.loads(pickle.dumps(failed))
    assert (again.model_message, again.code, str(again)) == ("no key", "model_failed", str(failed))
    assert str(failed).startswith("the embedding model failed (no key) and nothing was written: ")
    long = errors.InvalidInputError("x" * 9_000, code="too_large")
    assert str(pickle.loads(pickle.dumps(long))) == str(long)
    assert len(str(long)) < 2_000


def test_each_code_belongs_to_one_class_and_is_told_in_the_module_and_on_the_page() -> None:
    codes = get_args(errors.ErrorCode)
    assert set(codes) == set(BY_CODE)
    page = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
    for code in codes:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
        assert f" {code} " in (errors.__doc__ or "")
        assert f"| `{code}` | `{BY_CODE[code].__name__}` |" in page


def test_each_error_is_raised_with_a_code_of_its_class() -> None:
    raised: set[tuple[str, str]] = set()
    for path in (ROOT / "langmem_tiers").rglob("*.py"):
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, ast.Call):
                made = ast.unparse(one.func).rpartition(".")[2]
                codes = [each.value for each in one.keywords if each.arg == "code"]
                raised |= {
                    (str(each.value), made) for each in codes if isinstance(each, ast.Constant)
                }
    known = {(code, kind.__name__) for code, kind in BY_CODE.items()}
    by_itself = {("model_failed", "EmbeddingError")}
    assert raised == (known - by_itself) | {("model_failed", "cls")}


def test_the_kind_of_an_error_is_its_class_and_its_code() -> None:
    late = errors.DatabaseError("too late", code="query_timeout")
    assert errors.error_kind(late) == "DatabaseError (query_timeout)"
    assert errors.error_kind(errors.ConflictError("changed")) == "ConflictError"
    assert errors.error_kind(KeyError("x")) == "KeyError"
    assert errors.has_code(late, "pool_exhausted", "query_timeout")
    assert not errors.has_code(errors.ConflictError("changed"), "lease_lost")
    foreign: Any = ValueError("x")
    foreign.code = "query_timeout"
    assert not errors.has_code(foreign, "query_timeout")


@pytest.mark.parametrize(("code", "tries"), [(None, 10), ("lease_lost", 1)])
def test_a_flow_begins_anew_after_a_conflict_but_not_where_its_lease_is_lost(
    code: errors.ErrorCode | None, tries: int
) -> None:
    begun: list[int] = []

    def lost() -> Flow[None]:
        begun.append(len(begun))
        yield Query(())
        raise errors.ConflictError("somebody else", code=code)

    with pytest.raises(errors.ConflictError) as raised:
        list(retry_on_conflict(lost))
    assert (len(begun), raised.value.code) == (tries, code)
