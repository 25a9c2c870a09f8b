"""Snapshots of a Location's files, kept apart from the user's repository.

May import: project, process, config."""
