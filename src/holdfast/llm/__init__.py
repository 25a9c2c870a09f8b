"""One provider turn: a provider-neutral request in, canonical events out. Knows no Session and runs no tool."""
