"""The base of all other packages: nouns, options, errors, texts, values."""
