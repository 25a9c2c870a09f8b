"""Plugins: Python code of others that adds to a Location, and can be taken out without a trace."""
