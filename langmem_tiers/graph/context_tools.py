"""The tools of a context's memory, as LangChain tools: search it, keep it, and be reminded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools.base import ArgsSchema
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from langmem_tiers.core import prompts
from langmem_tiers.core.checks import checked_kind
from langmem_tiers.core.values import trust_of
from langmem_tiers.graph.heard import TRUST
from langmem_tiers.graph.memory_tools import Action, Asking, Kind, Told, manage, search
from langmem_tiers.graph.messages import this_turn
from langmem_tiers.graph.node import of_state
from langmem_tiers.graph.reminder_tools import Reminding, remind
from langmem_tiers.graph.runs import Remembered, Scope, ways
from langmem_tiers.graph.tool_memories import told_to_model
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import checked_text


def _optional(description: str | None = None) -> Any:
    """Make a field that may be left out; the model may send null as well."""
    return Field(None, description=description)


Text: TypeAlias = str | SkipJsonSchema[None]


class SearchMemory(BaseModel):
    """What `search_memory` takes."""

    model_config = ConfigDict(title="search_memory")

    query: str = Field(description="Empty lists the newest")
    about: Literal["user"] | SkipJsonSchema[None] = _optional("Known of the user")
    limit: int = Field(10, ge=1, le=50)


class ManageMemory(BaseModel):
    """What `manage_memory` takes."""

    model_config = ConfigDict(title="manage_memory")

    action: Action
    content: Text = _optional()
    id: Text = _optional("Or 'this' message")
    kind: Kind | SkipJsonSchema[None] = _optional()
    pin: bool | SkipJsonSchema[None] = _optional("Show it always")


class ManageReminder(BaseModel):
    """What `manage_reminder` takes."""

    model_config = ConfigDict(title="manage_reminder")

    action: Reminding
    content: Text = _optional()
    id: Text = _optional()
    at: Text = _optional("ISO 8601, local")
    every: Text = _optional("RFC 5545 rule")
    cue: Text = _optional("When these words come up")
    before_tool: Text = _optional()


def create_manage_reminder_tool(
    *,
    instructions: str = "",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "manage_reminder",
) -> BaseTool:
    """Make a tool by which a model sets reminders, closes them, and puts them off.

    A reminder waits for a time in ISO 8601, in the context's zone if it names none, which may recur
    by a rule of RFC 5545; for a cue, words that somebody says; for a tool to be called; or for
    nothing, and is then due at once. What the model gets wrong, such as a time that is over, it is
    told in the tool's message.

    Args:
        instructions: The text at the end of the tool's description.
        context, coordinator: Those of every node; see `create_recall_node`.
        name: What the model calls it.

    Example:
        ```python
        from langmem_tiers import create_manage_reminder_tool

        reminders = create_manage_reminder_tool()
        ```
    """
    whose = Remembered(context, coordinator)

    def manage_reminder(  # noqa: PLR0917 - the model names them
        action: Reminding,
        content: str | None = None,
        id: str | None = None,  # noqa: A002 - as the model knows it
        at: str | None = None,
        every: str | None = None,
        cue: str | None = None,
        before_tool: str | None = None,
    ) -> Flow[Told]:
        waits = {"at": at, "every": every, "cue": cue, "before_tool": before_tool}
        asking = Asking.of(whose, _CALL.get())
        with told_to_model():
            return (yield from remind(asking, action=action, content=content, named=id, **waits))

    told = _described(prompts.REMIND_CONTEXT, instructions)
    return made(manage_reminder, name, told, ManageReminder, _ContextTool, **_TELLS)


def search_of_context(instructions: str, name: str, whose: Remembered) -> BaseTool:
    """Make a tool that searches the memory of the run's context."""

    def search_memory(query: str, about: str | None = None, limit: int = 10) -> Flow[Any]:
        asking = Asking.of(whose, _CALL.get())
        with told_to_model():
            return (yield from search(asking.memory, query, about, limit))

    told = _described(prompts.SEARCH_CONTEXT, instructions)
    return made(search_memory, name, told, SearchMemory, _ContextTool, **_TELLS)


def manage_of_context(instructions: str, name: str, whose: Remembered) -> BaseTool:
    """Make a tool that keeps the memory of the run's context."""

    def manage_memory(
        action: Action = "create",
        content: str | None = None,
        id: str | None = None,  # noqa: A002 - langmem's word
        kind: Kind | None = None,
        pin: bool | None = None,  # noqa: FBT001 - the model names it
    ) -> Flow[Told]:
        asking = Asking.of(whose, _CALL.get())
        named: Any = {"named": id, "kind": kind, "pin": pin}
        with told_to_model():
            return (yield from manage(asking, action=action, content=content, **named))

    told = _described(prompts.MANAGE_CONTEXT, instructions)
    return made(manage_memory, name, told, ManageMemory, _ContextTool, **_TELLS)


def _described(text: str, instructions: str) -> str:
    return f"{text}\n{checked_kind(instructions, str, 'instructions')}"


_TELLS: Final = {"response_format": "content_and_artifact"}


def memory_tools(whose: Remembered) -> list[BaseTool]:
    """Make the three tools that an agent's model is given."""
    return [
        search_of_context("", "search_memory", whose),
        manage_of_context("", "manage_memory", whose),
        create_manage_reminder_tool(context=whose.scope, coordinator=whose.coordinator),
    ]


class Done(NamedTuple):
    """What a model did in a turn by its memory tools, or learned, for the turn's result."""

    revised: list[dict[str, Any]]
    reminded: list[dict[str, Any]]
    learned: list[dict[str, Any]]

    @classmethod
    def of(cls, messages: Sequence[BaseMessage]) -> Done:
        """Find what was done in the turn that these messages end with."""
        answers = [one for one in this_turn(messages) if isinstance(one, ToolMessage)]
        ours = [one.artifact for one in answers if TRUST in one.additional_kwargs]
        told = [one for one in ours if isinstance(one, Mapping)]
        return cls(*([each for one in told for each in one.get(name, ())] for name in cls._fields))

    @property
    def retracted(self) -> list[str]:
        """Return the keys of what was taken back."""
        return [one["retracted"] for one in self.revised if "retracted" in one]

    @property
    def sets_reminder(self) -> bool:
        """Tell whether a reminder was set."""
        return any(one["action"] == "set" for one in self.reminded)

    def of_state(self, state: Any) -> dict[str, Any]:
        """Return the update of the state: what was done, in place of what an earlier turn did."""
        return {
            name: done
            for name, done in self._asdict().items()
            if done or of_state(state, name, None)
        }


_CALL: Final[ContextVar[str | None]] = ContextVar("langmem_tiers_tool_call", default=None)
"""The id of the tool call that is carried out."""


class _ContextTool(StructuredTool):
    """A tool of a context's memory; its answers say so, and how far what they bring is trusted."""

    @property
    def tool_call_schema(self) -> ArgsSchema:
        """What a model is told, which pays for it at each call: types and meanings, no defaults."""
        schema = super().tool_call_schema
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            schema.model_config["json_schema_extra"] = _bare
        return schema

    def run(self, tool_input: Any, *given: Any, **options: Any) -> Any:
        """Run it, blocking."""
        with _called(options):
            return _trusted(super().run(tool_input, *given, **options))

    async def arun(self, tool_input: Any, *given: Any, **options: Any) -> Any:
        """Run it, awaiting."""
        with _called(options):
            return _trusted(await super().arun(tool_input, *given, **options))


def _bare(schema: dict[str, Any]) -> None:
    for one in schema["properties"].values():
        for name in ("default", "minimum", "maximum"):
            one.pop(name, None)


@contextmanager
def _called(options: Mapping[str, Any]) -> Iterator[None]:
    token = _CALL.set(options.get("tool_call_id"))
    try:
        yield
    finally:
        _CALL.reset(token)


def _trusted(answer: Any) -> Any:
    """Mark an answer to a model with the trust in what it brings: the memories that were found."""
    if not isinstance(answer, ToolMessage):
        return answer
    found = answer.artifact if isinstance(answer.artifact, list) else []
    noted = {**answer.additional_kwargs, TRUST: min(map(trust_of, found), default=1.0)}
    done = answer.artifact if isinstance(answer.artifact, dict) else {}
    return answer.model_copy(update={"additional_kwargs": noted, "artifact": done})


def made(
    does: Callable[..., Flow[Any]],
    name: str,
    description: str,
    takes: type[BaseModel],
    kind: type[StructuredTool],
    **further: Any,
) -> BaseTool:
    """Make a tool for `invoke` and `ainvoke` of one flow."""
    checked_text(name, "name")
    call, acall = ways(does)
    return kind(
        name=name,
        description=description.strip(),
        args_schema=takes,
        func=call,
        coroutine=acall,
        handle_tool_error=True,
        **further,
    )
