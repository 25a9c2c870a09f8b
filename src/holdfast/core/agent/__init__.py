"""Agents: the built-in ones, those of configuration and of markdown files, and which one a Session runs as."""
