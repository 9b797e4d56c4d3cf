"""Consolidation of memories: rules and flows, without a framework or a driver."""
