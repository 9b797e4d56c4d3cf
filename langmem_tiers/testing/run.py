"""Functions that run the rules one by one, and the pytest class that runs all."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from langgraph.store.base import BaseStore, TTLConfig

from langmem_tiers.core.checks import (
    checked_choice,
    checked_flag,
    checked_function,
    checked_strings,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.testing.changes import Concurrency, Recency, Ttl
from langmem_tiers.testing.finding import Filters, Listing
from langmem_tiers.testing.items import Basics, Batches, Labels, Search, Values
from langmem_tiers.testing.kit import Mode, OpenedStore, StoreCheck, StoreFactory
from langmem_tiers.testing.vectors import Index, Scoring

if TYPE_CHECKING:
    import pytest

_AREAS = (
    *(Basics, Values, Labels, Batches, Search, Filters),
    *(Listing, Scoring, Index, Recency, Ttl, Concurrency),
)
CHECKS = {check.name: check for area in _AREAS for check in area.checks()}
"""The check of every rule by its name, in the order in which the rules are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The verdict on one rule in one mode: passed, or failed with a message."""

    name: str
    mode: Mode
    passed: bool
    message: str


def check_names(
    *,
    index: bool = True,
    ttl: bool = True,
    distance_types: Collection[str] = ("cosine",),
) -> tuple[str, ...]:
    """Return the names of the checks that apply to a store with these capabilities."""
    claimed: Any = {
        "index": checked_flag(index, "index"),
        "ttl": checked_flag(ttl, "ttl"),
        "distance_types": checked_strings(distance_types, "distance_types"),
    }
    return tuple(check.name for check in CHECKS.values() if claims(check, **claimed))


def run_check(name: str, make_store: StoreFactory, mode: Mode = "batch") -> CheckResult:
    """Run one check on a fresh store and return the verdict.

    An error while the store opens or closes is raised, not a verdict. The function starts an event
    loop, so it cannot be called inside one.

    >>> from contextlib import nullcontext
    >>> from langgraph.store.memory import InMemoryStore
    >>> def make_store(*, index, ttl):
    ...     return nullcontext(InMemoryStore(index=index))
    >>> run_check("search_limit_zero_is_an_empty_page", make_store).passed
    True
    """
    named: object = name
    if not isinstance(named, str) or named not in CHECKS:
        raise InvalidInputError(f"there is no check {short(name)}: check_names() lists them")
    checked_function(make_store, "make_store")
    checked_choice(mode, get_args(Mode), "mode")
    error = asyncio.run(_find_error(CHECKS[name], make_store, mode))
    message = "" if error is None else f"{type(error).__name__}: {error}"
    return CheckResult(name=name, mode=mode, passed=error is None, message=message)


def claims(check: StoreCheck, *, index: bool, ttl: bool, distance_types: Collection[str]) -> bool:
    """Return True if a store with these capabilities claims what the check needs."""
    if check.ttl is not None and not ttl:
        return False
    return check.index is None or (index and check.index.distance_type in distance_types)


async def _find_error(
    check: StoreCheck, make_store: StoreFactory, mode: Mode
) -> BaseException | None:
    index_config = None if check.index is None else check.index.config()
    ttl_config = None if check.ttl is None else TTLConfig(**check.ttl)
    async with _enter(make_store(index=index_config, ttl=ttl_config)) as store:
        return (await asyncio.gather(check.run(store, mode), return_exceptions=True))[0]


@asynccontextmanager
async def _enter(opened: OpenedStore) -> AsyncIterator[BaseStore]:
    async with AsyncExitStack() as stack:
        if isinstance(opened, AbstractAsyncContextManager):
            yield await stack.enter_async_context(opened)
        elif isinstance(opened, AbstractContextManager):
            yield stack.enter_context(opened)
        else:
            raise InvalidTypeError(f"make_store returns a context manager, not {short(opened)}")


_Test = Callable[["BaseStoreConformance", StoreFactory, Mode], None]


class BaseStoreConformance:
    """Every rule of the `BaseStore` contract, as a test through `batch` and through `abatch`.

    Subclass it and give a fixture `make_store`: a function of `index` and `ttl` that returns a
    context manager, sync or async, which yields a fresh and empty store. Class attributes name the
    capabilities that the store claims; tests of others are not collected. To leave one rule out,
    write `test_name_of_the_rule = None` in the subclass, with the reason.

        class TestInMemoryStore(BaseStoreConformance):
            supports_ttl = False

            @pytest.fixture
            def make_store(self):
                return lambda *, index, ttl: nullcontext(InMemoryStore(index=index))
    """

    supports_index: ClassVar[bool] = True
    supports_ttl: ClassVar[bool] = True
    distance_types: ClassVar[frozenset[str]] = frozenset({"cosine"})
    modes: ClassVar[tuple[Mode, ...]] = ("batch", "abatch")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for check in CHECKS.values():
            test_name = f"test_{check.name}"
            if test_name not in vars(cls) and not cls._claims(check):
                setattr(cls, test_name, None)

    def pytest_generate_tests(self, metafunc: "pytest.Metafunc") -> None:
        """Run each test in each of the class's modes."""
        if "mode" in metafunc.fixturenames:
            metafunc.parametrize("mode", self.modes)

    @classmethod
    def _claims(cls, check: StoreCheck) -> bool:
        return claims(
            check, index=cls.supports_index, ttl=cls.supports_ttl, distance_types=cls.distance_types
        )


def _make_test(check: StoreCheck) -> _Test:
    def test(self: BaseStoreConformance, make_store: StoreFactory, mode: Mode) -> None:  # noqa: ARG001
        __tracebackhide__ = True
        if (error := asyncio.run(_find_error(check, make_store, mode))) is not None:
            raise error

    test.__name__ = f"test_{check.name}"
    test.__qualname__ = f"BaseStoreConformance.{test.__name__}"
    test.__doc__ = f"{check.claim}."
    return test


for _check in CHECKS.values():
    setattr(BaseStoreConformance, f"test_{_check.name}", _make_test(_check))
