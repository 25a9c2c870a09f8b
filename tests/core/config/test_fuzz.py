"""Whatever a file contains, it is read, and what comes out is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from holdfast.core.config import schema
from holdfast.core.config.jsonc import line_numbers
from holdfast.core.config.migrate import OLD_KEYS, migrate
from holdfast.core.config.validate import Problem, validate
from holdfast.core.config.variables import Substitution

NAMES = sorted(
    {
        *OLD_KEYS,
        *(field.encode_name for field in msgspec.structs.fields(schema.ConfigFile)),
        *schema.Agent.__struct_encode_fields__,
        *schema.Provider.__struct_encode_fields__,
        *schema.Model.__struct_encode_fields__,
        *("npm", "options", "baseURL", "blacklist", "whitelist", "tool_call", "modalities", "limit", "policies"),
        *("effect", "action", "resource", "template", "prompt", "maxSteps", "servers", "timeout", "enabled", "url"),
        *("command", "type", "oauth", "clientId", "reserved", "preserve_recent_tokens", "mcp_timeout", "paths", "urls"),
    }
)
WORDS = st.sampled_from(
    ["allow", "deny", "local", "remote", "aisdk", "*", "p/m", "primary", "provider.use", "", "{file:x}"]
)
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)


@limits(max_examples=100, deadline=None)
@given(DOCUMENTS)
def test_any_document_becomes_a_valid_one(document: dict[str, Any]) -> None:
    """CAT-026, CAT-027, CAT-036: nothing raises; the result is what the types say; twice is once."""
    problems: list[Problem] = []
    before = json.dumps(document)
    found = validate(migrate(document, lambda *_: None), problems.append)
    assert json.dumps(document) == before
    servers = found.get("mcp", {}).get("servers", {})
    typed = {name: server for name, server in servers.items() if "type" in server}
    msgspec.convert({**found, "mcp": {**found.get("mcp", {}), "servers": typed}}, schema.ConfigFile)
    again: list[Problem] = []
    assert validate(found, again.append) == found
    assert again == []
    line_numbers(before, [problem.trail for problem in problems])


@limits(max_examples=60, deadline=None)
@given(DOCUMENTS)
def test_documents_without_variables_are_left_alone(document: dict[str, Any]) -> None:
    """CAT-032: also those that contain every other kind of value."""
    plain = json.loads(json.dumps(document).replace("{file:x}", "{}"))
    assert Substitution(Path("/"), None, {}, lambda *_: None).apply(plain) == (plain, frozenset())
