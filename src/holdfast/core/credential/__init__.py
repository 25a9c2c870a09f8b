"""Credentials: who may be spoken for, kept where only their owner can read them."""
