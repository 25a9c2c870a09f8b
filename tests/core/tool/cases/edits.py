"""Edits with their exact outcome: name, content, old text, new text, then the new content or a part of the error."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

BOM = b"\xef\xbb\xbf"


class Edit(NamedTuple):
    name: str
    before: bytes
    old: str
    new: str
    after: bytes | str
    """Bytes: the new content. Text: a part of the refusal, and the file stays."""
    options: Mapping[str, Any] = MappingProxyType({})


ALL = {"replaceAll": True}
METHOD = b"    def f(self):\n        x = 1\n        return x\n"
PYTHON = b"class A:\n" + METHOD + b"\n" + METHOD.replace(b"f", b"g")

EXACT = [
    Edit("a word", b"one two three\n", "two", "2", b"one 2 three\n"),
    Edit("at the start", b"one two\n", "one", "1", b"1 two\n"),
    Edit("at the end", b"one two", "two", "2", b"one 2"),
    Edit("everything", b"abc", "abc", "x", b"x"),
    Edit("removed", b"a b c\n", " b", "", b"a c\n"),
    Edit("all of it removed", b"abc\n", "abc\n", "", b""),
    Edit("a whole line removed", b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
    Edit("lines added", b"a\nc\n", "a\n", "a\nb\n", b"a\nb\nc\n"),
    Edit("several lines", b"a\nb\nc\nd\n", "b\nc", "x\ny\nz", b"a\nx\ny\nz\nd\n"),
    Edit("only the final newline", b"a\n", "a\n", "a", b"a"),
    Edit("a final newline added", b"a", "a", "a\n", b"a\n"),
    Edit("no final newline kept", b"a\nb", "a", "x", b"x\nb"),
    Edit("tabs", b"\tif x:\n\t\ty\n", "\t\ty", "\t\tz", b"\tif x:\n\t\tz\n"),
    Edit("trailing spaces", b"a  \nb\n", "a  \n", "a\n", b"a\nb\n"),
    Edit("unicode", "naïve café\n".encode(), "café", "tea", "naïve tea\n".encode()),
    Edit("astral", "🦀🦀x\n".encode(), "🦀x", "🐍y", "🦀🐍y\n".encode()),
    Edit("combining", "e\u0301x é\n".encode(), "é", "E", "e\u0301x E\n".encode()),
    Edit("line separators inside", "a\u2028b\vc\n".encode(), "\u2028b", "-", b"a-\vc\n"),
    Edit("form feed", b"a\x0cb\n", "\x0c", "\n", b"a\nb\n"),
    Edit("a regex is text", b"f(x*)[0]\n", "(x*)[0]", "(y+)?", b"f(y+)?\n"),
    Edit("nul-free control characters", b"a\x1b[0mb\n", "\x1b[0m", "", b"ab\n"),
    Edit("overlapping candidates count once", b"aaa\n", "aa", "b", b"ba\n"),
    Edit("a blank line", b"a\n\n\nb\n", "\n\n\n", "\n\n", b"a\n\nb\n"),
]

LITERAL = [
    Edit(f"literal {new!r}", b"cost: X\n", "X", new, f"cost: {new}\n".encode())
    for new in ("$$5 $&", "$1", r"\1", r"\g<0>", "%s", "{}", "{0}", "$'", "$`", "-rf", "'; DROP TABLE x;--", '"', "\\")
]

REPEATED = [
    Edit("twice", b"a b a\n", "a", "x", "matches 2 places"),
    Edit("four times", b"aaaa", "a", "x", "matches 4 places"),
    Edit("twice over lines", PYTHON, "        x = 1\n        return x\n", "pass\n", "matches 2 places"),
    Edit("all", b"a b a\n", "a", "x", b"x b x\n", ALL),
    Edit("all, just one", b"a b\n", "a", "x", b"x b\n", ALL),
    Edit("all, none overlapping", b"aaaaa\n", "aa", "b", b"bba\n", ALL),
    Edit("all, longer", b"a\na\n", "a", "aa", b"aa\naa\n", ALL),
    Edit("all, to nothing", b"a-a-a\n", "-", "", b"aaa\n", ALL),
    Edit("all, over CRLF", b"a\r\nb\r\na\r\n", "a\n", "x\n", b"x\r\nb\r\nx\r\n", ALL),
    Edit("all never guesses", b"  a\n", "a\nb", "x", "not found", ALL),
]

ENDINGS = [
    Edit("CRLF file, LF text", b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
    Edit("CRLF file, CRLF text", b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
    Edit("LF file, CRLF text", b"a\nb\n", "a\r\nb\r\n", "x\r\ny\r\n", b"x\ny\n"),
    Edit("CRLF, one word", b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
    Edit("CRLF, last line without end", b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
    Edit("mixed: in the LF part", b"a\r\nb\nc\nd\r\n", "b\nc", "x\ny\nz", b"a\r\nx\ny\nz\nd\r\n"),
    Edit("mixed: in the CRLF part", b"a\r\nb\r\nc\nd\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\nd\n"),
    Edit("mixed: over both", b"a\r\nb\nc\r\n", "a\nb\nc", "x\ny", b"x\r\ny\r\n"),
    Edit("mixed: the rest is untouched", b"1\n2\r\n3\n4\r\n5", "3", "three", b"1\n2\r\nthree\n4\r\n5"),
    Edit("a lone CR is no line end", b"a\rb\nc\n", "a\rb", "x", b"x\nc\n"),
    Edit("CR before CRLF", b"a\r\r\nb\n", "b", "c", b"a\r\r\nc\n"),
    Edit("CRLF removed with its line", b"a\r\nb\r\nc\r\n", "b\n", "", b"a\r\nc\r\n"),
]

ENCODINGS = [
    Edit("BOM kept", BOM + b"a b\n", "a", "x", BOM + b"x b\n"),
    Edit("BOM not matched", BOM + b"a\n", "\ufeffa", "x", "not found"),
    Edit("BOM not doubled", BOM + b"a\n", "a", "\ufeffx", BOM + b"x\n"),
    Edit("BOM and CRLF", BOM + b"a\r\nb\r\n", "a\nb", "x\ny", BOM + b"x\r\ny\r\n"),
    Edit("UTF-16", b"\xff\xfe" + "a ä\r\n".encode("utf-16-le"), "ä", "ö", b"\xff\xfe" + "a ö\r\n".encode("utf-16-le")),
    Edit("UTF-16 BE", b"\xfe\xff" + "a\n".encode("utf-16-be"), "a", "🦀", b"\xfe\xff" + "🦀\n".encode("utf-16-be")),
    Edit("Latin-1", "Größe x\n".encode("latin-1"), "x", "für y", "Größe für y\n".encode("latin-1")),
    Edit("Latin-1 has no such letter", "Größe x\n".encode("latin-1"), "x", "日", "encoding"),
    Edit("broken UTF-8", "ääää x".encode() + b"\xff\n", "x", "y", "not valid UTF-8"),
    Edit("binary", b"\x00\x01x\xff", "x", "y", "not valid UTF-8"),
]

BLOCK = "def f(self):\n    x = 1\n    return x"
LOOSE = [
    Edit(
        "moved right",
        b"class A:\n        def f(self):\n            x = 1\n            return x\n",
        BLOCK,
        "def f(self):\n    y = 2\n\n    return y",
        b"class A:\n        def f(self):\n            y = 2\n\n            return y\n",
    ),
    Edit(
        "moved left",
        b"def f(self):\n    x = 1\n    return x\n",
        "    def f(self):\n        x = 1\n        return x\n",
        "    def f(self):\n        return 2\n",
        b"def f(self):\n    return 2\n",
    ),
    Edit("tabs for spaces", b"\tdef f():\n\t\tx\n", "def f():\n\tx", "def f():\n\ty", b"\tdef f():\n\t\ty\n"),
    Edit("indentation, twice", PYTHON, "x = 1\nreturn x", "pass", "at lines 3, 7"),
    Edit("indentation, CRLF kept", b"if a:\r\n    b\r\n    c\r\n", "b\nc", "d\ne", b"if a:\r\n    d\r\n    e\r\n"),
    Edit("trailing space in the file", b"a = 1  \nb = 2\n", "a = 1\nb = 2", "c", b"c\n"),
    Edit("trailing space in oldString", b"a = 1\nb = 2\n", "a = 1  \nb = 2", "c", b"c\n"),
    Edit("ragged indentation", b"a\n   b\n c\n", "a\n b\n   c", "x", b"x\n"),
    Edit("runs of spaces", b"a  =  1\n", "a = 1", "b = 2", b"b = 2\n"),
    Edit("tab for space inside", b"a\t= 1\nb\n", "a = 1\nb", "c", b"c\n"),
    Edit("escaped newline", b"a\nb\nc\n", "a\\nb", "x\\ny", b"x\ny\nc\n"),
    Edit("escaped tab", b"a\tb\n", "a\\tb", "x\\ty", b"x\ty\n"),
    Edit("escaped quote", b'say "hi"\n', 'say \\"hi\\"', 'say \\"ho\\"', b'say "ho"\n'),
    Edit(
        "anchors",
        b"def f():\n    alpha = compute(1)\n    beta = compute(2)\n    return beta\n",
        "def f():\n    alpha = compute(1)\n    betta = compute(2)\n    return beta",
        "pass",
        b"pass\n",
    ),
    Edit(
        "anchors, inside too different",
        b"def f():\n    one two three\n    return\n",
        "def f():\n    x\n    return",
        "y",
        "not found",
    ),
    Edit("typographic quotes", "say “hi” — now…\n".encode(), 'say "hi" - now...', "bye", b"bye\n"),
    Edit("a space that does not break", "a\u00a0b c\n".encode(), "a b c", "x", b"x\n"),
    Edit("only whole lines", b"prefix  a =  1 suffix\n", "a = 1", "b", "not found"),
    Edit("last line without end", b"a\n  b", "b\n", "c\n", b"a\n  c"),
    Edit("block at the end without end", b"a\n  b\n  c", "b\nc\n", "d\n", b"a\n  d"),
    Edit("only blanks are no guess", b"a\n\n   \nb\n", "  \n\t\n ", "x", "not found"),
]

NOT_FOUND = [
    Edit("nothing like it", b"hello\n", "completely different", "x", "not found"),
    Edit("another case", b"Hello World\n", "hello world", "x", "1: Hello World"),
    Edit("empty file", b"", "a", "b", "not found"),
    Edit("newline only", b"a", "\n", "x", "not found"),
]

EDITS = [*EXACT, *LITERAL, *REPEATED, *ENDINGS, *ENCODINGS, *LOOSE, *NOT_FOUND]
