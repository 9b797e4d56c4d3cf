"""The kit as a pytest class, for the authors of any LangGraph store."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from langmem_tiers.testing.check import Check, StoreFactory
from langmem_tiers.testing.driver import Mode
from langmem_tiers.testing.run import CHECKS, claims, run_or_raise

if TYPE_CHECKING:
    import pytest

_Test = Callable[["BaseStoreConformance", StoreFactory, Mode], None]


class BaseStoreConformance:
    """Every rule of the `BaseStore` contract, as a test through `batch` and through `abatch`.

    Subclass it and give a fixture `make_store`: a function of `index` and `ttl` that returns a
    context manager, sync or async, which yields a fresh and empty store. Say in the class
    attributes what the store claims; tests of the rest are not collected. To leave one rule
    out, write `test_name_of_the_rule = None` in the subclass, and why.

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
        for each in CHECKS.values():
            test_name = f"test_{each.name}"
            if test_name not in vars(cls) and not cls._claims(each):
                setattr(cls, test_name, None)

    def pytest_generate_tests(self, metafunc: "pytest.Metafunc") -> None:
        """Run each test in each of the class's modes."""
        if "mode" in metafunc.fixturenames:
            metafunc.parametrize("mode", self.modes)

    @classmethod
    def _claims(cls, each: Check) -> bool:
        return claims(
            each, index=cls.supports_index, ttl=cls.supports_ttl, distance_types=cls.distance_types
        )


def _as_test(each: Check) -> _Test:
    def test(self: BaseStoreConformance, make_store: StoreFactory, mode: Mode) -> None:  # noqa: ARG001
        run_or_raise(each, make_store, mode)

    test.__name__ = f"test_{each.name}"
    test.__qualname__ = f"BaseStoreConformance.{test.__name__}"
    test.__doc__ = each.body.__doc__
    return test


for _check in CHECKS.values():
    setattr(BaseStoreConformance, f"test_{_check.name}", _as_test(_check))
