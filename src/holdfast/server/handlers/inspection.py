"""Handlers of `protocol/inspection.py`."""
