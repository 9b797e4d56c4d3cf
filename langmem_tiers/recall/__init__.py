"""Read memories: query, candidates, match, rank, budget, prompt text."""
