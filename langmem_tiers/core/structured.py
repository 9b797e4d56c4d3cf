"""A LangChain chat model asked for a pydantic object; the twins differ by `await`.

This is the outermost edge to code that we do not know: whatever a provider raises becomes a
`ModelError`, and its own error is the cause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import (
    Runnable,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
)
from pydantic import BaseModel, ValidationError

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, ModelError
from langmem_tiers.core.prompts import ANSWER_AGAIN

T = TypeVar("T", bound=BaseModel)
T_contra = TypeVar("T_contra", bound=BaseModel, contravariant=True)
U = TypeVar("U")
U_co = TypeVar("U_co", covariant=True)
V = TypeVar("V")
P = ParamSpec("P")

_QUIET: Final[RunnableConfig] = {"tags": ["nostream"]}
"""LangGraph's tag: what a model answers here is no part of what an agent says."""
_MALFORMED: Final = (ValidationError, OutputParserException)
"""What parsers raise; clients that parse by themselves raise it in place of an answer."""
_REFUSED: Final = frozenset({"refusal", "content_filter", "safety", "guardrail_intervened"})
"""Why an answer ended that a model would not give, in the words of several providers."""
_TOLD: Final = 500
"""Characters of a problem that are told."""
HEAD: Final = 1_000
TAIL: Final = 3_000
"""Characters of a long text that a model is shown: a traceback says most at its end."""


def ask(
    model: BaseChatModel,
    schema: type[T],
    messages: Sequence[BaseMessage],
    check: Callable[[T], object] = lambda _: None,
) -> T:
    """The model's answer as an object of the schema, by one request or two.

    An answer that is malformed, or for which `check` raises `InvalidInputError`, is told to the
    model once. A refusal is final, and so is what the provider raises: whether to repeat a
    request is said by the model's own `max_retries`.

    Raises:
        ModelError: there is no usable answer. What the provider raised is its cause.
    """
    talk = _Talk(schema, messages, check)
    while talk.answer is None:
        with _hearing(talk) as reply:
            asked = model.with_structured_output(schema, include_raw=True)
            reply.said = _on_this_thread(asked).invoke(talk.messages, _QUIET)
    return talk.answer


async def aask(
    model: BaseChatModel,
    schema: type[T],
    messages: Sequence[BaseMessage],
    check: Callable[[T], object] = lambda _: None,
) -> T:
    """The model's answer as an object of the schema; see `ask`."""
    talk = _Talk(schema, messages, check)
    while talk.answer is None:
        with _hearing(talk) as reply:
            asked = model.with_structured_output(schema, include_raw=True)
            reply.said = await asked.ainvoke(talk.messages, _QUIET)
    return talk.answer


class ModelRequest(Protocol[T_contra, U_co]):
    """One request to a model."""

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        ...

    def read(self, answer: T_contra) -> U_co:
        """What an answer says; raises `InvalidInputError` for one that cannot be."""
        ...


def ways_to_ask(
    model: BaseChatModel,
    schema: type[T],
    requests: Callable[P, Iterable[ModelRequest[T, U]]],
    made: Callable[Concatenate[list[U], P], V],
) -> tuple[Callable[P, V], Callable[P, Awaitable[V]]]:
    """Two functions, one that blocks and one that is awaited: what is made of a model's answers.

    `requests` says what the model is asked, one after another; both raise as `ask` does.
    """
    checked_model(model)

    def call(*given: P.args, **options: P.kwargs) -> V:
        several = requests(*given, **options)
        read = [one.read(ask(model, schema, one.messages(), one.read)) for one in several]
        return made(read, *given, **options)

    async def acall(*given: P.args, **options: P.kwargs) -> V:
        several = requests(*given, **options)
        read = [one.read(await aask(model, schema, one.messages(), one.read)) for one in several]
        return made(read, *given, **options)

    return call, acall


def _on_this_thread(asked: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """The same, with its request made on the thread that asks.

    LangChain's chain makes it on a further one, which keeps a program from ending until the model
    has answered.
    """
    if not isinstance(asked, RunnableSequence) or not isinstance(asked.first, RunnableParallel):
        return asked
    steps = asked.first.steps__
    if steps.keys() != {"raw"}:
        return asked
    model = steps["raw"]

    def raw(messages: Any, config: RunnableConfig) -> dict[str, Any]:
        return {"raw": model.invoke(messages, config)}

    return RunnableSequence(RunnableLambda(raw), *asked.steps[1:])


def checked_model(model: object) -> None:
    """Refuse what is no chat model, before anything is done with it."""
    if not callable(getattr(model, "with_structured_output", None)):
        raise InvalidTypeError(
            f"a model is a LangChain chat model, not {type(model).__name__}: make one, such as "
            "init_chat_model('openai:gpt-5-mini')"
        )


def trimmed(text: str) -> str:
    """Text of bounded length: a long one is its head and its tail, and says what is left out."""
    left_out = len(text) - HEAD - TAIL
    if left_out <= 0:
        return text
    return f"{text[:HEAD]}\n[… {left_out} characters left out …]\n{text[-TAIL:]}"


@dataclass(slots=True)
class _Reply:
    """What came of one request: an answer with its raw message, or an error."""

    said: Any = None
    failed: Exception | None = None


@contextmanager
def _hearing(talk: _Talk[T]) -> Iterator[_Reply]:
    """Lets a talk hear what came of a request, whatever that was."""
    reply = _Reply()
    try:
        yield reply
    except Exception as error:  # noqa: BLE001 - a provider's client can raise anything
        reply.failed = error
    talk.hear(reply)


@dataclass(slots=True)
class _Talk(Generic[T]):
    """One question to a model, and what to say next until there is an answer."""

    schema: type[T]
    messages: Sequence[BaseMessage]
    check: Callable[[T], object]
    answer: T | None = None
    told: bool = False

    def hear(self, reply: _Reply) -> None:
        """Take the answer, or tell once what is wrong with it.

        Raises:
            ModelError: there will be no usable answer.
        """
        if reply.failed is not None and not isinstance(reply.failed, _MALFORMED):
            raise _unanswered(reply.failed) from reply.failed
        try:
            self.answer = self._read(reply)
        except (*_MALFORMED, InvalidInputError) as error:
            self._tell(error)

    def _read(self, reply: _Reply) -> T:
        if reply.failed is not None:
            raise reply.failed
        said = reply.said if isinstance(reply.said, Mapping) else {}
        parsed, raw, wrong = (said.get(one) for one in ("parsed", "raw", "parsing_error"))
        if parsed is None and (refusal := _refusal(raw)) is not None:
            raise ModelError(
                f"the model refused to answer{refusal:.{_TOLD}}: name another model, or do "
                "without one"
            ) from wrong
        if isinstance(wrong, _MALFORMED):
            raise wrong
        if parsed is None:
            raise OutputParserException(f"it is not in the form that was asked for. {wrong or ''}")
        answer = self.schema.model_validate(parsed)
        self.check(answer)
        return answer

    def _tell(self, error: Exception) -> None:
        problem = _problem(error)
        if self.told:
            raise ModelError(
                f"the model gave no usable answer, and none after it was told why: {problem} "
                "Name a model that knows structured output, or do without one"
            ) from error
        self.told = True
        told = HumanMessage(ANSWER_AGAIN.format(problem=problem))
        self.messages = [*self.messages, told]


def _unanswered(error: Exception) -> ModelError:
    if isinstance(error, NotImplementedError):
        return ModelError(
            "the model cannot give structured output: name one that knows it or calls tools, or "
            "do without one"
        )
    return ModelError(
        f"the model did not answer ({type(error).__name__}: {error!s:.{_TOLD}}): check its key, "
        "its limits and the connection, then try again"
    )


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False)
        said = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in found)
    else:
        said = str(error)
    return f"{said.strip():.{_TOLD}}."


def _refusal(raw: object) -> str | None:
    """What a model says when it refuses, to be put behind "refused"; None if it does not."""
    if not isinstance(raw, AIMessage):
        return None
    blocks = raw.content if isinstance(raw.content, list) else []
    said = [raw.additional_kwargs.get("refusal")]
    said += [one.get("refusal") for one in blocks if isinstance(one, dict)]
    if spoken := next((one for one in said if one), None):
        return f" ({spoken})"
    ends = (
        raw.response_metadata.get(one) for one in ("finish_reason", "stop_reason", "stopReason")
    )
    return "" if any(str(one).lower() in _REFUSED for one in ends) else None
