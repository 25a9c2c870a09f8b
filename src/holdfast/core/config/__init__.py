"""Configuration files, read and validated; OpenCode's format. Never written.

May import: permission."""
