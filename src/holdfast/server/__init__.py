"""The HTTP side: plain ASGI over core, routed by the protocol's own data."""
