"""The event log: append, replay, read, tail, and the live bus.

May import: database."""
