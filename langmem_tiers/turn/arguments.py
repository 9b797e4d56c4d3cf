"""What a turn is given, checked before it begins: its limits, its layout and its filters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from langmem_tiers.core.config import OrchestratorSettings
from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError, short
from langmem_tiers.core.memory import RECALL_OPTIONS
from langmem_tiers.turn.layout import Layout
from langmem_tiers.turn.spending import Budget


def checked_turn(
    *,
    budget: object = None,
    layout: object = None,
    settings: object = None,
    filters: object = None,
    sources: object = None,
) -> None:
    """Refuse what no turn can go by; None stands for what is not given.

    Raises:
        InvalidTypeError: for a limit, a layout, settings or sources of another type, or a filter
            that no recall takes.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidTypeError(
            f"budget is a Budget, such as Budget(tokens=500), not {short(budget)}"
        )
    if layout is not None and not isinstance(layout, Layout):
        raise InvalidTypeError(
            f"layout is ORCHESTRATOR, PERSONA or a Layout(name=…, stages=…), not {short(layout)}"
        )
    if settings is not None and not isinstance(settings, OrchestratorSettings):
        raise InvalidTypeError(
            f"settings are OrchestratorSettings(default_filters=…), not {short(settings)}"
        )
    if filters is not None:
        checked_filters(filters)
    if sources is not None and not isinstance(sources, Mapping):
        raise InvalidTypeError(f"sources is a mapping of sources by name, not {short(sources)}")


def checked_function(given: object, what: str) -> None:
    """Refuse what is neither a function nor None."""
    if given is not None and not callable(given):
        raise InvalidTypeError(f"{what} is a function or None, not {short(given)}")


def checked_list(given: Sequence[Any] | None, what: str) -> Sequence[Any] | None:
    """Several things, or None; a text or a mapping is one."""
    one = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    if given is not None and one:
        raise InvalidTypeError(f"{what} is a list or None, not {short(given)}")
    return given


def checked_filters(filters: object, what: str = "filters") -> dict[str, Any]:
    """Filters of a turn: options of `get_context`, by name.

    Raises:
        InvalidTypeError: for no mapping, or a name that no recall takes.
    """
    if not isinstance(filters, Mapping):
        raise InvalidTypeError(
            f"{what} is a mapping of options of get_context, not {short(filters)}"
        )
    _check_names(filters, RECALL_OPTIONS, what)
    return dict(filters)


def checked_stages(layout: Layout, sources: Mapping[str, Any]) -> None:
    """Refuse a layout whose stages ask what is not there, or tell it what it does not know.

    Raises:
        ConfigurationError: for a stage without a source.
        InvalidTypeError: for an option that its source does not take.
    """
    for stage in layout.stages:
        if stage.source not in sources:
            raise ConfigurationError(
                f"the layout {layout.name!r} has a stage {stage.source!r} and nothing that "
                f"answers it: give sources={{{stage.source!r}: …}}"
            )
        known = getattr(sources[stage.source], "known_options", None)
        if known is not None:
            _check_names(stage.options, known, f"the options of the stage {stage.source!r}")


def checked_parameters(name: str, verb: Callable[..., Any]) -> None:
    """Refuse a source's verb that cannot be told the prompt and the metadata.

    Raises:
        InvalidTypeError: for one of other parameters.
    """
    try:
        signature = inspect.signature(verb)
    except (TypeError, ValueError):  # of what is not written in Python, nothing is known
        return
    try:
        signature.bind("", {})
    except TypeError as error:
        raise InvalidTypeError(
            f"the source {name!r} takes (prompt, metadata), not {signature}"
        ) from error


def _check_names(given: Mapping[Any, Any], known: Collection[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidTypeError(f"{what}: there is no {name!r}: use one of {', '.join(known)}")
