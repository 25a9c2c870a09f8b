"""The version of this software, in one place."""

__version__ = "0.1.0"
