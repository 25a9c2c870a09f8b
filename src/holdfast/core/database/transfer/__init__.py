"""Transfers all Sessions of one store to another: resumable, verified, and nobody else writes meanwhile."""
