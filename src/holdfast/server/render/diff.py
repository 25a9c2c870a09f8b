"""A unified diff as a table with line numbers, in the classes that the page styles."""

from __future__ import annotations

import re

from holdfast.server.render.text import bounded, escaped

LINES = 5_000
LINE = 2_000
"""Characters of a line."""
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@(.*)")
_ROW = '<tr{kind}><td class="ln">{old}</td><td class="ln">{new}</td><td class="cd">{code}</td></tr>'


def diff_html(patch: str, *, lines: int = LINES) -> tuple[str, bool]:
    """The rows of one file, without its header, and whether something was left out."""
    rows: list[str] = []
    old = new = 0
    begun = cut = False
    given = patch.split("\n")
    if given and not given[-1]:
        given.pop()
    for line in given:
        if len(rows) >= lines:
            cut = True
            break
        text, shortened = bounded(line, LINE, line=LINE)
        cut = cut or shortened
        sign, code = text[:1], escaped(text[1:])
        if (hunk := _HUNK.fullmatch(text)) is not None:
            old, new, begun = int(hunk[1]), int(hunk[2]), True
            rows.append(_ROW.format(kind=' class="hunk"', old="", new="", code=escaped(text)))
        elif not begun:
            continue  # the header
        elif sign == "+":
            rows.append(_ROW.format(kind=' class="add"', old="", new=new, code=code))
            new += 1
        elif sign == "-":
            rows.append(_ROW.format(kind=' class="rem"', old=old, new="", code=code))
            old += 1
        elif sign == "\\":
            rows.append(_ROW.format(kind=' class="hunk"', old="", new="", code=escaped(text[2:])))
        else:
            rows.append(_ROW.format(kind="", old=old, new=new, code=code))
            old, new = old + 1, new + 1
    table = f'<div class="tbl"><table class="diff"><tbody>{"".join(rows)}</tbody></table></div>' if rows else ""
    return table, cut
