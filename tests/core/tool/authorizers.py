"""Authorizers for tests of tools."""

from __future__ import annotations

from typing import Any


class AllowAll:
    """Allows everything and records nothing."""

    async def allow(self, *arguments: Any, **options: Any) -> None:
        return None
