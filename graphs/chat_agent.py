"""An agent that remembers what it is told, in every thread of a tenant.

`langgraph dev` serves it as `chat_agent`, on the store of `graphs/store.py`. Each run says in its
context whose memory it uses: `{"tenant": "acme"}`.

The environment, or `.env` beside langgraph.json:

- `LANGMEM_TIERS_CHAT_MODEL` names a chat model as `provider:model`; its key and its package are up
  to you. Without it no model is asked: the agent quotes what it recalls.
- `LANGMEM_TIERS_URL` names the database; see `graphs/store.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from langmem_tiers import MemoryContext
from langmem_tiers.graph.middleware import TieredMemoryMiddleware

INSTRUCTIONS = """\
You are a helpful assistant. Use what you recall where it answers the user, and say so when you \
do not know."""

NOTED = "I will remember that."
UNKNOWN = "You have told me nothing that answers this."

_MEMORY = re.compile(r"^- \[\w+\] \d[^,:]*: (.*(?:\n    .*)*)", re.MULTILINE)
"""A line of what the user said: it names nobody."""
_WORD = re.compile(r"\w{3,}")
_SAYS_LITTLE = re.compile(
    "and|are|but|can|did|does|for|from|had|has|have|her|his|not|our|she|the|their|they|was|were|"
    "what|when|where|which|who|why|will|with|you|your"
)


class QuotingModel(BaseChatModel):
    """Stands in for a model, offline: it quotes the recalled memory that is nearest to a question.

    Nearest is what shares the most letters in telling words. What asks, and what the assistant
    said, is not quoted. What is no question it promises to remember.
    """

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain's signature
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **_: Any,
    ) -> ChatResult:
        asked = str(messages[-1].text).strip()
        answer = _answer(asked, _told(messages)) if asked.endswith("?") else NOTED
        return ChatResult(generations=[ChatGeneration(message=AIMessage(answer))])


def make_agent(
    *, store: BaseStore | None = None, checkpointer: Checkpointer = None
) -> CompiledStateGraph[Any, MemoryContext, Any, Any]:
    """Build the agent; a server gives it a store and a checkpointer of its own.

    Example:
        ```python
        from graphs.chat_agent import make_agent
        from langmem_tiers import MemoryContext, TieredStore

        with TieredStore.embedded("./.memory") as store:
            agent = make_agent(store=store)
            ada = MemoryContext(tenant="ada")
            agent.invoke({"messages": ["My bike is in the cellar."]}, context=ada)
            state = agent.invoke({"messages": ["Where is my bike?"]}, context=ada)
            print(state["messages"][-1].text)
        ```
    """
    return create_agent(
        os.environ.get("LANGMEM_TIERS_CHAT_MODEL") or QuotingModel(),
        system_prompt=INSTRUCTIONS,
        middleware=[TieredMemoryMiddleware()],
        context_schema=MemoryContext,
        store=store,
        checkpointer=checkpointer,
        name="chat_agent",
    )


def _told(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the statements that the model has read, in memories and from the user before."""
    shown = [str(one.text) for one in messages if isinstance(one, SystemMessage)]
    recalled = _MEMORY.findall("\n".join(shown))
    said = [str(one.text).strip() for one in messages[:-1] if isinstance(one, HumanMessage)]
    return [one for one in [*recalled, *said] if not one.endswith("?")]


def _answer(question: str, told: Sequence[str]) -> str:
    best = max(told, key=lambda one: _in_common(question, one), default="")
    return f'You told me: "{best}"' if best and _in_common(question, best) else UNKNOWN


def _in_common(question: str, said: str) -> int:
    """Letters in the telling words that both have."""
    words = {*_WORD.findall(question.lower())} & {*_WORD.findall(said.lower())}
    return sum(len(word) for word in words if not _SAYS_LITTLE.fullmatch(word))


graph = make_agent()
