"""What Sessions take on PostgreSQL: rows, bytes, WAL and transactions. `python benchmarks/postgres_size.py ADDRESS`.

Sessions with the same story run through the whole runtime: prompts, each with two calls of a tool and an answer. Sizes
do not depend on the machine. The address is that of an empty database; a schema is made in it and left there."""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.scope import Scope
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.embedded.serve import fast_loop
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.schema.record import Record

SESSIONS = 200
PROMPTS = 5
TURNS = 3 * PROMPTS
MODEL = ModelRef(id="echo", provider_id="demo")
OUTPUT = "".join(
    f"{number}: the line of a file that a tool has read, with {secrets.token_hex(8)}\n" for number in range(30)
)

SIZES = """
select c.relname, s.n_live_tup, pg_table_size(c.oid), pg_indexes_size(c.oid), s.n_tup_upd, s.n_tup_hot_upd
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_stat_user_tables s on s.relid = c.oid
where n.nspname = %s and c.relkind = 'r' and pg_table_size(c.oid) + pg_indexes_size(c.oid) > 0
order by pg_total_relation_size(c.oid) desc
"""
INDEXES = """
select c.relname, pg_relation_size(c.oid) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relkind = 'i' order by 2 desc limit 12
"""
NOW = "select pg_current_wal_lsn() - '0/0'::pg_lsn, pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


class Given(Record):
    number: int


async def _look(given: Given, context: ToolContext) -> dict[str, Any]:
    return {"text": OUTPUT}


async def story(folder: Path, address: str, sessions: int) -> None:
    turns = [
        turn
        for _ in range(sessions * PROMPTS)
        for turn in (
            Turn(calls=(Call(tool="look", input={"number": 1}),)),
            Turn(calls=(Call(tool="look", input={"number": 2}),)),
            Turn(text="The file says that everything is as it should be. " * 8),
        )
    ]
    runtime = Runtime(
        paths=Paths(folder / "data"),
        directory=folder,
        environment={"HOME": str(folder)},
        transport=ScriptedTransport(turns),
        options=HostOptions(titles=False),
        database=address,
    )
    async with runtime:
        look = Tool(description="looks", input=Given, output=dict[str, Any], execute=_look)
        runtime.application_tools.register({"look": look}, Scope())
        for _ in range(sessions):
            session = await runtime.sessions.create(
                location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
            )
            for _ in range(PROMPTS):
                await runtime.sessions.prompt(session.id, Prompt(text="Look twice, please. " * 10), resume=False)
                await runtime.sessions.run(session.id)


async def main(address: str) -> int:
    schema = f"size_{secrets.token_hex(3)}"
    placed = f"{address}{'&' if '?' in address else '?'}schema={schema}"
    with tempfile.TemporaryDirectory() as name, psycopg.connect(address, autocommit=True) as look:
        folder = Path(name).resolve()
        await story(folder, placed, 1)  # makes the tables
        before = look.execute(NOW).fetchone()
        await story(folder, placed, SESSIONS)
        after = look.execute(NOW).fetchone()
        assert before is not None
        assert after is not None
        wal, transactions = (int(late - early) for early, late in zip(before, after, strict=True))
        for (table,) in look.execute("select tablename from pg_tables where schemaname = %s", (schema,)).fetchall():
            look.execute(f'vacuum analyze "{schema}"."{table}"')
        count = SESSIONS + 1
        print(f"{SESSIONS} Sessions of {PROMPTS} prompts, {TURNS} turns, a tool's output of {len(OUTPUT)} characters")
        print(
            f"per turn: {wal / SESSIONS / TURNS:.0f} bytes of WAL, {transactions / SESSIONS / TURNS:.2f} transactions"
        )
        print(f"{'per Session':24} {'rows':>6} {'table':>8} {'indexes':>8} {'updates':>8} {'in place':>8}")
        total = [0, 0]
        for name_, rows, table, indexes, updated, hot in look.execute(SIZES, (schema,)).fetchall():
            total = [total[0] + table, total[1] + indexes]
            kept = f"{hot / updated:8.0%}" if updated else " " * 8
            sizes = f"{table / count:8.0f} {indexes / count:8.0f}"
            print(f"{name_:24} {rows / count:6.1f} {sizes} {updated / count:8.1f} {kept}")
        print(f"{'together':24} {'':6} {total[0] / count:8.0f} {total[1] / count:8.0f}")
        for name_, size in look.execute(INDEXES, (schema,)).fetchall():
            print(f"    index {name_:32} {size / count:8.0f}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        sys.exit(runner.run(main(sys.argv[1])))
