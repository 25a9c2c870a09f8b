"""Finding files by name and lines by pattern: ripgrep, or the same in Python where it is missing."""
