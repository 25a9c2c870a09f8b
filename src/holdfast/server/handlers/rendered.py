"""Handlers of `protocol/rendered.py`."""
