"""Graphs that langgraph.json serves."""
