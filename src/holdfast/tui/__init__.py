"""The interactive terminal: a client of the API, drawn with prompt_toolkit. Knows nothing of core."""
