"""How memory is forgotten for good: what goes, how, and the proof that it is gone."""
