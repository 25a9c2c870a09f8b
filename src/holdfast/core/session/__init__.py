"""The Session model: records, inbox, messages, history, activity, and ownership.

May import: event, database, filesystem."""
