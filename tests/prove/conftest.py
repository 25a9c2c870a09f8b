"""Proofs with servers use the machine of the command line's tests."""

from __future__ import annotations

from tests.cli.conftest import holdfast, provider, serve

__all__ = ["holdfast", "provider", "serve"]
