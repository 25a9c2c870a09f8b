"""Merges all documents into one object for display. Domains never use it: each combines documents by its own rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.secret import HIDDEN, hide, is_secret, public_address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.config.document import Document

_JOINED = frozenset(("instructions", "skills", "plugins", "permissions"))


def merge(documents: Iterable[Document]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for document in documents:
        merged = _merged(merged, redacted(document))
    return merged


def redacted(document: Document) -> dict[str, Any]:
    """The document without secrets. Of an MCP server's address only the host is shown: its path may be a key. The
    values of its variables are hidden, and arguments of its command that look like secrets."""
    found: dict[str, Any] = _shown(document.data, document.secrets)
    for server in found.get("mcp", {}).get("servers", {}).values():
        if isinstance(url := server.get("url"), str):
            scheme, _, rest = url.partition("://")
            server["url"] = f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/…"
        if isinstance(variables := server.get("environment"), dict):
            server["environment"] = dict.fromkeys(variables, HIDDEN)
        if isinstance(command := server.get("command"), list):
            server["command"] = _shown_arguments(command)
    return found


def _shown_arguments(arguments: list[Any]) -> list[Any]:
    """Of `--token VALUE` and `--token=VALUE` without the value."""
    shown: list[Any] = []
    hidden = False
    for argument in arguments:
        name, equals, _ = str(argument).partition("=")
        is_option = name.startswith("-")
        if hidden and not is_option:
            shown.append(HIDDEN)
        else:
            shown.append(f"{name}={HIDDEN}" if equals and is_secret(name) else argument)
        hidden = is_option and not equals and is_secret(name.lstrip("-").replace("-", "_"))
    return shown


def _merged(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    found = dict(low)
    for key, value in high.items():
        former = found.get(key)
        if isinstance(former, dict) and isinstance(value, dict):
            found[key] = _merged(former, value)
        elif key in _JOINED and isinstance(former, list) and isinstance(value, list):
            found[key] = former + [item for item in value if item not in former]
        else:
            found[key] = value
    return found


def _shown(value: Any, secrets: frozenset[str], name: str = "", inside: str = "") -> Any:
    """Hides all headers and every value whose name looks secret, because keys may be written in the file itself."""
    if isinstance(value, str):
        if inside == "headers" or is_secret(name):
            return HIDDEN
        return hide(public_address(value) if "://" in value else value, secrets)
    if isinstance(value, dict):
        return {key: _shown(item, secrets, key, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item, secrets, name, inside) for item in value]
    return value
