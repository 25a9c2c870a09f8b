"""Handlers, named after the protocol's operations."""
