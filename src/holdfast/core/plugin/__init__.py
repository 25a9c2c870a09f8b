"""Plugins: Python code that adds to a Location and can be removed again.

May import: tool, agent, command, catalog, context, config."""
