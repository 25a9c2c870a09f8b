"""Questions that a model asks a person."""
