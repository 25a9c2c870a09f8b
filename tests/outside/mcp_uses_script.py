"""An MCP server for tests with resources, prompts and questions to a model. What it offers and answers is in a file
that the test writes, and what it was asked is in a file that the test reads."""

import json
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


def answer(id: Any, found: Any) -> None:
    """Some answers are errors; some never come."""
    if found is None:
        send({"id": id, "error": {"code": -32002, "message": "not found"}})
    elif found != "never":
        send({"id": id, "result": found})


def initialize(version: str) -> dict[str, Any]:
    capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {"listChanged": True}}
    return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "script", "version": "1"}}


def main() -> None:
    note("start")
    asked: dict[str, Any] = {}
    """The calls that wait for an answer of a model, by the id of the question."""
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        match method:
            case None if id in asked:
                note("answered", message.get("result") or message.get("error"))
                text = json.dumps(message.get("result") or message.get("error"))
                send({"id": asked.pop(id), "result": {"content": [{"type": "text", "text": text}]}})
            case "initialize":
                note("capabilities", params["capabilities"])
                send({"id": id, "result": initialize("2025-11-25")})
            case "tools/list":
                send({"id": id, "result": {"tools": said().get("tools", [])}})
            case "tools/call":
                note("tools/call", params["name"])
                for number, request in enumerate(said()["samples"]):
                    asked[f"s{number}"] = id
                    send({"id": f"s{number}", "method": "sampling/createMessage", "params": request})
            case "resources/list":
                send({"id": id, "result": {"resources": said().get("resources", [])}})
            case "resources/templates/list":
                send({"id": id, "result": {"resourceTemplates": said().get("templates", [])}})
            case "resources/read":
                note("resources/read", params["uri"])
                answer(id, said().get("contents", {}).get(params["uri"]))
            case "prompts/list":
                send({"id": id, "result": {"prompts": said().get("prompts", [])}})
            case "prompts/get":
                note("prompts/get", {"name": params["name"], "arguments": params.get("arguments", {})})
                answer(id, said().get("messages", {}).get(params["name"]))
            case "notifications/cancelled":
                note("notifications/cancelled")
            case _ if id is not None:
                send({"id": id, "error": {"code": -32601, "message": "unknown method"}})


main()
