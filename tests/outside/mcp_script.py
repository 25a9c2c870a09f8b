"""An MCP server for tests, over pipes, without any package: what it offers and answers is in a file that the test
writes, and what it was asked is in a file that the test reads."""

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])


def said() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "says.json").read_text()))


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(method: str, params: Any = None) -> None:
    with (FOLDER / "heard.jsonl").open("a") as file:
        file.write(json.dumps([method, params]) + "\n")


def call(id: Any, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result; None if there is none, ever."""
    name, arguments = params["name"], params.get("arguments", {})
    answer = said().get("answers", {}).get(name, {})
    if "progress" in answer:
        token = params["_meta"]["progressToken"]
        for step, message in enumerate(answer["progress"]):
            told = {"progressToken": token, "progress": step, "total": len(answer["progress"]), "message": message}
            send({"method": "notifications/progress", "params": told})
    if "announces" in answer:
        (FOLDER / "says.json").write_text(json.dumps({**said(), **answer["announces"]}))
        send({"method": "notifications/tools/list_changed"})
    if answer.get("dies"):
        sys.stderr.write("the disk is full\n")
        sys.stderr.flush()
        os._exit(3)
    if answer.get("hangs"):
        return None
    return dict(answer.get("result") or {"content": [{"type": "text", "text": f"{name} {json.dumps(arguments)}"}]})


def main() -> None:
    note("start")
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            told = {"instructions": text} if (text := said().get("instructions")) else {}
            capabilities = {"tools": {"listChanged": True}}
            server = {"name": "script", "version": "1"}
            version = "2025-11-25"
            send(
                {
                    "id": id,
                    "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server, **told},
                }
            )
        elif method == "tools/list":
            note("tools/list")
            send({"id": id, "result": {"tools": said().get("tools", [])}})
        elif method == "tools/call":
            note("tools/call", {"name": params["name"], "arguments": params.get("arguments", {})})
            if (result := call(id, params)) is not None:
                send({"id": id, "result": result})
        elif method == "notifications/cancelled":
            note("notifications/cancelled")
        elif id is not None:
            send({"id": id, "error": {"code": -32601, "message": "unknown method"}})


main()
