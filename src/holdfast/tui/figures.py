"""Times, sizes and costs in few characters."""

from __future__ import annotations


def duration(milliseconds: float) -> str:
    """`240 ms`, `3.2 s`, `48 s`, `2 min 5 s`, `1 h 20 min`."""
    seconds = max(0.0, milliseconds / 1000)
    if seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def short_count(number: int) -> str:
    """`950`, `1.2k`, `48k`, `1.3M`."""
    if number < 1_000:
        return str(number)
    if number < 99_950:
        return f"{number / 1_000:.1f}".removesuffix(".0") + "k"
    return f"{number / 1_000:.0f}k" if number < 999_500 else f"{number / 1_000_000:.1f}M"


def size(characters: int) -> str:
    return f"{characters} B" if characters < 1_000 else f"{characters / 1_000:.1f} kB"


def cost(dollars: float) -> str:
    """More digits for small sums."""
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"
