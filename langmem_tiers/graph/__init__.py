"""Memory in LangGraph and LangChain; LangGraph is an extra: who lacks it is told so."""

from langmem_tiers.core.errors import MissingExtraError

try:
    import langgraph.graph  # noqa: F401 - what each module here stands on
except ImportError as error:
    raise MissingExtraError(
        "this needs LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error
