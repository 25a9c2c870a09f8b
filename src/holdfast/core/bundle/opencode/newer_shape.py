"""Messages as later versions of OpenCode 2.0 write them, in the shape that our messages have: other names of the same
things, ids that parts no longer have, and kinds that came later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.bundle.opencode.foreign import Json, items, mapping, optional_text, text

if TYPE_CHECKING:
    from collections import Counter

LEFT_OUT = {"location-switched": "changes of the directory"}


def in_our_shape(message: Json, session_id: str, lost: Counter[str]) -> Json | None:
    """A message of our shape is given back as it is. None for one that has no place here."""
    kind = message.get("type")
    if kind in LEFT_OUT:
        lost[LEFT_OUT[text(kind)]] += 1
        return None
    match kind:
        case "synthetic":
            return {"sessionID": session_id, **message}
        case "skill":
            name = {"description": f"skill {text(message.get('name'))}"}
            return {**message, "type": "synthetic", "sessionID": session_id, **name}
        case "shell" if "shellID" in message:
            return _shell(message, lost)
        case "compaction" if message.get("status") not in (None, "completed"):
            lost["compactions without a summary"] += 1
            return None
        case "compaction":
            return {"recent": "", **message}
        case "user":
            return {**message, **_attached(message)}
        case "assistant":
            return _answer(message, lost)
    return message


def _shell(message: Json, lost: Counter[str]) -> Json:
    output = mapping(message.get("output"))
    if output.get("truncated") is True:
        lost["rests of outputs"] += 1
    return {**message, "callID": message["shellID"], "output": text(output.get("output"))}


def _attached(message: Json) -> Json:
    """Files that contain their content, and mentions under their newer name."""
    found: Json = {}
    for field in ("files", "agents", "skills"):
        if isinstance(message.get(field), list):
            found[field] = [_attachment(mapping(item)) for item in message[field]]
    return found


def _attachment(given: Json) -> Json:
    changed = {name: value for name, value in given.items() if name not in ("source", "mention")}
    source = mapping(given.get("mention")) or mapping(given.get("source"))
    if {"start", "end", "text"} <= source.keys():
        changed["source"] = source
    if "uri" not in given and isinstance(given.get("data"), str):
        changed["uri"] = f"data:{text(given.get('mime'))};base64,{given['data']}"
    return changed


def _answer(message: Json, lost: Counter[str]) -> Json:
    if message.get("retry"):
        lost["retries"] += 1
    created = mapping(message.get("time")).get("created")
    content = [_part(mapping(part), place, created, lost) for place, part in enumerate(items(message.get("content")))]
    return {**message, "content": content, **_error(message)}


def _part(part: Json, place: int, created: Any, lost: Counter[str]) -> Json:
    kind = part.get("type")
    if kind != "tool":
        if part.get("state"):
            lost["signatures of reasoning"] += 1
        return {"id": f"{kind}-{place}", **part}
    state = mapping(part.get("state"))
    if state.get("status") == "streaming":
        state = {**state, "status": "pending"}
    elif state.get("status") != "pending":
        state = {"structured": mapping(state.get("metadata")), "content": [], **state, **_error(state)}
    provider = {"executed": True} if part.get("executed") is True else None
    return {"provider": provider, "time": {"created": created}, **part, "state": state}


def _error(of: Json) -> Json:
    """Errors have a name of their own in place of `unknown`."""
    error = of.get("error")
    if not isinstance(error, dict) or error.get("type") == "unknown":
        return {}
    code = {"code": error["type"]} if optional_text(error.get("type")) else {}
    return {"error": {"type": "unknown", "message": text(error.get("message")), **code}}
