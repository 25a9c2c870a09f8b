"""The HTTP server: plain ASGI over core, routed by the protocol's data."""
