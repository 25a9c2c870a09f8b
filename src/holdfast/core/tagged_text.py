"""Text of others between tags, as a model reads it."""

from __future__ import annotations

import re


def inside_tag(tag: str, text: str) -> str:
    """The text without anything that a model could take for the end of the tag around it."""
    return re.sub(rf"</\s*{re.escape(tag)}", f"&lt;/{tag}", text, flags=re.IGNORECASE)
