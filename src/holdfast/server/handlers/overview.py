"""Handlers of `protocol/overview.py`."""
