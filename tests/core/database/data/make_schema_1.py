"""How schema_1.db.gz was made: run with the code of schema 1 on the path, in an empty directory.

PYTHONPATH=<checkout of 1e20e39>/src python make_schema_1.py"""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
from pathlib import Path

from holdfast import Holdfast, ModelRef, PromptInput

TURNS = [
    {"text": "I will look. " * 2000, "calls": [{"tool": "read", "input": {"path": "notes.txt"}}]},
    {"calls": [{"tool": "todowrite", "input": {"todos": [{"content": "é", "status": "pending", "priority": "high"}]}}]},
    {"text": "Done: 漢字 " * 500},
    {"text": "cut off", "cut": True},
    {"text": "Going on."},
]


async def main() -> None:
    home = Path.cwd() / "fixture"
    project = home / "project"
    project.mkdir(parents=True)
    (project / "notes.txt").write_text("note\n" * 500)
    (home / "script.json").write_text(json.dumps(TURNS))
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "HOLDFAST_SCRIPT": str(home / "script.json")}
    async with Holdfast(project, data=home / "data", environment=environment) as hf:
        model = ModelRef(id="scripted", provider_id="demo")
        for number in range(3):
            session = await hf.sessions.create(model=model)
            for text in ("please look", "what now?", "go on"):
                await hf.sessions.prompt(session.id, prompt=PromptInput(text=text))
                await hf.sessions.wait(session.id)
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="later " * 1000), resume=False)
            await hf.sessions.rename(session.id, title=f"Session {number}")
        messages = await hf.sessions.messages(session.id, order="asc")
        await hf.sessions.stage_revert(session.id, message_id=messages.items[-2].id, files=False)
        gone = await hf.sessions.create(model=model)
        await hf.sessions.delete(gone.id)
    path = home / "data" / "holdfast.db"
    connection = sqlite3.connect(path)
    # The texts hold the directory of whoever made this; it is no part of what is tested.
    for table, column in (
        ("event", "data"),
        ("session", "directory"),
        ("session", "path"),
        ("project", "worktree"),
        ("session_message", "data"),
        ("session_message_part", "data"),
        ("session_context_epoch", "baseline"),
        ("session_context_epoch", "snapshot"),
        ("session_context_epoch", "observed"),
        ("session_instruction", "directory"),
        ("session_instruction", "path"),
    ):
        connection.execute(f"update {table} set {column} = replace({column}, ?, '/home/user')", (str(home),))
    connection.commit()
    connection.execute("vacuum")
    connection.close()
    Path("schema_1.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


asyncio.run(main())
