"""Run one turn of an agent: its context, what it keeps, its commit and its trace."""
