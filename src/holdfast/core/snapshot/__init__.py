"""Snapshots: the tree of a Location's files at a moment, kept apart from the user's own repository."""
