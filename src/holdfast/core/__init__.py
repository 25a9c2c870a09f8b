"""The runtime: database, event log, sessions, tools. Knows nothing of HTTP."""
