"""Handlers of the protocol's operations."""
