"""The client: generated operations over a one-method transport. Knows schema and protocol, nothing of the server."""
