"""Finding files by name and lines by pattern, with ripgrep or in Python.

May import: process, filesystem."""
