"""Runs the server and a client in one process, and serves a runtime on a port or inside an ASGI application."""
