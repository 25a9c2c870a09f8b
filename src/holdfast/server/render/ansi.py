"""What programs write to a terminal, as text or as HTML: colours become classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.server.render.text import escaped
from holdfast.text.program_output import COLOURS, has_sequences, program_lines

if TYPE_CHECKING:
    from holdfast.text.program_output import Look

NAMES = dict(zip(COLOURS, ("ak", "ar", "ag", "ay", "al", "am", "ac", "aw"), strict=True)) | {
    "bold": "ab",
    "dim": "ad",
    "italic": "ai",
    "underline": "au",
}
CLASSES = frozenset(NAMES.values())


def plain(text: str) -> str:
    """Without sequences, and with lines as they look in the end."""
    if not has_sequences(text):
        return text
    return "\n".join("".join(piece for piece, _ in runs) for runs in program_lines(text))


def terminal_html(text: str) -> str:
    if not has_sequences(text):
        return escaped(text)
    return "\n".join("".join(_html(piece, look) for piece, look in runs) for runs in program_lines(text))


def _html(piece: str, look: Look) -> str:
    classes = " ".join(NAMES[name] for name in look if name in NAMES)
    return f'<span class="{classes}">{escaped(piece)}</span>' if classes else escaped(piece)
