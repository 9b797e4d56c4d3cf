"""TieredMemoryMiddleware: memory for an agent made by `create_agent`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NotRequired, Unpack

from langchain_core.language_models import BaseChatModel
from langgraph.channels import UntrackedValue
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command

from langmem_tiers.core.checks import checked_flag
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.graph.context_tools import Done, memory_tools
from langmem_tiers.graph.learn import judged_of, taught_by
from langmem_tiers.graph.messages import (
    Answer,
    Failing,
    Handler,
    Ran,
    Started,
    as_seen,
    just_failed,
    messages_of,
    said_in,
    taught_in,
    with_taught,
)
from langmem_tiers.graph.node import (
    DEFAULT_LESSONS,
    Careful,
    OnError,
    Remembered,
    Remembering,
    Scope,
    asked,
    careful_of,
    errors_of,
    handed_over,
    of_a_turn,
    of_state,
    run_of,
)
from langmem_tiers.graph.remember import MemoryOf, ended_of, hear_turn, remember_turn, store_heard
from langmem_tiers.graph.remind import Reminding
from langmem_tiers.graph.shown import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelCallResult,
    ModelHandler,
    ModelRequest,
    Noted,
    PrivateStateAttr,
    Shown,
    ShownTurns,
    noted_in,
    question_of,
    shown,
    turn_of,
    with_tools,
)
from langmem_tiers.graph.speakers import HEARD, Begun, Heard
from langmem_tiers.graph.tool_calls import ToolLessons, held_by_reminder
from langmem_tiers.learn.outcome import Run
from langmem_tiers.learn.signature import signature
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, both
from langmem_tiers.remind.intentions import Predicates


class AgentLessons(ToolLessons):
    """Lessons around the tool calls of an agent; they know which of its tools ran."""

    def __init__(self, careful: Careful, **options: Any) -> None:
        """Set up; `careful` says how to go on where memory fails, `options` are `ToolLessons`'."""
        super().__init__(**options, run=_run)
        self.calls, self._careful = Started(), careful

    def _started(self, request: ToolCallRequest, ran: str) -> None:
        if (run := _run(request)) is not None:
            self.calls.note(run.id, request.tool_call["id"], ran)


def _run(request: ToolCallRequest) -> Run | None:
    """The run that a tool call belongs to."""
    noted = noted_in(request.state)
    return None if noted is None else Run(noted["run"])


class TieredMemoryState(AgentState[Any]):
    """An agent's state, with what the middleware knows of this turn."""

    recalled_turn: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    """The name its memories are kept under, and no more: streams show the whole state."""
    recalled_run: NotRequired[Annotated[Noted, PrivateStateAttr]]
    """The turn; the checkpoint keeps it too, as a resumed agent is still in the same turn."""
    memory_heard: NotRequired[Annotated[Heard, PrivateStateAttr]]
    """The words heard; the checkpoint keeps them too, so that a later turn stores what is left."""
    memory_begun: NotRequired[Annotated[None, PrivateStateAttr, Begun]]
    """Always None; reading it notes the run around this one."""
    memory_errors: NotRequired[dict[str, str]]
    """What the turn goes without as Postgres or a model failed: the error of what was to be
    done."""
    revised: NotRequired[list[dict[str, Any]]]
    """What the model took back (`retracted`) or replaced (`superseded`) by its tools: the key, the
    handle, and the `move`, which `rollback` undoes."""
    reminded: NotRequired[list[dict[str, Any]]]
    """What it did to reminders: the `action`, and the `id`."""
    learned: NotRequired[list[dict[str, Any]]]
    """What was learned, by a model in earlier turns: its key, if it is `quarantined`, and why."""


class TieredMemoryMiddleware(Remembering, AgentMiddleware[TieredMemoryState, Any, Any]):
    """The memory of an agent: it recalls, reminds, remembers and learns.

    What matters for the user's message, and what is due of that which was intended, is shown to the
    model: in the system message of the request, never among the saved messages, and the same for a
    whole turn, however many tools are called in it. When a tool has failed, what was learned from
    that failure before stands in its answer. It remembers what was said before the model answers,
    whatever becomes of the turn, and the answer when the agent is done. The memory is that of the
    store the agent was created with. The run's context, a `MemoryContext` or a mapping with its
    fields, says whose memory it is; the arguments here come before it.

    Example:
        ```python
        from langchain.agents import create_agent
        from langmem_tiers import MemoryContext
        from langmem_tiers.graph.middleware import TieredMemoryMiddleware

        agent = create_agent(
            model,
            middleware=[TieredMemoryMiddleware(limit=3)],
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
        recall: bool = True,
        remember: bool = True,
        remind: bool | Predicates = True,
        tools: bool = True,
        lessons: int = DEFAULT_LESSONS,
        hold_repeats: bool = False,
        outcome: Callable[[Any], bool | None] | None = None,
        reflect: bool | BaseChatModel = False,
        failed: Failing | None = None,
        holdout: float | None = None,
        on_error: OnError = "continue",
        context: Scope | None = None,
        coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
        **options: Unpack[RecallOptions],
    ) -> None:
        """Say what it does.

        Args:
            recall: Show the model what matters and does not stand among the messages.
            remember: Store what was said; see `create_remember_node`.
            remind: Show what is due or whose topic comes up, and answer a tool call that something
                is intended before with that, once; or the predicates of the state, by name.
            tools: Give the model `search_memory`, `manage_memory` and `manage_reminder`.
            lessons: Lessons at most that a failure brings; 0 for none.
            hold_repeats: Answer a call that a lesson names with that lesson; see `ToolLessons`.
            outcome: Whether the turn succeeded, as a function of the agent's state; None is not
                known. What the turn was shown is credited with it.
            reflect: True keeps what failed with the call that worked later. A chat model draws
                lessons as well, after the answer, by one request a turn at most: from what failed,
                what `outcome` calls a failure, and a message that may correct an answer.
            failed: Whether a tool's answer reports a failure, as a function of its message.
            holdout: The share of memories that each turn goes without; see `get_context`.
            on_error: `continue` goes on without memory where Postgres, an embedding or a chat model
                fails, and tells the log, the stream and `memory_errors`; or `raise`.
            context, coordinator: Those of every node; see `create_recall_node`.
            options: Those of `get_context`; `limit` is 6 and `deduplicate` True if not given.
        """
        super().__init__()
        self._remember, self._remind = remember, remind is not False
        self._outcome, self._reflecting = taught_by(outcome, reflect, failed)
        self._careful = careful_of(on_error, "continue")
        self._whose = Remembered(context, coordinator)
        self._lessons, self._holdout = lessons, holdout
        self.tools = memory_tools(self._whose) if checked_flag(tools, "tools") else []
        self._tool_lessons = AgentLessons(
            self._careful,
            hold_repeats=hold_repeats,
            with_errors=False,  # the model's next call adds them, whoever made the answer
            lessons=lessons,
            holdout=holdout,
            context=context,
            coordinator=coordinator,
        )
        waits = Reminding(predicates=None if isinstance(remind, bool) else remind)
        known = of_a_turn(options, type(self)) if recall else None
        self._shown = ShownTurns(self._careful, known, waits if self._remind else None, holdout)

    def _before_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Note the turn's subject and what was said, while it stands among the messages."""
        memory, told = self._memory(runtime), dict[str, str]()
        before, bounds = noted_in(state), memory.tiered_store.options.bounds
        noted = turn_of(state, run_of(runtime), bounds)
        update: dict[str, Any] = {}
        if noted != before:
            update = {"recalled_run": noted, "recalled_turn": noted["run"]}
        with self._careful("remember", runtime, told):
            update |= yield from hear_turn(memory, state, keep=self._remember)
        return update | errors_of(state, told, known=not update.get("recalled_run")) or None

    def _wrap_model_call(
        self, request: ModelRequest[Any], handler: ModelHandler
    ) -> Flow[ModelCallResult[Any]]:
        """Show the model what the turn recalls, what is due, and what the last failure taught."""
        memory, told = self._memory(request.runtime), dict[str, str]()
        run = run_of(request.runtime)
        bounds = memory.tiered_store.options.bounds
        noted = noted_in(request.state) or turn_of(request.state, run, bounds)
        run = run._replace(id=noted["run"])
        turn = yield from self._shown.find(memory, request, run, noted, told)
        lessons = yield from self._lessons_of(memory, request, run, noted, told)
        heard = yield from self._store_heard(request, told)
        seeing = request.override(messages=with_taught(request.messages, lessons))
        seeing = with_tools(seeing, self.tools)
        response = yield from handed_over(handler, shown(seeing, turn.text))
        first = "shown" not in noted
        if first and turn.due:
            with self._careful("remind", request.runtime, told):
                yield from asked(memory.acknowledge, memory.aacknowledge, *turn.due)
        update = errors_of(request.state, told, known=True) | heard
        if first:
            noted = {**noted, "shown": turn.places, "pins": bool(turn.pinned)}
            noted["reminds"] = turn.reminds
        if noted != noted_in(request.state):
            update["recalled_run"] = noted
        if self._shown.known(request.state) is None:
            update["recalled_turn"] = noted["run"]
        saved = messages_of(request.state)
        if teaching := [one for one in saved if lessons.get(one.id)]:
            update["messages"] = with_taught(teaching, lessons)
        return ExtendedModelResponse(response, Command(update=update)) if update else response

    def _wrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> Flow[Answer]:
        """Run a tool call, unless there is a reminder for before it, or it failed before."""
        if self._remind:
            memory = self._memory(request.runtime)
            held = yield from held_by_reminder(request, memory, self._careful)
            if held is not None:
                return held
        lessons = self._tool_lessons
        return (yield from asked(lessons.wrap_tool_call, lessons.awrap_tool_call, request, handler))

    def _after_agent(
        self, state: TieredMemoryState, runtime: Runtime[Any]
    ) -> Flow[dict[str, Any] | None]:
        """Credit what was shown, learn from failures, and remember what was said, if asked to."""
        memory = self._memory(runtime)
        told: dict[str, str] = {}
        judged = None
        noted, heard = noted_in(state), of_state(state, HEARD, None)
        done = Done.of(messages_of(state))
        own = memory if heard is None else self._of(runtime)(heard["whose"])  # who began the turn
        judges = None if noted is None else self._outcome
        with self._careful("outcome", runtime, told):  # it may ask a model
            judged = None if judges is None else judged_of(state, judges)
            if noted is not None and judged is not None:
                said = said_in(messages_of(state))
                credit: Any = {"success": judged, "run_id": noted["run"], **said}
                yield from asked(memory.record_outcome, memory.arecord_outcome, **credit)
        with self._careful("reflect", runtime, told):
            ran = self._ran(state)
            learned = yield from self._reflecting.after(own, state, ran, judged=judged)
            done = done._replace(learned=[*done.learned, *learned])
        if self._remember:
            turn = self._shown.known(state) or Shown()
            with self._careful("remember", runtime, told):
                yield from remember_turn(own, state, turn.told, done.retracted)
        ended = ended_of(state, told)
        left = ended.get(HEARD, heard or {}).get("left")
        update = errors_of(state, told, state, mended=None if left else "remember") | ended
        return update | done.of_state(state) or None

    before_agent, abefore_agent = both(_before_agent)
    wrap_model_call, awrap_model_call = both(_wrap_model_call)
    wrap_tool_call, awrap_tool_call = both(_wrap_tool_call)
    after_agent, aafter_agent = both(_after_agent)

    def _of(self, runtime: Runtime[Any]) -> MemoryOf:
        """Make memories of contexts as a run's is made."""
        return lambda whose: self._whose.memory_of(runtime, MemoryContext(**whose))

    def _store_heard(
        self, request: ModelRequest[Any], told: dict[str, str]
    ) -> Flow[dict[str, Any]]:
        """Store what was said, before it is answered, and return the update of the state."""
        heard: dict[str, Any] = {}
        if self._remember:
            with self._careful("remember", request.runtime, told):
                heard, errors = yield from store_heard(self._of(request.runtime), request.state)
                for error in errors[:1]:
                    raise error
        return heard

    def _ran(self, state: Any) -> Ran:
        """Tell which tool calls ran: each of them passes by here."""
        noted = noted_in(state)
        return as_seen(self._tool_lessons.calls, None if noted is None else noted["run"])

    def _lessons_of(
        self,
        memory: MemoryCoordinator,
        request: ModelRequest[Any],
        run: Run,
        noted: Noted,
        told: dict[str, str],
    ) -> Flow[dict[str | None, list[Recollection]]]:
        """Find the lessons of the calls that just failed, by the ids of their answers."""
        lessons: dict[str | None, list[Recollection]] = {}
        known = taught_in(request.messages)
        messages = self._reflecting.marked(request.messages) if self._lessons else ()
        failed = just_failed(messages, self._ran(request.state))
        for one in failed:
            concern: Any = {
                "failures": signature(one.said, tool=one.tool),
                "query": question_of(noted, request.state)[0],
                "limit": self._lessons,
                "run_id": run,
                "holdout": self._holdout,
            }
            with self._careful("lessons", request.runtime, told):
                found = yield from asked(memory.get_lessons, memory.aget_lessons, **concern)
                lessons[one.answer.id] = [each for each in found if each.key not in known]
                known |= {each.key for each in found}
        return lessons
