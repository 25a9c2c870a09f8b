"""A provider for the tests of the page: an HTTP endpoint whose answers follow from the prompt. A test can hold and pace
them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
PATIENCE = 60.0


@dataclass(frozen=True)
class Reply:
    """One turn of the model. `text` may be an iterator that waits between its pieces; `begin` and `end` hold the answer
    until they are set."""

    text: str | Iterable[str] = ""
    reasoning: str = ""
    calls: tuple[tuple[str, Json], ...] = ()
    status: int = 200
    """Of the HTTP answer; any other one is a refusal."""
    begin: threading.Event | None = None
    end: threading.Event | None = None


class Held:
    """A text in two pieces; the second one comes when the event is set."""

    def __init__(self, before: str, event: threading.Event, after: str) -> None:
        self._before = before
        self._event = event
        self._after = after

    def __iter__(self) -> Iterator[str]:
        yield self._before
        self._event.wait(PATIENCE)
        yield self._after


def calling(tool: str, /, **input: Any) -> Reply:
    return Reply(calls=((tool, input),))


class Provider:
    """`on(prompt, …)` says what follows a prompt with this text, turn by turn, in whichever Session it is. Any other
    prompt is answered with `done`."""

    def __init__(self) -> None:
        self.url = ""
        self._replies: dict[str, tuple[Reply, ...]] = {}
        self.stopped = threading.Event()
        """Set when the tests end, so that no handler waits longer."""

    def on(self, prompt: str, *replies: Reply) -> None:
        self._replies[prompt] = replies

    @contextmanager
    def serving(self) -> Iterator[None]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                reply = provider._reply(body["messages"])
                self.send_response(reply.status)
                self.send_header("content-type", "text/event-stream" if reply.status == 200 else "application/json")
                self.end_headers()
                self.close_connection = True
                if reply.status != 200:
                    self.wfile.write(json.dumps({"error": {"message": f"refused with {reply.status}"}}).encode())
                    return
                with suppress(OSError):  # an interrupted turn closes its connection
                    for data in provider._frames(reply, body):
                        self.wfile.write(data)
                        self.wfile.flush()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        try:
            yield
        finally:
            self.stopped.set()
            server.shutdown()
            thread.join()
            server.server_close()

    def _reply(self, messages: list[Json]) -> Reply:
        for index in range(len(messages) - 1, -1, -1):
            if messages[index]["role"] != "user":
                continue
            text = _text(messages[index])
            matching = [prompt for prompt in self._replies if prompt in text]
            found = max(matching, key=lambda prompt: (text.rfind(prompt), len(prompt)), default=None)
            if found is not None:
                done = sum(message["role"] == "assistant" for message in messages[index:])
                replies = self._replies[found]
                return replies[done] if done < len(replies) else Reply("done")
        return Reply("done")

    def _frames(self, reply: Reply, body: Json) -> Iterator[bytes]:
        self._hold(reply.begin)
        yield _frame({"role": "assistant", "content": ""})
        if reply.reasoning:
            yield _frame({"reasoning_content": reply.reasoning})
        for piece in [reply.text] if isinstance(reply.text, str) else reply.text:
            yield _frame({"content": piece})
        for index, (tool, input) in enumerate(reply.calls):
            function = {"name": tool, "arguments": json.dumps(input)}
            call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
            yield _frame({"tool_calls": [call]})
        self._hold(reply.end)
        yield _frame({}, "tool_calls" if reply.calls else "stop")
        prompt = len(json.dumps(body)) // 4
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": prompt // 2},
        }
        yield b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"

    def _hold(self, event: threading.Event | None) -> None:
        while event is not None and not event.wait(0.1) and not self.stopped.is_set():
            continue


def _frame(delta: Json, finish: str | None = None) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m"}
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({**chunk, "choices": choices}).encode() + b"\n\n"


def _text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
