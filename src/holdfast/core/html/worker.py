"""Program that converts a page from stdin to Markdown or text on stdout, within limits that it sets itself."""

from __future__ import annotations

import sys

MEMORY_BYTES = 2 * 1024**3


def work(form: str, cpu_seconds: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    page = sys.stdin.buffer.read().decode("utf-8")
    text = _converted(page, form)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _converted(page: str, form: str) -> str:
    if form == "markdown":
        from holdfast.core.html.markdown import to_markdown

        return to_markdown(page)
    from holdfast.core.html.text import to_text

    return to_text(page)


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))
