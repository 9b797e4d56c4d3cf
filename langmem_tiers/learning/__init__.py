"""Learning: failures and lessons, outcomes, skills, promotion."""
