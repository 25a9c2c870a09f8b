"""One object to look at, made of all documents. Domains never use it: each folds documents by its own rule."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from holdfast.core.config.variables import HIDDEN, hide

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.config.document import Document

# A key may stand in the file itself.
_SECRET = re.compile(r"auth(?!or)|(?:api|access|private)[-_]?key|secret|password|cookie|token(?!s)", re.IGNORECASE)
_JOINED = frozenset(("instructions", "skills", "plugins", "permissions"))


def merge(documents: Iterable[Document]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for document in documents:
        merged = _merged(merged, _shown(document.data, document.secrets))
    return merged


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


def _shown(value: Any, secrets: frozenset[str]) -> Any:
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, dict):
        return {
            key: HIDDEN if isinstance(item, str) and _SECRET.search(key) else _shown(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_shown(item, secrets) for item in value]
    return value
