"""Forms that a person fills in.

May import: permission, session, event."""
