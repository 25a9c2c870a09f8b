"""Tools: their definition, registry and output limits, and the built-in tools.

May import: skill, agent, question, permission, search, shell, filesystem."""
