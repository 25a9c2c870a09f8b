"""Policy: which providers may be used.

May import: config, permission."""
