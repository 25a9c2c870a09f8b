"""Patches with their exact outcome: name, files before, patch body, then the files after or a part of the error."""

from __future__ import annotations

from typing import NamedTuple

BOM = b"\xef\xbb\xbf"

Files = dict[str, bytes]


class Patch(NamedTuple):
    name: str
    before: Files
    body: str
    after: Files | str
    """Files: all that is there afterwards. Text: a part of the refusal, and nothing changes."""
    wrap: bool = True

    @property
    def text(self) -> str:
        return f"*** Begin Patch\n{self.body}\n*** End Patch" if self.wrap else self.body


def update(body: str, path: str = "f") -> str:
    return f"*** Update File: {path}\n{body}"


ABC = b"a\nb\nc\n"
TEN = b"".join(b"line %d\n" % number for number in range(1, 11))
TWICE = b"def f():\n    x = 1\n    return x\n\ndef g():\n    x = 1\n    return x\n"

OPERATIONS = [
    Patch("add", {}, "*** Add File: new\n+one\n+two", {"new": b"one\ntwo\n"}),
    Patch("add below new directories", {}, "*** Add File: a/b/new\n+x", {"a/b/new": b"x\n"}),
    Patch("add empty", {}, "*** Add File: new", {"new": b""}),
    Patch("add blank lines", {}, "*** Add File: new\n+\n+\n+x\n+", {"new": b"\n\nx\n\n"}),
    Patch(
        "add keeps signs",
        {},
        "*** Add File: new\n++\n+-x\n+ y\n+@@\n+*** End Patch",
        {"new": b"+\n-x\n y\n@@\n*** End Patch\n"},
    ),
    Patch("add what is there", {"f": b"x"}, "*** Add File: f\n+y", "already exists"),
    Patch("delete", {"f": b"x", "g": b"y"}, "*** Delete File: f", {"g": b"y"}),
    Patch("delete what is not there", {"g": b"y"}, "*** Delete File: f", "does not exist"),
    Patch("delete binary", {"f": b"\0\xff"}, "*** Delete File: f", {}),
    Patch("update what is not there", {}, update("@@\n-a\n+b"), "does not exist"),
    Patch(
        "three at once",
        {"f": ABC, "g": b"x"},
        "*** Add File: h\n+h\n*** Delete File: g\n" + update("@@\n-b\n+B"),
        {"f": b"a\nB\nc\n", "h": b"h\n"},
    ),
    Patch(
        "blank lines between operations",
        {"f": ABC, "g": b"x"},
        "\n*** Add File: h\n+h\n\n*** Delete File: g\n\n" + update("@@\n-b\n+B\n"),
        {"f": b"a\nB\nc\n", "h": b"h\n"},
    ),
    Patch("paths are trimmed", {"f": ABC}, "*** Update File:   f  \n@@\n-b\n+B", {"f": b"a\nB\nc\n"}),
    Patch("paths with spaces", {"a b": ABC}, update("@@\n-b\n+B", "a b"), {"a b": b"a\nB\nc\n"}),
    Patch("a path that looks like an option", {"-rf": ABC}, update("@@\n-b\n+B", "-rf"), {"-rf": b"a\nB\nc\n"}),
]

MOVES = [
    Patch("move", {"f": ABC}, update("*** Move to: g\n@@\n-b\n+B"), {"g": b"a\nB\nc\n"}),
    Patch(
        "move below new directories", {"f": ABC}, update("*** Move to: x/y/g\n@@\n a\n-b\n+B"), {"x/y/g": b"a\nB\nc\n"}
    ),
    Patch("move onto a file", {"f": ABC, "g": b"kept"}, update("*** Move to: g\n@@\n-b\n+B"), "already exists"),
    Patch("move onto itself", {"f": ABC}, update("*** Move to: ./f\n@@\n-b\n+B"), "already exists"),
    Patch("move without a change", {"f": ABC}, update("*** Move to: g\n@@\n b"), {"g": ABC}),
    Patch("move without a chunk", {"f": ABC}, update("*** Move to: g"), "has no @@ chunk"),
    Patch(
        "move, then add in its place",
        {"f": ABC},
        update("*** Move to: g\n@@\n-b\n+B\n*** Add File: f\n+x"),
        {"g": b"a\nB\nc\n", "f": b"x\n"},
    ),
    Patch(
        "move, then update",
        {"f": ABC},
        update("*** Move to: g\n@@\n-b\n+B") + "\n" + update("@@\n-c\n+C", "g"),
        {"g": b"a\nB\nC\n"},
    ),
    Patch(
        "move twice",
        {"f": ABC},
        update("*** Move to: g\n@@\n-b\n+B") + "\n" + update("*** Move to: h\n@@\n-c\n+C", "g"),
        {"h": b"a\nB\nC\n"},
    ),
    Patch(
        "delete, then move there",
        {"f": ABC, "g": b"x"},
        "*** Delete File: g\n" + update("*** Move to: g\n@@\n-b\n+B"),
        {"g": b"a\nB\nc\n"},
    ),
    Patch(
        "add below a new directory, then move",
        {},
        "*** Add File: x/f\n+a\n+b\n" + update("*** Move to: g\n@@\n-b\n+B", "x/f"),
        {"g": b"a\nB\n"},
    ),
    Patch("move to nothing", {"f": ABC}, update("*** Move to:\n@@\n-b\n+B"), "Invalid patch line"),
    Patch(
        "move away and update the old name",
        {"f": ABC},
        update("*** Move to: g\n@@\n-b\n+B") + "\n" + update("@@\n-c\n+C"),
        "does not exist",
    ),
    Patch("move to an empty file", {"f": b"a\n"}, update("*** Move to: g\n@@\n-a"), {"g": b""}),
]

SAME_FILE = [
    Patch("two updates", {"f": ABC}, update("@@\n-a\n+A") + "\n" + update("@@\n-A\n+AA"), {"f": b"AA\nb\nc\n"}),
    Patch("add, then update", {}, "*** Add File: f\n+a\n+b\n" + update("@@\n-b\n+B"), {"f": b"a\nB\n"}),
    Patch("delete, then add", {"f": b"old"}, "*** Delete File: f\n*** Add File: f\n+new", {"f": b"new\n"}),
    Patch("add, then delete", {}, "*** Add File: f\n+a\n*** Delete File: f", {}),
    Patch("delete twice", {"f": b"x"}, "*** Delete File: f\n*** Delete File: f", "does not exist"),
    Patch("delete, then update", {"f": b"x"}, "*** Delete File: f\n" + update("@@\n-x\n+y"), "does not exist"),
    Patch(
        "second update does not fit",
        {"f": ABC},
        update("@@\n-a\n+A") + "\n" + update("@@\n-a\n+AA"),
        "Failed to find expected lines",
    ),
]

CHUNKS = [
    Patch("replace", {"f": ABC}, update("@@\n a\n-b\n+B\n c"), {"f": b"a\nB\nc\n"}),
    Patch("remove", {"f": ABC}, update("@@\n a\n-b\n c"), {"f": b"a\nc\n"}),
    Patch("insert in the middle", {"f": ABC}, update("@@\n a\n+x\n b"), {"f": b"a\nx\nb\nc\n"}),
    Patch("insert at the start", {"f": ABC}, update("@@\n+x\n a"), {"f": b"x\na\nb\nc\n"}),
    Patch("insert without context goes to the end", {"f": ABC}, update("@@\n+x\n+y"), {"f": b"a\nb\nc\nx\ny\n"}),
    Patch("insert into an empty file", {"f": b""}, update("@@\n+x"), {"f": b"x\n"}),
    Patch("insert behind a context line", {"f": ABC}, update("@@ b\n+x"), {"f": b"a\nb\nx\nc\n"}),
    Patch("everything removed", {"f": ABC}, update("@@\n-a\n-b\n-c"), {"f": b""}),
    Patch("the first chunk without its mark", {"f": ABC}, update(" a\n-b\n+B"), {"f": b"a\nB\nc\n"}),
    Patch(
        "interleaved",
        {"f": TEN},
        update("@@\n line 2\n-line 3\n+three\n line 4\n-line 5\n+five\n+5.5\n line 6"),
        {"f": TEN.replace(b"line 3", b"three").replace(b"line 5", b"five\n5.5")},
    ),
    Patch(
        "several chunks",
        {"f": TEN},
        update("@@\n-line 2\n+two\n@@\n-line 9\n+nine"),
        {"f": TEN.replace(b"line 2\n", b"two\n").replace(b"line 9", b"nine")},
    ),
    Patch(
        "chunks out of order",
        {"f": TEN},
        update("@@\n-line 9\n+nine\n@@\n-line 2\n+two"),
        "Failed to find expected lines",
    ),
    Patch("chunks that touch", {"f": ABC}, update("@@\n-a\n+A\n@@\n-b\n+B"), {"f": b"A\nB\nc\n"}),
    Patch("chunks that overlap", {"f": ABC}, update("@@\n a\n-b\n+B\n@@\n-b\n+C"), "Failed to find expected lines"),
    Patch(
        "repeated lines: the first",
        {"f": TWICE},
        update("@@\n-    x = 1\n+    x = 2"),
        {"f": TWICE.replace(b"x = 1", b"x = 2", 1)},
    ),
    Patch(
        "repeated lines: by context",
        {"f": TWICE},
        update("@@ def g():\n-    x = 1\n+    x = 2"),
        {"f": TWICE[:36] + TWICE[36:].replace(b"x = 1", b"x = 2")},
    ),
    Patch(
        "repeated lines: one after the other",
        {"f": TWICE},
        update("@@\n-    x = 1\n+    x = 2\n@@\n-    x = 1\n+    x = 3"),
        {"f": TWICE.replace(b"x = 1", b"x = 2", 1).replace(b"x = 1", b"x = 3")},
    ),
    Patch(
        "context narrows",
        {"f": b"class A:\n  def f:\n    x\nclass B:\n  def f:\n    x\n"},
        update("@@ class B:\n@@   def f:\n-    x\n+    y"),
        {"f": b"class A:\n  def f:\n    x\nclass B:\n  def f:\n    y\n"},
    ),
    Patch("context is trimmed", {"f": b"  a\nb\n  a\nb\n"}, update("@@    a   \n-b\n+c"), {"f": b"  a\nc\n  a\nb\n"}),
    Patch("context not there", {"f": ABC}, update("@@ nowhere\n-b\n+B"), "Failed to find context 'nowhere' in f"),
    Patch(
        "context behind the chunk before",
        {"f": ABC},
        update("@@\n-c\n+C\n@@ a\n-b\n+B"),
        "Failed to find context 'a' in f",
    ),
    Patch("line numbers of diff", {"f": ABC}, update("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"), {"f": b"a\nB\nc\n"}),
    Patch(
        "line numbers and a context",
        {"f": TWICE},
        update("@@ -5,2 +5,2 @@ def g():\n-    x = 1\n+    x = 2"),
        {"f": TWICE[:36] + TWICE[36:].replace(b"x = 1", b"x = 2")},
    ),
    Patch("an empty line is context", {"f": b"a\n\nb\n"}, update("@@\n a\n\n-b\n+B"), {"f": b"a\n\nB\n"}),
    Patch("a blank line too many at the end", {"f": ABC}, update("@@\n a\n-b\n+B\n"), {"f": b"a\nB\nc\n"}),
    Patch("a removed blank line that is not there", {"f": b"a\nb\n"}, update("@@\n-b\n-\n+B\n+"), {"f": b"a\nB\n"}),
    Patch("an inserted line and blanks behind it", {"f": ABC}, update("@@ b\n+x\n\n"), {"f": b"a\nb\nx\nc\n"}),
    Patch("not there", {"f": ABC}, update("@@\n-z\n+y"), "Failed to find expected lines in f:\nz"),
    Patch("no change", {"f": ABC}, update("@@\n-b\n+b"), {"f": ABC}),
    Patch("signs inside", {"f": b"-a\n+b\n"}, update("@@\n--a\n+-c\n +b"), {"f": b"-c\n+b\n"}),
    Patch("literal text", {"f": b"x\n"}, update("@@\n-x\n+$& \\1 %s {}"), {"f": b"$& \\1 %s {}\n"}),
]

END_OF_FILE = [
    Patch("the last of several", {"f": b"x\na\nx\n"}, update("@@\n-x\n+y\n*** End of File"), {"f": b"x\na\ny\n"}),
    Patch("without the anchor the first", {"f": b"x\na\nx\n"}, update("@@\n-x\n+y"), {"f": b"y\na\nx\n"}),
    Patch("not at the end after all", {"f": b"a\nx\nb\n"}, update("@@\n-x\n+y\n*** End of File"), {"f": b"a\ny\nb\n"}),
    Patch("insert at the end", {"f": ABC}, update("@@\n c\n+d\n*** End of File"), {"f": b"a\nb\nc\nd\n"}),
    Patch(
        "anchored, blank, next operation",
        {"f": ABC},
        update("@@\n c\n+d\n*** End of File\n\n*** Add File: g\n+g"),
        {"f": b"a\nb\nc\nd\n", "g": b"g\n"},
    ),
    Patch(
        "looser at the end than exact before",
        {"f": b"x\n x \n"},
        update("@@\n-x\n+y\n*** End of File"),
        {"f": b"y\n x \n"},
    ),
]

LOOSE = [
    Patch("trailing spaces in the file", {"f": b"a  \nb\nc \n"}, update("@@\n a\n-b\n+B\n c"), {"f": b"a  \nB\nc \n"}),
    Patch("trailing spaces in the patch", {"f": ABC}, update("@@\n a  \n-b\n+B\n c"), {"f": b"a\nB\nc\n"}),
    Patch("other indentation", {"f": b"\ta\n\tb\n"}, update("@@\n     a\n-    b\n+\tB"), {"f": b"\ta\n\tB\n"}),
    Patch(
        "typographic context stays",
        {"f": "“a” — it’s…\nb\n".encode()},
        update('@@\n "a" - it\'s...\n-b\n+B'),
        {"f": "“a” — it’s…\nB\n".encode()},
    ),
    Patch("typographic removal", {"f": "x\u00a0= “1”\n".encode()}, update('@@\n-x = "1"\n+x = 2'), {"f": b"x = 2\n"}),
    Patch("exact before loose", {"f": b" a\na\n"}, update("@@\n-a\n+A"), {"f": b" a\nA\n"}),
    Patch(
        "loose context line",
        {"f": b"  def f():\n    x\n"},
        update("@@ def f():\n-    x\n+    y"),
        {"f": b"  def f():\n    y\n"},
    ),
]

ENDINGS = [
    Patch("CRLF", {"f": b"a\r\nb\r\nc\r\n"}, update("@@\n a\n-b\n+B\n+BB\n c"), {"f": b"a\r\nB\r\nBB\r\nc\r\n"}),
    Patch("mostly CRLF", {"f": b"a\r\nb\r\nc\n"}, update("@@\n-b\n+B"), {"f": b"a\r\nB\r\nc\n"}),
    Patch("mostly LF", {"f": b"a\r\nb\nc\n"}, update("@@\n-b\n+B"), {"f": b"a\r\nB\nc\n"}),
    Patch("a patch with CRLF", {"f": ABC}, update("@@\r\n a\r\n-b\r\n+B\r\n c\r"), {"f": b"a\nB\nc\n"}),
    Patch("no final newline, kept", {"f": b"a\nb\nc"}, update("@@\n-a\n+A"), {"f": b"A\nb\nc"}),
    Patch("no final newline, last line as context", {"f": b"a\nb"}, update("@@\n-a\n+A\n b"), {"f": b"A\nb"}),
    Patch("no final newline, last line replaced", {"f": b"a\nb"}, update("@@\n-b\n+B"), {"f": b"a\nB\n"}),
    Patch("no final newline, line behind it", {"f": b"a\nb"}, update("@@\n b\n+c"), {"f": b"a\nb\nc\n"}),
    Patch("no final newline, insert at the end", {"f": b"a"}, update("@@\n+b"), {"f": b"a\nb\n"}),
    Patch("no final newline, last line removed", {"f": b"a\nb"}, update("@@\n-b"), {"f": b"a\n"}),
    Patch("no final newline, CRLF", {"f": b"a\r\nb"}, update("@@\n b\n+c"), {"f": b"a\r\nb\r\nc\r\n"}),
    Patch("BOM", {"f": BOM + ABC}, update("@@\n-a\n+A"), {"f": BOM + b"A\nb\nc\n"}),
    Patch("BOM and CRLF", {"f": BOM + b"a\r\nb\r\n"}, update("@@\n a\n-b\n+B"), {"f": BOM + b"a\r\nB\r\n"}),
    Patch(
        "UTF-16",
        {"f": b"\xff\xfe" + "a\nä\n".encode("utf-16-le")},
        update("@@\n-ä\n+ö"),
        {"f": b"\xff\xfe" + "a\nö\n".encode("utf-16-le")},
    ),
    Patch("Unicode", {"f": "é\n🦀\n".encode()}, update("@@\n-🦀\n+🐍"), {"f": "é\n🐍\n".encode()}),
    Patch(
        "odd separators are no line ends",
        {"f": "a\u2028b\nc\vd\n".encode()},
        update("@@\n-c\vd\n+x"),
        {"f": "a\u2028b\nx\n".encode()},
    ),
    Patch("binary", {"f": b"a\0\xff\n"}, update("@@\n-a\n+b"), "not valid UTF-8"),
]

GRAMMAR = [
    Patch(
        "heredoc", {"f": ABC}, "cat <<'EOF'\n*** Begin Patch\n*** Delete File: f\n*** End Patch\nEOF", {}, wrap=False
    ),
    Patch(
        "plain heredoc", {"f": ABC}, "<<EOF\n*** Begin Patch\n*** Delete File: f\n*** End Patch\nEOF\n", {}, wrap=False
    ),
    Patch(
        "words around",
        {"f": ABC},
        "Here it is:\n  *** Begin Patch\n*** Delete File: f\n*** End Patch  \nDone.",
        {},
        wrap=False,
    ),
    Patch("no begin", {"f": ABC}, "*** Delete File: f\n*** End Patch", "*** Begin Patch", wrap=False),
    Patch("no end", {"f": ABC}, "*** Begin Patch\n*** Delete File: f", "*** End Patch", wrap=False),
    Patch("reversed", {"f": ABC}, "*** End Patch\n*** Begin Patch\n*** Delete File: f", "*** End Patch", wrap=False),
    Patch(
        "the end marker as a line of context",
        {"f": b"*** End Patch\nb\n"},
        update("@@\n *** End Patch\n-b\n+B"),
        {"f": b"*** End Patch\nB\n"},
    ),
    Patch("empty", {"f": ABC}, "", "patch rejected: empty patch"),
    Patch("nonsense", {"f": ABC}, "what is this", "Invalid patch line: what is this"),
    Patch("unknown operation", {"f": ABC}, "*** Rename File: f", "Invalid patch line: *** Rename File: f"),
    Patch("no path", {"f": ABC}, "*** Add File:\n+x", "Invalid patch line: *** Add File:"),
    Patch("body of a deletion", {"f": ABC}, "*** Delete File: f\n-a", "Invalid patch line: -a"),
    Patch("a line without sign in an addition", {}, "*** Add File: g\n+a\nb", "Invalid add file line: b"),
    Patch("a blank line in an addition", {}, "*** Add File: g\n+a\n\n+b", "Invalid add file line: +b"),
    Patch("no chunk", {"f": ABC}, "*** Update File: f", "Update of f has no @@ chunk"),
    Patch("a chunk of nothing", {"f": ABC}, update("@@\n\n"), "Update of f has no @@ chunk"),
    Patch("a line without sign in a chunk", {"f": ABC}, update("@@\n-a\nxyz"), "Invalid update chunk line: xyz"),
    Patch("a late move", {"f": ABC}, update("@@\n-a\n+A\n*** Move to: g"), "Invalid update chunk line: *** Move to: g"),
]

PATCHES = [*OPERATIONS, *MOVES, *SAME_FILE, *CHUNKS, *END_OF_FILE, *LOOSE, *ENDINGS, *GRAMMAR]
