"""Settings from a YAML file and the environment, read strictly.

    memory:
      coordinator:
        model: null
        embedding_model: null
        query_timeout_ms: 500
        max_context_items: 10
      promotion:
        min_access_count: 5
        min_success_rate: 0.8
        min_age_days: 7
        min_projects: 2
      orchestrator:
        default_filters: {}
        enable_tool_tracking: true
        untracked_tools: [write_todos, search_memory, manage_memory, complete_reminder]
        enable_skill_extraction: true
      bounds:
        value_bytes: 8388608
        value_depth: 600
        query_characters: 100000
        filter_conditions: 1000
        limit: 100000
        batch: 100000
        statement_timeout_ms: 60000

These are the defaults, and each may be left out. `options.py` and `bounds.py` say what each means.
The two models are made when they are asked for: nothing is sent to them unasked.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.bounds import Bounds
from langmem_tiers.core.errors import ConfigurationError, MissingExtraError
from langmem_tiers.core.options import CoordinatorSettings, OrchestratorSettings, PromotionSettings

CONFIG_VARIABLE = "LANGMEM_TIERS_CONFIG"
"""The environment variable that names the YAML file."""

PREFIX = "LANGMEM_TIERS_MEMORY__"
"""How the environment's settings begin; no other variable is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The settings of a coordinator, of promotion and of turns, and the bounds of a store.

    Example:
        ```python
        from langmem_tiers.core.settings import MemorySettings

        env = {"LANGMEM_TIERS_MEMORY__COORDINATOR__MAX_CONTEXT_ITEMS": "20"}
        settings = MemorySettings.load(env=env)
        assert settings.coordinator.max_context_items == 20
        ```
    """

    coordinator: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    promotion: PromotionSettings = field(default_factory=PromotionSettings)
    orchestrator: OrchestratorSettings = field(default_factory=OrchestratorSettings)
    bounds: Bounds = field(default_factory=Bounds)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str] | None = None, env: Mapping[str, str] | None = None
    ) -> MemorySettings:
        """Read a YAML file, and over it the environment.

        The file is `path`, else what LANGMEM_TIERS_CONFIG names, else none. A variable is named
        like `LANGMEM_TIERS_MEMORY__COORDINATOR__QUERY_TIMEOUT_MS`; its value is JSON, or else
        text, and an empty one counts as not set. `env` stands for the process's environment.

        Raises:
            ConfigurationError: for a file that cannot be read, a key that is not known, or a
                value that cannot work. Each source must be sound by itself.
        """
        env = os.environ if env is None else env
        file = path if path is not None else env.get(CONFIG_VARIABLE) or None
        settings = cls()
        if file is not None:
            settings = _over(settings, _document(Path(file)), f"in {os.fspath(file)}")
        return _over(settings, _variables(env), f"in the environment, {PREFIX}…")

    def chat_model(self) -> BaseChatModel | None:
        """The chat model that `memory.coordinator.model` names, for `model=` of what takes one.

        Raises:
            ConfigurationError: if LangChain does not know it, or lacks its provider's package.
            MissingExtraError: without the `langchain` extra.
        """
        name = self.coordinator.model
        chat: BaseChatModel | None = _made(
            "langchain.chat_models", "init_chat_model", "model", name
        )
        return chat

    def embeddings(self) -> Embeddings | None:
        """The embeddings that `memory.coordinator.embedding_model` names, for a store's `index`.

        Raises:
            ConfigurationError: if its provider is not named, as in `openai:text-embedding-3-small`,
                or its package lacks.
            MissingExtraError: without the `langchain` extra.
        """
        name = self.coordinator.embedding_model
        found: Embeddings | None = _made(
            "langchain.embeddings", "init_embeddings", "embedding_model", name
        )
        return found


def _made(module: str, function: str, key: str, name: str | None) -> Any:
    """What a function of LangChain makes of a model's name; None of none."""
    if name is None:
        return None
    try:
        make = getattr(import_module(module), function)
    except ImportError as error:
        raise MissingExtraError(
            "models of the settings need LangChain: pip install 'langmem-tiers[langchain]'"
        ) from error
    try:
        return make(name)
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"memory.coordinator.{key} {name!r} names no model that is ready to use: {error}"
        ) from error


_ROOT = {"memory": MemorySettings}
_SECTIONS = {
    "coordinator": CoordinatorSettings,
    "promotion": PromotionSettings,
    "orchestrator": OrchestratorSettings,
    "bounds": Bounds,
}


def _document(file: Path) -> object:
    try:
        return yaml.safe_load(file.expanduser().read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} is not YAML: {error}") from error
    except (OSError, RuntimeError) as error:  # the latter where ~somebody is nobody
        raise ConfigurationError(
            f"{file} cannot be read ({getattr(error, 'strerror', error)}): name a YAML file, by "
            f"path or by {CONFIG_VARIABLE}, or leave both out"
        ) from error


def _variables(env: Mapping[str, str]) -> dict[str, Any]:
    """What the environment sets, as a file would say it."""
    given = {name.lower(): text for name, text in env.items() if name.startswith(PREFIX) and text}
    document: dict[str, Any] = {}
    for name, text in sorted(given.items()):
        if any(one.startswith(f"{name}__") for one in given):
            raise ConfigurationError(
                f"{name.upper()} is given as a whole and in parts: give it in one way, else one "
                "of the two would be lost"
            )
        *parents, key = name.removeprefix("langmem_tiers_").split("__")
        section = document
        for parent in parents:
            section = section.setdefault(parent, {})
        section[key] = _parsed(text)
    return document


def _parsed(text: str) -> Any:
    """A text as JSON where it is any, such as 500, 0.8 or null; else as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _over(settings: MemorySettings, document: object, origin: str) -> MemorySettings:
    """The settings with what one source says put over them."""
    try:
        root = _part(document, (), _ROOT)
        sections = _part(root.get("memory"), ("memory",), _SECTIONS)
        for name, given in sections.items():
            section = _replaced(getattr(settings, name), given, ("memory", name))
            settings = dataclasses.replace(settings, **{name: section})
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} ({origin})") from error
    return settings


def _replaced(section: Any, given: object, path: tuple[str, ...]) -> Any:
    known = {one.name: one for one in dataclasses.fields(section)}
    values = _part(given, path, known)
    try:
        return dataclasses.replace(section, **values)
    except ConfigurationError as error:  # it begins with the key
        raise ConfigurationError(".".join((*path, str(error)))) from error


def _part(given: object, path: tuple[str, ...], known: Mapping[str, object]) -> Mapping[str, Any]:
    """What stands under a path of keys, if it is a mapping of known keys, or nothing."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        where = ".".join(path) or "the document"
        raise ConfigurationError(f"{where} holds {', '.join(known)}, each with a value: {given!r}")
    for key in given:
        if key not in known:
            raise ConfigurationError(_unknown((*path, str(key)), known))
    return given


def _unknown(path: tuple[str, ...], known: Mapping[str, object]) -> str:
    *parents, key = path
    near = [".".join((*parents, one)) for one in difflib.get_close_matches(key, known, n=1)]
    elsewhere = difflib.get_close_matches(key, _PATHS, n=1)
    nearest = next(iter([*near, *(_PATHS[one] for one in elsewhere)]), None)
    hint = f"did you mean {nearest}?" if nearest else f"known here: {', '.join(known)}"
    return f"{'.'.join(path)} is not a setting; {hint}"


_PATHS = {
    "memory": "memory",
    **{name: f"memory.{name}" for name in _SECTIONS},
    **{
        one.name: f"memory.{name}.{one.name}"
        for name, section in _SECTIONS.items()
        for one in dataclasses.fields(section)
    },
}
"""Every known key and where it stands."""
