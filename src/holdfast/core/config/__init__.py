"""Configuration: OpenCode's files, read and never written."""
