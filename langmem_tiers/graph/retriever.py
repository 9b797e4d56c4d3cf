"""TieredMemoryRetriever: a coordinator's memory as a LangChain retriever."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import ConfigDict, Field, ValidationError

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection, facts
from langmem_tiers.graph.node import careful_of
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.recalling import get_context
from langmem_tiers.postgres.flow import Ask, Flow, Runs, both, unit
from langmem_tiers.recall.ranking import ProfileFunction

FAILED: Final = "memory_failed"
"""The custom event that tells a run that it goes without memory: what failed, and why."""


class TieredMemoryRetriever(BaseRetriever):
    """Recalls documents, best first.

    A document's page is what the memory says, its id the memory's key, and its metadata all
    else, as JSON: tier, memory_type, score, explanation, speaker, occurred_at, …; `by_words` is
    what the embedding model failed by, where words alone were sought. Beside these is whatever the
    memory's own `metadata` holds. Of what is called alike, ours stands there; its own is under
    `metadata`, whole.

    Every field but `memory` and `k` is an option of `MemoryCoordinator.get_context`, which says
    what it means; `memory_tags` are its `tags`, as a retriever's own tags are those of its runs.
    `k` is the limit. All can also be given to one call: `retriever.invoke(query, k=3)`.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
        from langmem_tiers.graph.retriever import TieredMemoryRetriever

        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
            memory.store("The API key rotates on Mondays", memory_type="semantic")
            retriever = TieredMemoryRetriever(memory=memory, k=3)
            print(retriever.invoke("When do keys change?"))
        ```
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: MemoryCoordinator
    k: int = Field(default=5, ge=0)
    project_id: str | None = None
    session_id: str | None = None
    tiers: list[str] | None = None
    memory_types: list[str] | None = None
    memory_tags: list[str] = Field(default_factory=list)
    agent_id: str | None = None
    max_tokens: int | None = None
    since: datetime | str | None = None
    as_of: datetime | str | None = None
    known_at: datetime | str | None = None
    min_importance: float | None = None
    filter: dict[str, Any] | None = None
    deduplicate: bool = False
    similarity_threshold: float = 0.85
    profile: str | ProfileFunction | None = None
    min_match: float | tuple[float, float] | None = None
    exclude: tuple[str, ...] = ()
    review: Literal["own", "model"] | None = None
    on_error: Literal["continue", "raise"] = "continue"
    """The way on where Postgres fails or takes too long: `continue` returns no documents, and tells
    the log and a custom event `memory_failed`; `raise` raises the error."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Take the fields; what pydantic says of them is told as an error of ours."""
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise InvalidInputError(_wrong(error)) from error

    @property
    def runner(self) -> Runs:
        """What runs its flows."""
        return self.memory.runner

    def _found(
        self, /, query: str, *, run_manager: Any, k: int | None = None, **given: Any
    ) -> Flow[list[Document]]:
        """The documents of one call, a run of its own; where it fails none, and that is told."""
        if unknown := given.keys() - set(_OPTIONS):
            raise InvalidTypeError(
                f"a retriever has no option {short(min(unknown))}: use k for the limit, or one of "
                f"{', '.join(_OPTIONS)}"
            )
        options: Any = {**{name: getattr(self, name) for name in _OPTIONS}, **given}
        options |= {"tags": options.pop("memory_tags"), "limit": self.k if k is None else k}
        recalled, told = get_context(self.memory, query, **options), dict[str, str]()
        with careful_of(self.on_error)("recall", None, told):
            found = yield from unit(recalled)
            return [_document(one, found.by_words) for one in found]
        child = run_manager.get_child()
        tell = partial(child.on_custom_event, FAILED, told, run_id=run_manager.run_id)
        yield Ask(tell, tell)
        return []

    _get_relevant_documents, _aget_relevant_documents = both(_found)

    def _get_ls_params(self, **_: Any) -> LangSmithRetrieverParams:
        return LangSmithRetrieverParams(
            ls_retriever_name="tieredmemory", ls_vector_store_provider="TieredStore"
        )


def _wrong(error: ValidationError) -> str:
    """The first thing that is wrong with the fields of a retriever."""
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"][:1])) or "it"
    return f"{short(field)} of a retriever: {first['msg']}, not {short(first['input'])}"


def _document(one: Recollection, by_words: str | None) -> Document:
    """What it says as the page, all else as metadata: the memory's own below what we know of it."""
    known = facts(one)
    page = known.pop("content")
    if by_words is not None:
        known["by_words"] = by_words
    return Document(id=one.key, page_content=page, metadata={**known["metadata"], **known})


_OPTIONS = tuple(
    name
    for name in TieredMemoryRetriever.model_fields
    if name not in {*BaseRetriever.model_fields, "memory", "k", "on_error"}
)
