"""The audit log: how its rows are chained, and whether the chain holds."""
