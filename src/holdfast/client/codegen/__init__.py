"""Generates clients: the protocol is compiled into a Contract, which the emitters read."""
