"""An MCP server for tests, over pipes, without any package: what it offers and answers is in a file that the test
writes, and what it was asked is in a file that the test reads."""

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
asked: dict[str, Any] = {}
"""The calls that wait for an answer of a model, by the id of the question."""


def said() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "says.json").read_text()))


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(method: str, params: Any = None) -> None:
    with (FOLDER / "heard.jsonl").open("a") as file:
        file.write(json.dumps([method, params]) + "\n")


def call(params: dict[str, Any]) -> dict[str, Any] | None:
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


def sample(id: Any) -> None:
    """Asks for answers of a model, in the course of the call with this id."""
    for number, request in enumerate(said()["samples"]):
        asked[f"s{number}"] = id
        send({"id": f"s{number}", "method": "sampling/createMessage", "params": request})


def initialize() -> dict[str, Any]:
    found = said()
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
    capabilities |= {name: {} for name in ("resources", "prompts") if name in found}
    told = {"instructions": found["instructions"]} if found.get("instructions") else {}
    server = {"name": "script", "version": "1"}
    return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server, **told}


def answer(id: Any, found: Any) -> None:
    """Some answers are errors; some never come."""
    if found is None:
        send({"id": id, "error": {"code": -32002, "message": "not found"}})
    elif found != "never":
        send({"id": id, "result": found})


def main() -> None:
    note("start")
    for line in sys.stdin:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        match method:
            case None if id in asked:
                found = message.get("result") or message.get("error")
                note("answered", found)
                send({"id": asked.pop(id), "result": {"content": [{"type": "text", "text": json.dumps(found)}]}})
            case "initialize":
                send({"id": id, "result": initialize()})
            case "tools/list":
                note("tools/list")
                if said().get("unlisted"):  # an answer that never comes
                    continue
                send({"id": id, "result": {"tools": said().get("tools", [])}})
            case "tools/call":
                note("tools/call", {"name": params["name"], "arguments": params.get("arguments", {})})
                if "samples" in said():
                    sample(id)
                elif "raw" in said():  # bytes that are no message
                    sys.stdout.write(said()["raw"].replace("ID", str(id)) + "\n")
                    sys.stdout.flush()
                elif (result := call(params)) is not None:
                    send({"id": id, "result": result})
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
            case _ if id is not None and not said().get("silent"):
                send({"id": id, "error": {"code": -32601, "message": "unknown method"}})


main()
