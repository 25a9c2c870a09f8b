"""An MCP server for tests, over pipes, without any package, whose tool `order` asks a person. In the version 2026-07-28
its result asks; in older ones it asks during the call. What it asks is in a file that the test writes; each call is
noted in a file that the test reads."""

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
VERSION = sys.argv[2]
TOOLS = [{"name": "order", "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}}}]
STATELESS = VERSION == "2026-07-28"


def said() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "says.json").read_text()))


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(method: str, params: Any = None) -> None:
    with (FOLDER / "heard.jsonl").open("a") as file:
        file.write(json.dumps([method, params]) + "\n")


def result(id: Any, text: str) -> None:
    kind = {"resultType": "complete"} if STATELESS else {}
    send({"id": id, "result": {**kind, "content": [{"type": "text", "text": text}]}})


def begin(id: Any, method: str, params: dict[str, Any]) -> None:
    capabilities: dict[str, Any] = {"tools": {}}
    if method == "server/discover" and STATELESS:
        send({"id": id, "result": {"supportedVersions": [VERSION], "capabilities": capabilities}})
    elif method == "initialize" and not STATELESS:
        server = {"name": "asking", "version": "1"}
        send({"id": id, "result": {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": server}})
    else:
        send({"id": id, "error": {"code": -32601, "message": "unknown method"}})


def call(id: Any, params: dict[str, Any]) -> None:
    note("tools/call", {name: value for name, value in params.items() if name in ("inputResponses", "requestState")})
    rounds: list[list[dict[str, Any]]] = said()["asks"]
    if not STATELESS:
        answers = [asked(number, question) for number, question in enumerate(chain(*rounds))]
        note("acted")
        result(id, json.dumps(answers))
        return
    number = int(params["requestState"].removeprefix("round-")) if "requestState" in params else 0
    if number == len(rounds):
        note("acted")
        result(id, json.dumps(params["inputResponses"], sort_keys=True))
        return
    requests = {f"q{n}": {"method": "elicitation/create", "params": one} for n, one in enumerate(rounds[number])}
    asking = {"resultType": "input_required", "inputRequests": requests, "requestState": f"round-{number + 1}"}
    send({"id": id, "result": asking})


def asked(number: int, question: dict[str, Any]) -> Any:
    send({"id": f"q{number}", "method": "elicitation/create", "params": question})
    if said().get("completes"):
        send({"method": "notifications/elicitation/complete", "params": {"elicitationId": question["elicitationId"]}})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == f"q{number}":
            return message.get("result") or message["error"]
        if message.get("method") == "notifications/cancelled":
            note("notifications/cancelled")
    sys.exit()


for received in sys.stdin:
    message = json.loads(received)
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    if id is None:
        continue
    if method == "tools/list":
        send({"id": id, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        call(id, params)
    else:
        begin(id, method, params)
