"""What everything stands on: nouns, options, errors, texts, values."""
