"""Statements as PostgreSQL takes them: `:name` becomes `$n`, and expectations become part of the statement.

- In the statements of a unit `:seq` is the head of the aggregate in this transaction, minus the number of events that
  follow. So nobody has to ask for the head, or to guess it: `event.advance` keeps it in a setting of the transaction.
- An expectation that does not hold divides by zero. The server then skips everything up to the end of the group,
  `commit` included, and the place of the error says which expectation it was."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.database.postgres.text import escape
from holdfast.core.database.queries import load_queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.database.unit import Value

FOLDER = Path(__file__).parent
TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|::\s*\w+|:([A-Za-z_]\w*)""")
_BLOB = re.compile(r"\bas\s+blob\s*\)\s*(?:end\s+)?as\s+(\w+)", re.IGNORECASE)

HEAD = "holdfast.head"
"""The setting that holds the head of an aggregate, unless several are told apart by a number after that."""
HEAD_NAME = HEAD.encode()

NO_BUDGETS, COUNTS, RESHAPES = range(3)
"""What a statement does to budgets: nothing, or it concerns what they count, or it changes which there are."""
_RESHAPING = frozenset(
    f"budget.{change}_{what}" for change in ("open", "drop", "leave") for what in ("total", "totals", "shares")
)
_COUNTED = re.compile(r"\bbudget_(total|share)\b")


class Compiled:
    """A statement, its name among prepared ones, and the names of its parameters in order."""

    __slots__ = ("binary", "budgets", "key", "names", "relative", "sql")

    def __init__(self, sql: str, names: tuple[str, ...] = (), *, relative: bool = False, binary: bool = False) -> None:
        self.sql = sql.encode()
        # Made from the text: behind a pooler another process may have prepared something else under a mere number.
        self.key = b"h" + hashlib.blake2b(self.sql, digest_size=12).hexdigest().encode()
        self.names = names
        self.budgets = NO_BUDGETS
        self.binary = binary
        """Its parameters are in binary format, all of them."""
        self.relative = relative
        """Has two parameters more, at the end: how many new events of the aggregate follow, and the name of the setting
        that holds its head."""

    def values(self, params: Mapping[str, Value]) -> list[bytes | None]:
        return [encode(params[name]) for name in self.names]


def compile_statement(sql: str, *, relative: bool = False) -> Compiled:
    """`relative`: `:seq` is counted from the head of the aggregate."""
    places: dict[str, int] = {}

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0]
        if relative and name == "seq":
            return "\0"
        return f"${places.setdefault(name, len(places) + 1)}"

    text = TOKEN.sub(replace, sql)
    head = f"(current_setting(${len(places) + 2}::text)::bigint - ${len(places) + 1}::bigint)"
    return Compiled(text.replace("\0", head), tuple(places), relative="\0" in text)


def expecting(sql: str, changes: int | None, found: bool | None) -> str:
    """The statement with its expectation in it."""
    if found is not None:
        return f"select 1 / (exists ({sql}) = {'true' if found else 'false'})::int"
    if changes is not None:
        return f"with changed as ({sql} returning 1) select 1 / ((select count(*) from changed) = {changes})::int"
    return sql


class Statements:
    """The named statements of this store, compiled at their first use."""

    def __init__(self, queries: Mapping[str, str]) -> None:
        self.queries = queries
        self._compiled: dict[tuple[str, bool, int | None, bool | None], Compiled] = {}

    def get(self, name: str, relative: bool = False, changes: int | None = None, found: bool | None = None) -> Compiled:
        key = (name, relative, changes, found)
        compiled = self._compiled.get(key)
        if compiled is None:
            sql = expecting(self.queries[name], changes, found)
            compiled = compile_statement(sql, relative=relative)
            compiled.budgets = RESHAPES if name in _RESHAPING else COUNTS if _COUNTED.search(sql) else NO_BUDGETS
            if relative and not compiled.relative:
                compiled = self.get(name, False, changes, found)
            self._compiled[key] = compiled
        return compiled


@cache
def postgres_queries() -> dict[str, str]:
    """SQLite's statements, and this store's own words where there are any."""
    return {**load_queries(), **load_queries(FOLDER / "sql")}


@cache
def byte_columns(name: str) -> frozenset[str]:
    """Columns that SQLite returns as bytes: JSON that nobody needs as text."""
    return frozenset(_BLOB.findall(load_queries().get(name, "")))


def encode(value: Value) -> bytes | None:
    """A parameter in text format."""
    kind = type(value)
    if kind is str:
        return escape(value).encode()  # type: ignore[arg-type]
    if value is None:
        return None
    if kind is int:
        return b"%d" % value  # type: ignore[str-format]
    if isinstance(value, bytes):
        return escape(value.decode()).encode()
    if isinstance(value, str):
        return escape(str(value)).encode()
    if isinstance(value, int):  # bool, too
        return b"%d" % int(value)
    return repr(float(value)).encode()


def encode_array(values: Iterable[str]) -> bytes:
    """An array of texts in text format."""
    quoted = (escape(value).replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return ("{" + ",".join(f'"{value}"' for value in quoted) + "}").encode()


class _Settings:
    @cache  # noqa: B019 - one instance, few sizes
    def of(self, count: int) -> Compiled:
        """Sets `count` settings for the rest of the transaction."""
        return Compiled("select " + ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, true)" for n in range(count)))


SETTINGS = _Settings()
