"""All that the package offers, found in its own lists, and good arguments for each of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, Final

import langmem_tiers
from langmem_tiers import (
    MemoryCoordinator,
    MemoryOrchestrator,
)
from langmem_tiers.consolidation import policy as tending
from langmem_tiers.core.settings import MemorySettings, PromotionSettings
from langmem_tiers.importers import count_records, detect_format, read_records
from langmem_tiers.interop import aimport_chat_history, aopen_tier, import_chat_history, open_tier
from langmem_tiers.learning.signature import Signature, signature
from langmem_tiers.recall.prompt_text import recalled_text, with_recalled
from langmem_tiers.recall.ranking import resolve_profile, time_weighted
from langmem_tiers.remember.private_data import detectors
from langmem_tiers.testing import TrigramEmbeddings, check_names, run_check
from langmem_tiers.turn.layout import Layout, Stage
from langmem_tiers.turn.persona import OperationalState
from tests.support import asked_back
from tests.support.good import NAMESPACES, World, needed, parameters_of

BESIDE: Final = (
    *(Layout, Stage, OperationalState, MemorySettings, PromotionSettings, Signature),
    *(tending.RisePolicy, tending.MergePolicy, tending.SupersedePolicy),
    *(signature, detectors, time_weighted, resolve_profile),
    *(recalled_text, with_recalled, TrigramEmbeddings, check_names, run_check),
    *(detect_format, read_records, count_records),
    *(open_tier, aopen_tier, import_chat_history, aimport_chat_history),
)
"""What the documentation imports beside `langmem_tiers.__all__`."""

ANSWERS: Final = (
    *("Recollection", "StoreResult", "Reminder", "ConsolidationReport", "HookState"),
    *("MemoryState", "TieredMemoryError", "Tier", "Fragment"),
)
"""What nobody makes but the package, or what has no arguments of ours."""
INNER: Final = {
    "MemoryCoordinator.admin.decisions": "what a node asks for",
    "MemoryCoordinator.admin.adecisions": "what a node asks for",
    "MemoryType.fields": "what storing asks of a type",
    "MemoryType.is_personal": "what storing asks of a type",
    "MemoryType.match": "what a recall asks of a type",
    "MemoryTypes.learned": "what a recall asks of the types",
    "MemoryContext.can_reach": "what a look-up asks of a context",
    "MemoryHooks.key": "what a hook names its memories by",
    "TieredMemoryRetriever.model_post_init": "pydantic's",
    "Reviewer.score_relevance": "what a recall asks of a reviewer",
    "Reviewer.score_storage": "what storing asks of a reviewer",
    "TrustPolicy.below": "what the gate asks of a policy",
    "TrustPolicy.of_source": "what the gate asks of a policy",
    "TrustPolicy.quarantines": "what the gate asks of a policy",
    "Budget.status": "what a turn asks of a budget",
    "FailedAttempt.to_memory": "what reflecting asks of an attempt",
    "FailedAttempt.key": "what reflecting asks of an attempt",
    "Reflexion.to_memory": "what storing asks of a lesson",
    "Persona.remember": "what a turn asks of a source",
    "OperationalState.remember": "what a turn asks of a source",
    **{f"Bounds.{name}": "what a store asks of its bounds" for name in dir(langmem_tiers.Bounds)},
    **{f"Layout.{name}": "what a turn asks of a layout" for name in ("section",)},
    **{
        f"{of}.{verb}": "LangChain calls it"
        for of in ("TieredMemoryMiddleware", "ToolClock", "ToolLessons", "ToolReminders")
        for verb in dir(getattr(langmem_tiers, of))
    },
    **{
        f"{of}.{verb}": "what raising asks of a trigger"
        for of in ("At", "BeforeTool", "If", "When")
        for verb in ("next_after", "is_met", "matches")
    },
    "LocalEmbeddings.alike": "what a recall asks of the model, a hundred times",
    "LocalEmbeddings.interchangeable": "what a recall asks of the model, many times",
    "ConsolidationWorker.run": "works until it is stopped",
    "ConsolidationWorker.arun": "works until it is stopped",
}
"""Public by name, called by the package or by a framework alone."""


WIDE: Final = " (of all)"
WHOSE: Final = (MemoryCoordinator, *NAMESPACES.values())
"""What acts for a context."""


@dataclass(frozen=True)
class Target:
    """Something to call: a function, a class, or a method of one."""

    name: str
    call: Callable[..., Any]
    kind: type | None
    parameters: Mapping[str, Parameter]
    steps: bool = False
    """Whether it is several calls, of which some may write before one is refused."""

    wide: bool = False
    """Whether it is asked of a whole tenant, and of no user, project or session."""

    @property
    def key(self) -> str:
        """What the tables know it by: an async twin has the arguments of its other."""
        of, _, verb = self.name.removesuffix(WIDE).rpartition(".")
        twin = self.kind is not None and verb.startswith("a") and hasattr(self.kind, verb[1:])
        return f"{of}.{verb[1:]}" if twin else self.name.removesuffix(WIDE)


def targets() -> list[Target]:
    """Everything that has an argument, in the order of the alphabet."""
    found: dict[str, Target] = {}
    offered = [(name, getattr(langmem_tiers, name)) for name in langmem_tiers.__all__]
    offered += [(one.__name__, one) for one in BESIDE]
    for name, one in offered:
        if name in ANSWERS or not callable(one):
            continue
        kind = one if inspect.isclass(one) else None
        for target in (Target(name, one, None, parameters_of(one)), *_methods(name, kind)):
            found[target.name] = target
    for name, one in NAMESPACES.items():
        found |= {target.name: target for target in _methods(name, one)}
    found = {
        name: one
        for name, one in found.items()
        if one.parameters and name.removesuffix(WIDE) not in INNER
    }
    for name, one in inspect.getmembers(asked_back, inspect.isfunction):
        if one.__module__ == asked_back.__name__ and not name.startswith("_"):
            said = {of: arg for of, arg in parameters_of(one).items() if of != "memory"}
            found[name] = Target(name, one, None, said, steps=True)
    return [found[name] for name in sorted(found)]


def _methods(name: str, kind: type | None) -> Iterator[Target]:
    for verb in dir(kind) if kind is not None else ():
        method = getattr(kind, verb)
        ours = any(verb in vars(base) and _is_ours(base) for base in kind.__mro__)  # type: ignore[union-attr]
        if verb.startswith("_") or not callable(method) or not ours:
            continue
        if not inspect.isclass(method):
            yield Target(f"{name}.{verb}", method, kind, parameters_of(method))
            if kind in WHOSE and not inspect.iscoroutinefunction(method):
                told = parameters_of(method)
                yield Target(f"{name}.{verb}{WIDE}", method, kind, told, wide=True)


def _is_ours(base: type) -> bool:
    return base.__module__.startswith(("langmem_tiers", "langgraph.store"))


def called(world: World, target: Target, changed: Mapping[str, Any]) -> Any:
    """Call it with good arguments, but for what is changed."""
    wanted = {**needed(target.call, target.key), **changed}
    args = {name: world.good(given) for name, given in wanted.items()}
    first: list[Any] = []
    for name, one in target.parameters.items():
        if one.kind is one.VAR_POSITIONAL and name in args:
            given = args.pop(name)
            first += given if isinstance(given, tuple) else [given]
        elif one.kind is one.POSITIONAL_ONLY and name in args:
            first.append(args.pop(name))
        elif one.kind is one.VAR_KEYWORD and name in args:
            given = args.pop(name)
            args |= given if isinstance(given, dict) and all(map(_text, given)) else {"odd": given}
    bound = target.call
    if target.kind is not None and not inspect.ismethod(bound):
        static = isinstance(
            inspect.getattr_static(target.kind, target.name.removesuffix(WIDE).rpartition(".")[2]),
            staticmethod,
        )
        if not static:
            bound = getattr(
                _owner(world, target), target.name.removesuffix(WIDE).rpartition(".")[2]
            )
    answer = bound(*first, **args)
    if inspect.iscoroutine(answer):
        return world.loop.run_until_complete(answer)
    return answer


def _owner(world: World, target: Target) -> Any:
    """Whose method it is."""
    kind: Any = target.kind
    if target.wide:
        return world.wide if kind is MemoryCoordinator else kind(world.wide)
    if kind is not MemoryOrchestrator:
        return world.of(kind)
    turn = MemoryOrchestrator(world.memory)
    return turn if target.key.endswith(".begin") else turn.begin()


def _text(name: object) -> bool:
    return type(name) is str
