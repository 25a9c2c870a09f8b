"""Answers everything at `/` and below `/web`: the page, its sign-ins, its approval links and its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.core.lazy import Lazy
from holdfast.schema.codec import decoder, encode
from holdfast.schema.exceptions import Forbidden, InvalidRequest, MethodNotAllowed, NotFound, Unauthorized
from holdfast.schema.ids import is_session_id
from holdfast.schema.record import Record
from holdfast.server.auth import WRONG_CREDENTIALS
from holdfast.server.decoding import json_body
from holdfast.server.extensions import is_local, report_authenticated
from holdfast.server.types import HttpReply, Streamed
from holdfast.server.web.approvals import ApprovalPayload, ApprovalReplyPayload, Approvals
from holdfast.server.web.assets import NOT_KEPT, Assets
from holdfast.server.web.sign_ins import LIMITED, SignInPayload, SignIns

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.server.auth import Access
    from holdfast.server.caller import Caller
    from holdfast.server.callers import Callers
    from holdfast.server.head import Head
    from holdfast.server.limits import Limiting
    from holdfast.server.stream_ends import StreamEnds
    from holdfast.server.throttle import Throttle
    from holdfast.server.types import Receive, Scope

ASSETS = "/web/assets/"
SIGN_INS = "/web/sign-ins"
BODY_BYTES = 64 * 1024
BODY_SECONDS = 10.0
SHOWN = 200
METHODS = {
    "/": "GET",
    "/web/sign-in": "POST",
    "/web/sign-out": "POST",
    SIGN_INS: "GET",
    "/web/code": "POST",
    "/web/approval": "POST",
    "/web/approval/reply": "POST",
    "/web/stream": "GET",
}
SIGNED_IN = ("/web/sign-out", SIGN_INS, "/web/stream")
"""For callers that are signed in or have credentials."""

P = TypeVar("P", bound=Record)


class Code(Record):
    path: str
    """To append to the address of the server."""
    expires: int
    """In milliseconds since the epoch."""


class Pages:
    def __init__(
        self,
        runtime: Runtime,
        access: Access,
        callers: Callers,
        ends: StreamEnds,
        limiting: Limiting | None,
        throttle: Throttle,
    ) -> None:
        self._runtime = runtime
        self._access = access
        self._callers = callers
        self._ends = ends
        self._limiting = limiting
        self._assets = Lazy(Assets.packaged)
        self._approvals = Approvals(runtime)
        self.sign_ins = SignIns(runtime.page_access, access, lambda: runtime.access_tokens, throttle)

    async def answer(self, scope: Scope, head: Head, receive: Receive) -> HttpReply | Streamed:
        """Raises ApiError."""
        path = scope["path"]
        method = _checked_method(scope["method"], path)
        if path.startswith(ASSETS):
            version, _, name = path.removeprefix(ASSETS).partition("/")
            return self._assets().reply(version, name, head.headers)
        if path == "/":
            return self._assets().index(
                auth=self._access.credentials is not None,
                signed_in=await self.sign_ins.seems_signed_in(head.headers),
            )
        self._access.check_own_page(head.headers)
        if path in SIGNED_IN or path.startswith(f"{SIGN_INS}/"):
            caller = await self._callers.identify(scope, head)
            report_authenticated(scope)
            if self._limiting is not None:
                self._limiting.check_rate(caller)
            return await self._to_signed_in(method, path, head, caller)
        if path == "/web/code":
            return await self._code(scope, head)
        return await self._to_anyone(path, scope, head, receive)

    async def _to_signed_in(self, method: str, path: str, head: Head, caller: Caller) -> HttpReply | Streamed:
        if path == "/web/stream":
            return self._stream(head, caller)
        if path == "/web/sign-out":
            return await self.sign_ins.sign_out(caller.sign_in, self._ends)
        if method == "DELETE":
            sign_in = path.removeprefix(f"{SIGN_INS}/")
            if sign_in != caller.sign_in:
                await self._callers.check_role(caller, "admin")
            await self.sign_ins.revoke(sign_in, self._ends)
            return HttpReply(204, b"")
        found = await self.sign_ins.list(caller.sign_in)
        return _json(found if caller.has("admin") else [each for each in found if each.current])

    async def _to_anyone(self, path: str, scope: Scope, head: Head, receive: Receive) -> HttpReply:
        if path == "/web/sign-in":
            return await self.sign_ins.sign_in(scope, head.headers, await _payload(SignInPayload, head, receive))
        if path == "/web/approval":
            return _json(await self._approvals.show(scope, await _payload(ApprovalPayload, head, receive)))
        await self._approvals.reply(scope, await _payload(ApprovalReplyPayload, head, receive))
        return HttpReply(204, b"")

    async def _code(self, scope: Scope, head: Head) -> HttpReply:
        """For the owner of the server: somebody who knows its password, or a process of the same user."""
        if not is_local(scope) and self._access.credentials is not None:
            if not await self._callers.has_password(scope, head):
                raise Unauthorized(WRONG_CREDENTIALS)
            report_authenticated(scope)
        if self._access.credentials is None:
            return _json(Code(path="/", expires=self._runtime.page_access.clock.now()))
        made = await self._runtime.page_access.codes.make()
        return _json(Code(path=f"/#/code/{made.code}", expires=made.expires))

    def _stream(self, head: Head, caller: Caller) -> Streamed:
        from holdfast.server.web import stream  # brings everything that renders

        if caller.projects:
            raise Forbidden(LIMITED.format(name=caller.name))
        session_id, after = head.query.get("session"), head.query.get("after")
        if session_id is not None and not is_session_id(session_id):
            raise InvalidRequest(f"Not a session id: {session_id[:SHOWN]}", kind="Query", field="session")
        if after is not None and not (after.isascii() and after.removeprefix("-").isdecimal() and len(after) < 16):
            raise InvalidRequest(f"Not a sequence: {after[:SHOWN]}", kind="Query", field="after")
        released = self._limiting.follow(caller) if self._limiting is not None else None
        ended = self._ends.open(caller.ends)
        reached = int(after) if after is not None else None
        frames = stream.frames(
            self._runtime, session_id, reached, ended, version=self._assets().version, role=caller.role
        )
        return Streamed(frames, ended, released)


def _checked_method(method: str, path: str) -> str:
    """The method, with HEAD as GET. Raises NotFound and MethodNotAllowed."""
    asked = "GET" if method == "HEAD" else method
    takes = "GET" if path.startswith(ASSETS) else "DELETE" if path.startswith(f"{SIGN_INS}/") else METHODS.get(path)
    if takes is None:
        raise NotFound(f"Nothing at {path[:SHOWN]}")
    if asked != takes:
        raise MethodNotAllowed(f"{path[:SHOWN]} takes {takes}, not {method[:SHOWN]}")
    return asked


async def _payload(kind: type[P], head: Head, receive: Receive) -> P:
    body = await json_body(head.headers, receive, limit=BODY_BYTES, seconds=BODY_SECONDS)
    try:
        payload: P = decoder(kind).decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(str(error)[:SHOWN], kind="Payload") from error
    return payload


def _json(value: object) -> HttpReply:
    return HttpReply(200, encode(value), headers=NOT_KEPT)
