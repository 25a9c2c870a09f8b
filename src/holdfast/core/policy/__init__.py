"""Policy: which providers may be used at all."""
