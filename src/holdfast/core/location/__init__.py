"""Locations: which project a directory belongs to, and the services built for it."""
