"""The agents of a Location: built in, configured, and read from markdown files.

May import: config, context, permission, session."""
