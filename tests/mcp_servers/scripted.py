"""A small MCP server on stdin and stdout, without any package, whose behaviour its arguments choose.

Each argument is `name` or `name=value`:
  tools=PATH        a file with what tools/list answers; `echo` and a few others by default
  hang              nothing is ever answered
  die[=PATH]        the process ends at once; with a path, while that file exists
  garbage           lines that are no messages come first
  stderr=TEXT       written to standard error at the start
  flood=N           answer tools/list with N tools
  changing=SECONDS  announces a changed list of tools again and again, each time with another tool
  count=PATH        a line is added to this file at each start
  lists=PATH        a line is added to this file each time the tools are listed
  child=PATH        starts a process that ignores the end of its input, and writes its pid there
  no_tools=PATH     cannot list its tools while this file exists
  slow_list=PATH    does not answer tools/list while this file exists
  stubborn          ignores the end of its input, and SIGTERM
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

options = {}
for argument in sys.argv[1:]:
    name, _, value = argument.partition("=")
    options[name] = value

if "stderr" in options:
    print(options["stderr"], file=sys.stderr, flush=True)
if "count" in options:
    with open(options["count"], "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
if "child" in options:
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    with open(options["child"], "w", encoding="utf-8") as file:
        file.write(str(child.pid))
if "stubborn" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "die" in options and (not options["die"] or os.path.exists(options["die"])):
    print("it cannot be configured", file=sys.stderr, flush=True)
    sys.exit(3)
if "garbage" in options:
    print("Starting up…\n\x1b[31mnot json", flush=True)

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = [
    {"name": "echo", "description": "Says it again", "inputSchema": SCHEMA},
    {"name": "die", "description": "Ends the server", "inputSchema": {"type": "object"}},
    {"name": "slow", "description": "Takes its time", "inputSchema": {"type": "object"}},
    {"name": "environment", "description": "Its variables", "inputSchema": {"type": "object"}},
    {"name": "fail", "description": "Fails", "inputSchema": {"type": "object"}},
]
if "tools" in options:
    with open(options["tools"], encoding="utf-8") as file:
        TOOLS = json.load(file)
if "flood" in options:
    TOOLS = [{"name": f"tool{n}", "inputSchema": {"type": "object"}} for n in range(int(options["flood"]))]
generation = 0
asking: dict[str, Any] = {}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(id: object, name: str, arguments: dict[str, Any]) -> None:
    text, error = str(arguments.get("text", "")), False
    if name == "die":
        print("giving up", file=sys.stderr, flush=True)
        os._exit(7)
    elif name == "slow":
        return
    elif name == "environment":
        text = json.dumps({"variables": dict(os.environ), "cwd": os.getcwd()})
    elif name in ("ask", "roots"):  # tells what it was answered
        asking[f"question {id}"] = id
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": "Who are you?", "requestedSchema": schema} if name == "ask" else {}
        send(
            {
                "id": f"question {id}",
                "method": "elicitation/create" if name == "ask" else "roots/list",
                "params": params,
            }
        )
        return
    elif name == "leak":
        send({"id": id, "error": {"code": -32000, "message": f"the key {os.environ['API_KEY']} is wrong"}})
        return
    elif name == "fail":
        text, error = "it did not work", True
    send({"id": id, "result": {"content": [{"type": "text", "text": text}], "isError": error}})


def answer(message: dict[str, Any]) -> None:
    if "method" not in message:
        text = json.dumps(message.get("result") or message.get("error"))
        send({"id": asking.pop(message["id"]), "result": {"content": [{"type": "text", "text": text}]}})
        return
    id, method = message.get("id"), message["method"]
    params = message.get("params") or {}
    if id is None:
        return
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}, "logging": {}}
        info = {"name": "scripted", "version": "1"}
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        send({"id": id, "result": {**result, "instructions": "Be brief."}})
    elif method == "tools/list" and os.path.exists(options.get("no_tools", "")):
        send({"id": id, "error": {"code": -32603, "message": "out of order"}})
    elif method == "tools/list":
        while os.path.exists(options.get("slow_list", "")):
            time.sleep(0.005)
        if "lists" in options:
            with open(options["lists"], "a", encoding="utf-8") as file:
                file.write("listed\n")
        send({"id": id, "result": {"tools": TOOLS}})
    elif method == "resources/list":
        resources = [{"uri": "note://one", "name": "one", "mimeType": "text/plain"}]
        send({"id": id, "result": {"resources": resources}})
    elif method == "resources/templates/list":
        send({"id": id, "result": {"resourceTemplates": [{"uriTemplate": "note://{name}", "name": "notes"}]}})
    elif method == "resources/read":
        send({"id": id, "result": {"contents": [{"uri": params["uri"], "text": "a note"}]}})
    elif method == "prompts/list":
        send({"id": id, "result": {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}})
    elif method == "logging/setLevel":
        send({"id": id, "result": {}})
        send({"method": "notifications/message", "params": {"level": "info", "data": "at your service"}})
    elif method == "tools/call":
        call(id, params["name"], params.get("arguments") or {})
    elif method == "ping":
        send({"id": id, "result": {}})
    else:
        send({"id": id, "error": {"code": -32601, "message": "Method not found"}})


if "hang" in options:
    time.sleep(1000)
pause = float(options["changing"]) if "changing" in options else None
buffer = b""
while True:
    if not select.select([0], [], [], pause)[0]:
        generation += 1
        TOOLS = [*TOOLS[:5], {"name": f"new{generation}", "inputSchema": {"type": "object"}}]
        send({"method": "notifications/tools/list_changed"})
        continue
    data = os.read(0, 65536)
    if not data:
        if "stubborn" in options:
            time.sleep(1000)
        break
    *lines, buffer = (buffer + data).split(b"\n")
    for line in lines:
        if line.strip():
            answer(json.loads(line))
