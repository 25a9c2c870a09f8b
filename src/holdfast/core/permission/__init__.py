"""Permission rules, and asking a person where the rules say so.

May import: session, event, project."""
