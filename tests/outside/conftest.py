"""What a user has: the command line, the HTTP API, the generated clients and the embedded host. Nothing of core is used
here."""

from __future__ import annotations

from tests.cli.conftest import holdfast, provider, serve

__all__ = ["holdfast", "provider", "serve"]
