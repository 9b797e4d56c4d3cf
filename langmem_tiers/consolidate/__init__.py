"""How memories grow old: rules and flows of consolidation; no framework, no driver."""
