"""What the command line needs to know about the address of a database."""

from __future__ import annotations

from holdfast.core.database.place import has_password as has_password
