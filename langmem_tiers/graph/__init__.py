"""Memory in LangGraph and LangChain. LangGraph is an extra: without it the import says so."""

from langmem_tiers.core.errors import MissingExtraError

try:
    import langgraph.graph  # noqa: F401 - every module here needs it
except ImportError as error:
    raise MissingExtraError(
        "this needs LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error
