"""Questions that the model asks a person.

May import: permission, session, event."""
