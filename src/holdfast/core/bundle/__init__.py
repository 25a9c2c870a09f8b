"""Bundles: exports Sessions to one file, verifies it, and imports it into another store (ADR 31)."""
