"""Getting a request to a provider: endpoint, framing, transport."""
