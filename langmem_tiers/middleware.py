"""TieredMemoryMiddleware: memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, Unpack
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from langmem_tiers.asking import DEFAULT_LIMIT
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import MissingExtraError
from langmem_tiers.memory import MemoryContext, Recollection
from langmem_tiers.recalled import recalled_text, with_recalled
from langmem_tiers.runs import RecallOptions, Remembered, checked, last_question, text_of

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import (
        AgentState,
        ExtendedModelResponse,
        ModelCallResult,
        PrivateStateAttr,
    )
    from langgraph.channels import UntrackedValue
    from langgraph.runtime import Runtime
    from langgraph.types import Command
except ImportError as error:
    raise MissingExtraError(
        "the middleware needs LangChain's agents: pip install 'langmem-tiers[langchain]'"
    ) from error

_MOST = 1000
"""Memories that one recall returns at most."""
_TURNS = 256
"""Turns whose memories are kept, the latest: a turn whose memories are gone recalls them anew."""


class _Turn(NamedTuple):
    """What was recalled, as a text for the prompt, and the message it was recalled for."""

    message_id: str | None
    text: str


class TieredMemoryState(AgentState[Any]):
    """An agent's state, and under which name the middleware keeps the memories of this turn.

    A name and no more, as streams show the whole state; it is in no checkpoint.
    """

    recalled_turn: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]


class TieredMemoryMiddleware(AgentMiddleware[TieredMemoryState, Any, Any]):
    """Recalls what matters for the user's message and shows it to the model.

    Memories enter through the system message of the request: they are never among the saved
    messages. One recall serves a whole turn, however many tools are called in it. The memory is
    that of the store the agent was created with; whose it is says the run's context, a
    `MemoryContext` or a mapping with its fields, and over it the arguments here.

    Example:
        ```python
        from langchain.agents import create_agent
        from langmem_tiers import MemoryContext
        from langmem_tiers.middleware import TieredMemoryMiddleware

        agent = create_agent(
            model,
            middleware=[TieredMemoryMiddleware(limit=3, remember=True)],
            context_schema=MemoryContext,
            store=store,
        )
        agent.invoke({"messages": ["When do keys change?"]}, context=MemoryContext(tenant="acme"))
        ```
    """

    state_schema = TieredMemoryState

    def __init__(
        self,
        *,
        remember: bool = False,
        tenant: str | None = None,
        project_id: str | None = None,
        session_id: str | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        **options: Unpack[RecallOptions],
    ) -> None:
        """Say what is recalled.

        Args:
            remember: Store what the user and the assistant said when the agent is done, as
                episodic memories of the thread; a run that is repeated stores them once. What
                still stands among the messages is then not recalled as well.
            tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
            project_id: Likewise.
            session_id: Likewise.
            coordinator: Makes the coordinator from a store and `context`.
            options: Those of `MemoryCoordinator.get_context`: `limit`, `max_tokens`, ….

        Raises:
            InvalidInputError: for an option that no recall could take.
        """
        super().__init__()
        scope = {"tenant": tenant, "project_id": project_id, "session_id": session_id}
        self._whose = Remembered(scope=scope, coordinator=coordinator)
        self._options = checked(options)
        self._limit = self._options.get("limit") or DEFAULT_LIMIT
        self._remember = remember
        self._turns: dict[str, _Turn] = {}

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelCallResult[Any]:
        """Show the turn's memories to the model."""
        if (known := self._of_this_turn(request)) is not None:
            return handler(_shown(request, known))
        found = self._memory(request.runtime).get_context(
            text_of(last_question(request.messages)), **self._asked(request)
        )
        turn = self._recalled(found, request)
        return self._kept(handler(_shown(request, turn)), turn)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelCallResult[Any]:
        """Show the turn's memories to the model."""
        if (known := self._of_this_turn(request)) is not None:
            return await handler(_shown(request, known))
        found = await self._memory(request.runtime).aget_context(
            text_of(last_question(request.messages)), **self._asked(request)
        )
        turn = self._recalled(found, request)
        return self._kept(await handler(_shown(request, turn)), turn)

    def after_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> None:
        """Remember what was said, if asked to."""
        if self._remember:
            memory = self._memory(runtime)
            memory.store_many(_said(state["messages"], memory.context, ensure_config()))

    async def aafter_agent(self, state: TieredMemoryState, runtime: Runtime[Any]) -> None:
        """Remember what was said, if asked to."""
        if self._remember:
            memory = self._memory(runtime)
            await memory.astore_many(_said(state["messages"], memory.context, ensure_config()))

    def _memory(self, runtime: Runtime[Any]) -> MemoryCoordinator:
        return self._whose.memory(runtime, ensure_config())

    def _asked(self, request: ModelRequest[Any]) -> RecallOptions:
        """The options, with room for what is left out because the model sees it anyway."""
        seen = len(request.messages) if self._remember else 0
        return {**self._options, "limit": min(self._limit + seen, _MOST)}

    def _recalled(self, found: Sequence[Recollection], request: ModelRequest[Any]) -> _Turn:
        config = ensure_config()
        seen = {_key(one, config) for one in request.messages} if self._remember else set()
        new = [one for one in found if one.key not in seen][: self._limit]
        return _Turn(_question_id(request), recalled_text(new))

    def _of_this_turn(self, request: ModelRequest[Any]) -> _Turn | None:
        """What this run recalled for the same message already."""
        turn = self._turns.get(str(request.state.get("recalled_turn")))
        return turn if turn and turn.message_id == _question_id(request) else None

    def _kept(self, response: ModelResponse[Any], turn: _Turn) -> ExtendedModelResponse[Any]:
        """The response, with what was recalled kept for the rest of the turn."""
        name = str(uuid4())
        self._turns[name] = turn
        for oldest in list(self._turns)[:-_TURNS]:
            self._turns.pop(oldest, None)
        return ExtendedModelResponse(response, Command(update={"recalled_turn": name}))


def _question_id(request: ModelRequest[Any]) -> str | None:
    question = last_question(request.messages)
    return None if question is None else question.id


def _shown(request: ModelRequest[Any], turn: _Turn) -> ModelRequest[Any]:
    return request.override(system_message=with_recalled(request.system_message, turn.text))


def _said(
    messages: Sequence[BaseMessage], context: MemoryContext, config: RunnableConfig
) -> list[dict[str, Any]]:
    """The last thing that the user said, and the assistant's last word on it."""
    last = messages[-1] if messages else None
    answer = last if isinstance(last, AIMessage) and not last.tool_calls else None
    session = context.session_id or _thread(config)
    return [
        {
            "content": text_of(one),
            "key": _key(one, config),
            "speaker": speaker,
            "session_id": session,
        }
        for one, speaker in ((last_question(messages), "user"), (answer, "assistant"))
        if one is not None and text_of(one)
    ]


def _key(message: BaseMessage, config: RunnableConfig) -> str:
    """The same for the same message of a thread; without a thread, of the same words."""
    origin = _thread(config) or text_of(message)
    return str(uuid5(NAMESPACE_OID, f"{origin}\0{message.id}"))


def _thread(config: RunnableConfig) -> str | None:
    thread = (config.get("configurable") or {}).get("thread_id")
    return None if thread is None else str(thread)
