"""Memory in LangGraph and LangChain: nodes, middleware, tools, a retriever, a worker."""
