"""How memory learns: failures, outcomes, promotion."""
