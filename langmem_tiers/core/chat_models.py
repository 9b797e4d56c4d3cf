"""A LangChain chat model asked for a pydantic object, blocking or awaited.

This is the outermost edge to code that we do not know: whatever a provider raises becomes a
`ModelError`, and its own error is the cause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables.config import merge_configs
from pydantic import BaseModel, ValidationError

from langmem_tiers.core.concurrency import Work, run_async, run_sync
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, ModelError
from langmem_tiers.core.prompts import ANSWER_AGAIN

T = TypeVar("T", bound=BaseModel)
T_contra = TypeVar("T_contra", bound=BaseModel, contravariant=True)
U = TypeVar("U")
U_co = TypeVar("U_co", covariant=True)
V = TypeVar("V")
P = ParamSpec("P")

_MALFORMED: Final = (ValidationError, OutputParserException)
"""Errors of parsers; clients that parse by themselves raise them in place of an answer."""
_REFUSAL_REASONS: Final = frozenset({"refusal", "content_filter", "safety", "guardrail_intervened"})
"""The providers' reasons for the end of a refused answer."""
_PROBLEM_LENGTH: Final = 500
"""Characters of a problem that are told."""
HEAD: Final = 1_000
TAIL: Final = 3_000
"""Characters of a long text that a model is shown: a traceback says most at its end."""


_Method: TypeAlias = Literal["invoke", "ainvoke"]
"""The method of a model that is asked by."""


def _both_ways(
    asking: Callable[Concatenate[_Method, P], Work[V]],
) -> tuple[Callable[P, V], Callable[P, Awaitable[V]]]:
    """Make two functions of a piece of work: one that blocks, and one that is awaited."""

    def call(*args: P.args, **options: P.kwargs) -> V:
        return run_sync(asking("invoke", *args, **options))

    async def acall(*args: P.args, **options: P.kwargs) -> V:
        return await run_async(asking("ainvoke", *args, **options))

    return call, acall


def _ask_twice(
    way: _Method,
    model: BaseChatModel,
    schema: type[T],
    messages: Sequence[BaseMessage],
    check: Callable[[T], object] = lambda _: None,
) -> Work[T]:
    """Ask a model for an object of the schema, by one request or two.

    An answer that is malformed, or for which `check` raises `InvalidInputError`, is told to the
    model once. A refusal is final, and so is what the provider raises: whether to repeat a
    request is said by the model's own `max_retries`.

    Raises:
        ModelError: there is no usable answer. What the provider raised is its cause.
    """
    answer = yield from _ask_once(way, model, schema, messages, check)
    if isinstance(answer, Exception):
        again = HumanMessage(ANSWER_AGAIN.format(problem=_describe_problem(answer)))
        answer = yield from _ask_once(way, model, schema, [*messages, again], check)
    if isinstance(answer, Exception):
        raise ModelError(
            "the model gave no usable answer, and none after it was told why: "
            f"{_describe_problem(answer)} Name a model that knows structured output, or do "
            "without one"
        ) from answer
    return answer


ask, aask = _both_ways(_ask_twice)
"""Ask a model, blocking or awaited; see `_ask_twice`."""


def _ask_once(
    way: _Method,
    model: BaseChatModel,
    schema: type[T],
    messages: Sequence[BaseMessage],
    check: Callable[[T], object],
) -> Work[T | Exception]:
    """Ask a model once; an unusable answer is returned as its error.

    By LangGraph's tag, what a model answers here is no part of what an agent says.

    Raises:
        ModelError: there will be no usable answer.
    """
    raw = _MessageRecorder()
    config = merge_configs({}, {"tags": ["nostream"], "callbacks": [raw]})
    try:
        result = yield getattr(model.with_structured_output(schema), way)(messages, config)
    except Exception as error:
        _check_refusal(raw.message, error)
        if raw.message is None and not isinstance(error, _MALFORMED):
            raise _provider_error(error) from error
        return error
    if result is None:
        _check_refusal(raw.message)
    try:
        answer = schema.model_validate(result)
        check(answer)
    except (*_MALFORMED, InvalidInputError) as error:
        return error
    return answer


class ModelRequest(Protocol[T_contra, U_co]):
    """One request to a model."""

    def messages(self) -> list[BaseMessage]:
        """Build the messages for the model."""
        ...

    def read(self, answer: T_contra) -> U_co:
        """Convert an answer; raise `InvalidInputError` for an impossible one."""
        ...


def make_askers(
    model: BaseChatModel,
    schema: type[T],
    requests: Callable[P, Iterable[ModelRequest[T, U]]],
    made: Callable[Concatenate[list[U], P], V],
) -> tuple[Callable[P, V], Callable[P, Awaitable[V]]]:
    """Make two functions, one that blocks and one that is awaited, of requests to a model.

    `requests` says what the model is asked, one after another; both raise as `ask` does.
    """
    checked_model(model)

    def asking(way: _Method, /, *args: P.args, **options: P.kwargs) -> Work[V]:
        read = []
        for request in requests(*args, **options):
            answer = yield from _ask_twice(way, model, schema, request.messages(), request.read)
            read.append(request.read(answer))
        return made(read, *args, **options)

    return _both_ways(asking)


def make_asker(
    model: BaseChatModel, schema: type[T], request: Callable[P, ModelRequest[T, V]]
) -> tuple[Callable[P, V], Callable[P, Awaitable[V]]]:
    """Make two functions that ask a model once; see `make_askers`."""

    def requests(*args: P.args, **options: P.kwargs) -> list[ModelRequest[T, V]]:
        return [request(*args, **options)]

    def made(results: list[V], /, *_: P.args, **__: P.kwargs) -> V:
        return results[0]

    return make_askers(model, schema, requests, made)


def checked_model(model: object) -> None:
    """Refuse what is no chat model, before anything is done with it."""
    if not callable(getattr(model, "with_structured_output", None)):
        raise InvalidTypeError(
            f"a model is a LangChain chat model, not {type(model).__name__}: make one, such as "
            "init_chat_model('openai:gpt-5-mini')"
        )


def trim_middle(text: str) -> str:
    """Cut a long text to its head and tail; a note says how much is left out."""
    left_out = len(text) - HEAD - TAIL
    if left_out <= 0:
        return text
    return f"{text[:HEAD]}\n[… {left_out} characters left out …]\n{text[-TAIL:]}"


class _MessageRecorder(BaseCallbackHandler):
    """Keeps the message that a model answered with, before it is parsed.

    LangChain would return it beside the object (`include_raw`), but makes such a request on a
    further thread, which keeps a program from ending until the model has answered.
    """

    run_inline = True
    message: object = None

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Keep what was answered last."""
        for generation in response.generations[-1]:
            if isinstance(generation, ChatGeneration):
                self.message = generation.message


def _check_refusal(raw: object, error: Exception | None = None) -> None:
    if (refusal := _refusal_text(raw)) is not None:
        raise ModelError(
            f"the model refused to answer{refusal:.{_PROBLEM_LENGTH}}: name another model, or do "
            "without one"
        ) from error


def _provider_error(error: Exception) -> ModelError:
    if isinstance(error, NotImplementedError):
        return ModelError(
            "the model cannot give structured output: name one that knows it or calls tools, or "
            "do without one"
        )
    return ModelError(
        f"the model did not answer ({type(error).__name__}: {error!s:.{_PROBLEM_LENGTH}}): check "
        "its key, "
        "its limits and the connection, then try again"
    )


def _describe_problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        errors = error.errors(include_url=False, include_context=False)
        text = "; ".join(
            f"{'.'.join(map(str, error['loc'])) or 'it'}: {error['msg']}" for error in errors
        )
    else:
        text = str(error)
    return f"{text.strip():.{_PROBLEM_LENGTH}}."


def _refusal_text(raw: object) -> str | None:
    """Read a model's refusal, to be put behind "refused"; None if there is none."""
    if not isinstance(raw, AIMessage):
        return None
    blocks = raw.content if isinstance(raw.content, list) else []
    refusals = [raw.additional_kwargs.get("refusal")]
    refusals += [block.get("refusal") for block in blocks if isinstance(block, dict)]
    if spoken := next((text for text in refusals if text), None):
        return f" ({spoken})"
    ends = (
        raw.response_metadata.get(name) for name in ("finish_reason", "stop_reason", "stopReason")
    )
    return "" if any(str(end).lower() in _REFUSAL_REASONS for end in ends) else None
