"""TieredStore: a LangGraph `BaseStore` in three tiers."""
