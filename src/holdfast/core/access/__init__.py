"""Tokens of callers, stored as hashes: every node knows them, and they outlive a restart."""
