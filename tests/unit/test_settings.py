"""Settings: the specification's YAML, the environment over it, and no mistake unseen."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from langmem_tiers.core.config import Bounds
from langmem_tiers.core.errors import ConfigurationError, MissingExtraError
from langmem_tiers.core.settings import (
    CoordinatorSettings,
    MemorySettings,
    OrchestratorSettings,
    PromotionSettings,
)

SPECIFIED = """
memory:
  coordinator:
    model: claude-3-haiku-20240307
    embedding_model: text-embedding-3-small
    query_timeout_ms: 500
    max_context_items: 10

  promotion:
    min_access_count: 5
    min_success_rate: 0.8
    min_age_days: 7
"""
TIMEOUT = "LANGMEM_TIERS_MEMORY__COORDINATOR__QUERY_TIMEOUT_MS"


def load(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> MemorySettings:
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return MemorySettings.load(file, env or {})


def test_the_specifications_yaml_is_read_as_it_stands(tmp_path: Path) -> None:
    settings = load(tmp_path, SPECIFIED)

    assert settings.coordinator == CoordinatorSettings(
        model="claude-3-haiku-20240307", embedding_model="text-embedding-3-small"
    )
    assert settings.promotion == PromotionSettings()


def test_everything_may_be_left_out_and_other_variables_are_not_looked_at(tmp_path: Path) -> None:
    for text in ("", "---\n", "memory:\n", "memory: {coordinator: , promotion: {}}\n"):
        assert load(tmp_path, text) == MemorySettings() == MemorySettings.load(env={TIMEOUT: ""})
    for name in ("LANGMEM_TIERS_URL", "LANGMEM_TIERS_MEMORY", "MEMORY__COORDINATOR__MODEL"):
        assert MemorySettings.load(env={name: "9"}) == MemorySettings()
    assert MemorySettings().chat_model() is None
    assert MemorySettings().embeddings() is None


def test_the_environment_overrides_the_file_key_by_key(tmp_path: Path) -> None:
    env = {
        TIMEOUT: "250",
        "LANGMEM_TIERS_MEMORY__PROMOTION__MIN_SUCCESS_RATE": "0.95",
        "LANGMEM_TIERS_MEMORY__COORDINATOR__MODEL": "null",
        "LANGMEM_TIERS_MEMORY__COORDINATOR__EMBEDDING_MODEL": "openai:text-embedding-3-large",
    }
    settings = load(tmp_path, SPECIFIED.replace("items: 10", "items: 7"), env)

    assert settings.coordinator == CoordinatorSettings(
        embedding_model="openai:text-embedding-3-large", query_timeout_ms=250, max_context_items=7
    )
    assert settings.promotion == PromotionSettings(min_success_rate=0.95)
    whole = {"LANGMEM_TIERS_MEMORY__PROMOTION": '{"min_projects": 3, "min_age_days": 0.5}'}
    asked = PromotionSettings(min_projects=3, min_age_days=0.5)
    assert MemorySettings.load(env=whole).promotion == asked


def test_the_file_may_be_named_by_a_variable_and_an_argument_goes_first(tmp_path: Path) -> None:
    named, given = tmp_path / "named.yaml", tmp_path / "given.yaml"
    for items, file in enumerate((named, given), start=3):
        file.write_text(f"memory: {{coordinator: {{max_context_items: {items}}}}}", "utf-8")
    env = {"LANGMEM_TIERS_CONFIG": str(named)}

    assert MemorySettings.load(env=env).coordinator.max_context_items == 3
    for first in (given, str(given)):
        assert MemorySettings.load(first, env).coordinator.max_context_items == 4
    assert MemorySettings.load(env={"LANGMEM_TIERS_CONFIG": ""}) == MemorySettings()


def test_an_unknown_key_names_its_place_the_nearest_known_one_and_the_file(tmp_path: Path) -> None:
    for text, said in (
        ("memory: {promotions: {}}", "memory has no option 'promotions'; did you mean 'promotion'"),
        ("coordinator: {}", "the document has no option 'coordinator'; known: memory"),
        ("memory: {coordinator: {zzz: 5}}", "memory.coordinator has no option 'zzz'; known: model"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            load(tmp_path, text)
        assert str(caught.value).startswith(said)
        assert str(tmp_path / "settings.yaml") in str(caught.value)


def test_an_unknown_or_wrong_variable_is_refused_likewise() -> None:
    section = "LANGMEM_TIERS_MEMORY__COORDINATOR"
    for env, said in (
        ({f"{section}__QUERY_TIMOUT_MS": "x"}, r"memory\.coordinator has no .*'query_timout_ms'"),
        ({"LANGMEM_TIERS_MEMORY__MODEL": "x"}, "memory has no option 'model'; known: coordinator"),
        ({section: "x"}, r"memory\.coordinator holds model, .* environment"),
        ({f"{section}__MODEL__NAME": "x"}, r"memory\.coordinator\.model names a model"),
        ({section: "{}", f"{section}__MODEL": "y"}, f"{section} is given as a whole and in parts"),
        *(
            ({TIMEOUT: value}, r"query_timeout_ms is a whole .* environment")
            for value in ("fast", "0", "0.5", "true", "9" * 5000)
        ),
    ):
        with pytest.raises(ConfigurationError, match=said):
            MemorySettings.load(env=env)


WRONG: list[tuple[type, str, Any, str]] = [
    (CoordinatorSettings, "model", 5, "names a model"),
    (CoordinatorSettings, "query_timeout_ms", True, "a whole number from 1 to 3,600,000"),
    (CoordinatorSettings, "max_context_items", 1001, "a whole number from 1 to 1,000"),
    (PromotionSettings, "min_access_count", -1, "a whole number from 0 to"),
    (PromotionSettings, "min_success_rate", math.nan, "a number from 0 to 1"),
    (PromotionSettings, "min_age_days", "7 days", "a number from 0 to 36,500"),
]


def test_a_wrong_value_is_named_with_its_key_and_what_is_allowed() -> None:
    for kind, key, value, allowed in WRONG:
        said = f"^{key} .*{allowed}.*not {re.escape(repr(value))}$"
        with pytest.raises(ConfigurationError, match=said):
            kind(**{key: value})
    names: Any
    for names in ("write_todos", 5, [5]):
        with pytest.raises(ConfigurationError, match=r"^untracked_tools is a list of names, not"):
            OrchestratorSettings(untracked_tools=names)


def test_what_is_no_settings_file_is_refused(tmp_path: Path) -> None:
    for text, said in (
        ("[memory]", "the document holds memory"),
        ("memory: {promotion: [5]}", "memory.promotion holds min_access_count, "),
        ("memory: !!python/name:os.system", "is not YAML"),
        ("[" * 500, "is not YAML"),
        ("memory: {coordinator: {query_timeout_ms: '9'}}", r"memory\.coordinator\.query_time.*'9'"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            load(tmp_path, text, {TIMEOUT: "5"})  # which would override it
    with pytest.raises(ConfigurationError, match=r"none\.yaml cannot be .*LANGMEM_TIERS_CONFIG"):
        MemorySettings.load(env={"LANGMEM_TIERS_CONFIG": str(tmp_path / "none.yaml")})
    for given in (tmp_path, "~nobody-of-that-name/settings.yaml"):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            MemorySettings.load(given, {})


def test_bounds_and_filters_are_read_from_a_file_and_the_environment(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"memory\.orchestrator\.default_filters has no"):
        load(tmp_path, "memory: {orchestrator: {default_filters: {limitt: 1}}}")
    env = {"LANGMEM_TIERS_MEMORY__BOUNDS__STATEMENT_TIMEOUT_MS": "null"}
    settings = load(tmp_path, "memory: {bounds: {batch: 500, value_depth: 20}}", env)

    assert settings.bounds == Bounds(batch=500, value_depth=20, statement_timeout_ms=None)
    with pytest.raises(ConfigurationError, match=r"memory\.bounds\.limit is a whole number from 1"):
        load(tmp_path, "memory: {bounds: {limit: 0}}")
    with pytest.raises(ConfigurationError, match=r"memory\.bounds has no .*'value_bytes'"):
        load(tmp_path, "memory: {bounds: {value_byte: 5}}")


def test_models_are_made_by_the_names_that_the_settings_give_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    named = "{model: 'openai:chatty', embedding_model: 'openai:small'}"
    settings = load(tmp_path, f"memory: {{coordinator: {named}}}")
    chat, embeddings = settings.chat_model(), settings.embeddings()

    assert isinstance(chat, ChatOpenAI)
    assert chat.model_name == "chatty"
    assert isinstance(embeddings, OpenAIEmbeddings)
    assert embeddings.model == "small"
    with pytest.raises(ConfigurationError, match=r"coordinator\.model 'nobody:chatty' names"):
        load(tmp_path, "memory: {coordinator: {model: 'nobody:chatty'}}").chat_model()
    with pytest.raises(ConfigurationError, match="embedding_model 'text-embedding-3-small' names"):
        load(tmp_path, SPECIFIED).embeddings()
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'langmem-tiers\[langchain\]'"):
        settings.chat_model()
