"""The settings of a coordinator, of promotion and of turns, by YAML file and environment.

    memory:
      coordinator:
        model: null
        embedding_model: null
        query_timeout_ms: 500
        max_context_items: 10
        recall_days: null
      promotion:
        min_access_count: 5
        min_success_rate: 0.8
        min_age_days: 7
        min_projects: 2
      orchestrator:
        default_filters: {}
        enable_tool_tracking: true
        untracked_tools: [write_todos, search_memory, manage_memory, manage_reminder]
        enable_skill_extraction: true
      bounds:
        value_bytes: 8388608
        value_depth: 600
        query_characters: 100000
        filter_conditions: 1000
        limit: 100000
        batch: 100000
        statement_timeout_ms: 60000

These are the defaults, and each may be left out; what each means stands here, and at `Bounds`.
The two models are made when they are asked for: nothing is sent to them unasked.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from langmem_tiers.core import checks
from langmem_tiers.core.checks import number_between, record, validated_by, whole_between
from langmem_tiers.core.config import Bounds
from langmem_tiers.core.errors import ConfigurationError, MissingExtraError, short
from langmem_tiers.core.options import RECALL_OPTIONS

if TYPE_CHECKING:  # a coordinator's settings are read by programs that load neither
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import BaseChatModel

RISE_IMPORTANCE: Final = 0.6
RISE_ACCESSES: Final = 3
"""The least importance, or number of accesses, that makes a short-term memory its project's."""

CONFIG_VARIABLE = "LANGMEM_TIERS_CONFIG"
"""The environment variable that names the YAML file."""

PREFIX = "LANGMEM_TIERS_MEMORY__"
"""The prefix of the environment's settings; other variables are ignored."""

_HOUR_S: Final = 3_600
_HOUR_MS: Final = 1000 * _HOUR_S
MOST_TIMES: Final = 1_000_000
MOST_DAYS: Final = 36_500


def _model_name(value: object, key: str) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise ConfigurationError(
        f"{key} names a model, such as 'provider:model', or is null, not {short(value)}"
    )


def _filters(value: object, key: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key} is a mapping of options, not {short(value)}")
    checks.check_known(value, RECALL_OPTIONS, key)
    return value


def _tool_names(value: object, key: str) -> tuple[str, ...]:
    if isinstance(value, Iterable) and not isinstance(value, str):
        names = tuple(value)
        if all(isinstance(name, str) for name in names):
            return names
    raise ConfigurationError(f"{key} is a list of names, not {short(value)}")


@record
class CoordinatorSettings:
    """The settings of recall: the specification's `memory.coordinator`.

    The specification names a model and an embedding model. Here both are None: a default that
    spends tokens would be a surprise, and would need a key. Without `model` every rule is
    deterministic; without `embedding_model` the store embeds with what its `index` names.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.
    """

    model: Annotated[str, validated_by(_model_name)] | None = None
    """The chat model, as `init_chat_model` takes it; None uses none."""
    embedding_model: Annotated[str, validated_by(_model_name)] | None = None
    """The embedding model, as `init_embeddings` takes it; None leaves it to the store."""
    query_timeout_ms: Annotated[int, whole_between(1, _HOUR_MS)] = 500
    """Milliseconds that a recall may take (specification: 500)."""
    max_context_items: Annotated[int, whole_between(1, 1000)] = 10
    """Memories that a recall returns at most (specification: 10)."""
    review_timeout_ms: Annotated[int, whole_between(1, _HOUR_MS)] = 5000
    """Milliseconds that models may take to review a storage (specification: 3 to 5 s)."""
    relevance_timeout_ms: Annotated[int, whole_between(1, _HOUR_MS)] = 2000
    """Milliseconds that models may take to review a recall (specification: 1 to 2 s)."""
    recall_days: Annotated[float, number_between(0, MOST_DAYS, but=(0,))] | None = None
    """Days for which each recall is kept as it was, for `admin.replay`; None keeps none."""


BOOKKEEPING = ("write_todos", "search_memory", "manage_memory", "manage_reminder")
"""Tools by which an agent keeps its list of tasks (LangChain's) and its memory (this package's):
their calls teach nothing, and what they answer is known already."""


@record
class OrchestratorSettings:
    """The settings of a turn: the specification's configuration of the memory orchestrator.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.
    """

    default_filters: Annotated[Mapping[str, Any], validated_by(_filters)] = field(
        default_factory=dict
    )
    """Options of `get_context` that hold for every recall of a turn: `agent_id`, `tags`, ….
    Filters of a call go over them."""
    enable_tool_tracking: Annotated[bool, validated_by(checks.checked_switch)] = True
    """True if tool calls are kept as memories."""
    untracked_tools: Annotated[Sequence[str], validated_by(_tool_names)] = BOOKKEEPING
    """Tools whose calls are not kept, by name."""
    enable_skill_extraction: Annotated[bool, validated_by(checks.checked_switch)] = True
    """True if a commit looks for skills in what the project's turns called."""
    source_seconds: Annotated[float, number_between(0, _HOUR_S, but=(0,))] | None = None
    """Seconds that a turn waits for a caller's own source; None waits until it answers."""


@record
class PromotionSettings:
    """The evidence that a memory needs to become long_term: the specification's `memory.promotion`.

    Access count, success rate and age must exceed their thresholds; the number of projects must
    reach its own.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.
    """

    min_access_count: Annotated[int, whole_between(0, MOST_TIMES)] = 5
    """Accesses to exceed (specification: more than 5)."""
    min_success_rate: Annotated[float, number_between(0, 1)] = 0.8
    """Share of the runs it was applied in to exceed (specification: more than 80 %)."""
    min_age_days: Annotated[float, number_between(0, MOST_DAYS)] = 7
    """Days to exceed (specification: older than 7)."""
    min_projects: Annotated[int, whole_between(1, MOST_TIMES)] = 2
    """Projects it was used in (specification: 2 or more, in its table of criteria alone)."""


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
        env = os.environ if env is None else checks.checked_mapping(env, "env", "os.environ")
        file = path if path is not None else env.get(CONFIG_VARIABLE) or None
        settings = cls()
        if file is not None:
            named = checks.checked_path(file, "path")
            settings = _apply_source(settings, _document(named), f"in {str(named)[:_SHOWN]}")
        return _apply_source(settings, _variables(env), f"in the environment, {PREFIX}…")

    def chat_model(self) -> BaseChatModel | None:
        """Make the chat model that `memory.coordinator.model` names.

        Raises:
            ConfigurationError: if LangChain does not know it, or lacks its provider's package.
            MissingExtraError: without the `langchain` extra.
        """
        name = self.coordinator.model
        chat: BaseChatModel | None = _make_model(
            "langchain.chat_models", "init_chat_model", "model", name
        )
        return chat

    def embeddings(self) -> Embeddings | None:
        """Make the embeddings that `memory.coordinator.embedding_model` names, for an `index`.

        Raises:
            ConfigurationError: if its provider is not named, as in `openai:text-embedding-3-small`,
                or its package lacks.
            MissingExtraError: without the `langchain` extra.
        """
        name = self.coordinator.embedding_model
        model: Embeddings | None = _make_model(
            "langchain.embeddings", "init_embeddings", "embedding_model", name
        )
        return model


def _make_model(module: str, function: str, key: str, name: str | None) -> Any:
    """Make a model by a function of LangChain; None without a name."""
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


_SHOWN: Final = 200
"""Characters of a path in a message."""


def _document(file: Path) -> object:
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.safe_load(file.expanduser().read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{str(file)[:_SHOWN]} is not YAML: {error}") from error
    except (OSError, RuntimeError) as error:  # the latter where ~somebody is nobody
        raise ConfigurationError(
            f"{str(file)[:_SHOWN]} cannot be read ({getattr(error, 'strerror', error)}): name a "
            f"YAML file, by path or by {CONFIG_VARIABLE}, or leave both out"
        ) from error


def _variables(env: Mapping[str, str]) -> dict[str, Any]:
    """Turn the environment's settings into the document of a file."""
    named: Mapping[Any, Any] = env
    ours = {
        name: text
        for name, text in named.items()
        if isinstance(name, str) and isinstance(text, str) and text
    }
    variables = {name.lower(): text for name, text in ours.items() if name.startswith(PREFIX)}
    document: dict[str, Any] = {}
    for name, text in sorted(variables.items()):
        if any(other.startswith(f"{name}__") for other in variables):
            raise ConfigurationError(
                f"{name.upper()} is given as a whole and in parts: give it in one way, else one "
                "of the two would be lost"
            )
        *parents, key = name.removeprefix("langmem_tiers_").split("__")
        section = document
        for parent in parents:
            section = section.setdefault(parent, {})
        section[key] = _parse_text(text)
    return document


def _parse_text(text: str) -> Any:
    """Parse a text as JSON, such as 500, 0.8 or null; any other text stays."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _apply_source(settings: MemorySettings, document: object, origin: str) -> MemorySettings:
    """Apply the document of one source to the settings."""
    try:
        sections = _checked_part(document, "the document", ["memory"]).get("memory")
        changed = {
            name: _section(getattr(settings, name), values, f"memory.{name}")
            for name, values in _checked_part(sections, "memory", _field_names(settings)).items()
        }
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} ({origin})") from error
    return dataclasses.replace(settings, **changed)


def _section(section: Any, source: object, where: str) -> Any:
    values = _checked_part(source, where, _field_names(section))
    try:
        return dataclasses.replace(section, **values)
    except ConfigurationError as error:  # it begins with the key
        raise ConfigurationError(f"{where}.{error}") from error


def _field_names(settings: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(settings)]


def _checked_part(values: object, where: str, names: Sequence[str]) -> Mapping[str, Any]:
    """Check a section: a mapping of known keys; None is an empty one."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ConfigurationError(
            f"{where} holds {', '.join(names)}, each with a value: {short(values)}"
        )
    checks.check_known(values, names, where)
    return values
