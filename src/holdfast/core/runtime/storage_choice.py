"""Chooses where Sessions are stored: an argument, HOLDFAST_DATABASE, the user's configuration, or else a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.config.storage import SETTING, configured_storage
from holdfast.core.database.place import DATABASE, check_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.core.database.place import Place

FILE = "sqlite"
"""In the place of an address: the file in the data directory."""


def storage_place(
    given: str | None, environment: Mapping[str, str], file: Path, managed: Mapping[str, Any] | None = None
) -> Place:
    """`given` is the argument of a host program; `managed` its configuration. An empty text counts as none."""
    for text, source in ((given, "database"), (environment.get(DATABASE), DATABASE)):
        if text:
            return _place(text, source, file)
    return _place(configured_storage(environment, managed) or FILE, SETTING, file)


def _place(text: str, source: str, file: Path) -> Place:
    return file if text == FILE else check_address(text, source)
