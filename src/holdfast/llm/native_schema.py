"""JSON Schemas in the subsets that the providers' own JSON modes accept.

A constraint that a provider does not know is moved into the description: the answer is validated against the original
schema in any case. A schema whose structure cannot be expressed has no native form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.llm.json_schema import violations
from holdfast.llm.schema_check import is_recursive
from holdfast.llm.tool_schema import DEFINITIONS, lookup, open_root
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.llm.model import Model
    from holdfast.llm.tool_schema import Schema

HINTED = 80
"""Longest value of a constraint that is repeated in a description."""

CHAIN = 16
"""Most references and alternatives, one leading to the other, that are followed for one value."""

_COMMON = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "oneOf"),
        *("$ref", "title", "description", *DEFINITIONS),
    )
)
_CONSTRAINTS = frozenset(
    (
        *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "propertyNames"),
        *("contains", "minContains", "maxContains"),
    )
)
"""May be left out: they forbid values, and do not say what a value is made of."""
_NOTES = frozenset(("default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"))
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")


class Subset(Frozen):
    """What one provider's JSON mode accepts beside the common keywords."""

    constraints: frozenset[str]
    closed: bool = True
    """Every object must forbid other properties."""
    complete: bool = False
    """Every property must be required; an optional one becomes nullable."""
    recursive: bool = False
    optional: int | None = None
    """Most optional properties."""
    unions: int | None = None
    """Most properties with alternatives."""


OPENAI = Subset(
    frozenset(
        (
            *("pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
            *("minItems", "maxItems"),
        )
    ),
    complete=True,
    recursive=True,
)
CLAUDE = Subset(frozenset(("format",)), optional=24, unions=16)
GEMINI = Subset(frozenset(("format", "minimum", "maximum", "minItems", "maxItems")), closed=False)

SUBSETS: dict[str, Subset] = {
    "openai-chat": OPENAI,
    "openai-responses": OPENAI,
    "anthropic-messages": CLAUDE,
    "bedrock-converse": CLAUDE,
    "gemini": GEMINI,
}
"""By protocol."""


class _NotNative(Exception):
    """The structure cannot be expressed."""


def native_schema(model: Model, schema: Schema) -> Schema | None:
    """The schema for the model's JSON mode; None if it has no form there."""
    subset = SUBSETS.get(model.route.protocol.id)
    root = open_root(schema)
    if subset is None or (is_recursive(schema) and not subset.recursive):
        return None
    try:
        rewriting = _Rewriting(subset, schema)
        rewritten = rewriting.node({key: value for key, value in root.items() if key not in DEFINITIONS})
        named = {
            key: {name: rewriting.node(item) for name, item in schema[key].items()}
            for key in DEFINITIONS
            if schema.get(key)
        }
        if rewritten.get("type") != "object" or "anyOf" in rewritten or rewriting.exceeds_counts:
            return None
    except (_NotNative, RecursionError):
        return None
    return {**rewritten, **named}


class _Rewriting:
    def __init__(self, subset: Subset, root: Schema) -> None:
        self._subset = subset
        self._root = root
        self._optional = 0
        self._unions = 0

    @property
    def exceeds_counts(self) -> bool:
        subset = self._subset
        return (subset.optional is not None and self._optional > subset.optional) or (
            subset.unions is not None and self._unions > subset.unions
        )

    def node(self, schema: Any) -> Schema:
        if not isinstance(schema, dict):
            raise _NotNative  # true and false
        node: Schema = {}
        hints: list[str] = []
        for key, value in schema.items():
            if key in _COMMON:
                node[key] = value
            elif key in _CONSTRAINTS:
                if key in self._subset.constraints and (key != "format" or value in _FORMATS):
                    node[key] = value
                elif key != "format" and len(shown := encode(value).decode()) <= HINTED:
                    hints.append(f"{key}: {shown}")
            elif key not in _NOTES:
                raise _NotNative
        if "$ref" in node:
            # References stand alone in these subsets.
            return {"$ref": node["$ref"]} if set(node) <= {"$ref", "title", "description"} else self._refused()
        self._alternatives(node)
        self._constant(node)
        if "properties" in node or node.get("type") == "object":
            self._object(node)
        if "items" in node:
            node["items"] = self.node(node["items"])
        if not {"type", "anyOf"} & set(node):
            raise _NotNative
        if node.get("type") == "array" and "items" not in node:
            raise _NotNative
        if hints:
            node["description"] = " ".join((str(node.get("description", "")), f"({'; '.join(hints)})")).strip()
        return node

    def _refused(self) -> Schema:
        raise _NotNative

    def _alternatives(self, node: Schema) -> None:
        given = node.pop("oneOf", None) or node.get("anyOf")
        if given is None:
            if isinstance(node.get("type"), list):
                self._unions += 1
            return
        self._unions += 1
        node["anyOf"] = [self.node(item) for item in given]
        if "type" in node or "properties" in node:
            raise _NotNative

    def _constant(self, node: Schema) -> None:
        """A constant is a list of one value, which every provider knows. Values are not objects or lists, and their
        type is named."""
        if "const" in node:
            node["enum"] = [node.pop("const")]
        if "enum" not in node:
            return
        kinds = list(dict.fromkeys(_TYPES.get(type(value), "") for value in node["enum"]))
        if "" in kinds:
            raise _NotNative
        node.setdefault("type", kinds[0] if len(kinds) == 1 else kinds)

    def _object(self, node: Schema) -> None:
        others = node.get("additionalProperties")
        properties = node.get("properties")
        if self._subset.closed and (not properties or others not in (None, False)):
            raise _NotNative  # any property is allowed, which cannot be expressed
        required = node.get("required", [])
        if any(name not in (properties or {}) for name in required):
            raise _NotNative
        if properties is not None:
            node["properties"] = {
                name: self._property(item, optional=name not in required) for name, item in properties.items()
            }
        if self._subset.closed:
            node["additionalProperties"] = False
        elif isinstance(others, dict):
            node["additionalProperties"] = self.node(others)
        if self._subset.complete:
            node["required"] = list(properties or ())

    def _property(self, schema: Any, *, optional: bool) -> Schema:
        rewritten = self.node(schema)
        if not optional:
            return rewritten
        self._optional += 1
        if not self._subset.complete or accepts_null(self._root, schema):
            return rewritten
        if "anyOf" in rewritten:
            return {**rewritten, "anyOf": [*rewritten["anyOf"], {"type": "null"}]}
        return {"anyOf": [rewritten, {"type": "null"}]}


def accepts_null(root: Schema, schema: Any) -> bool:
    return not violations(schema, None, root=root, most=1)


def without_null_options(schema: Schema, value: Any) -> Any:
    """The value without the nulls of optional properties that do not accept null: with these a model says that there
    is none, in particular where every property is required."""
    return _NullOptions(schema).left_out(schema, value)


class _NullOptions:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._accepts: dict[int, bool] = {}
        """By the identity of a schema: whether it accepts null."""

    def left_out(self, schema: Any, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        schema = _chosen(self._root, schema, value)
        if isinstance(value, list):
            return [self.left_out(schema.get("items"), item) for item in value]
        known, required = schema.get("properties"), schema.get("required", ())
        if not isinstance(known, dict):
            return value
        return {
            name: self.left_out(known.get(name), item)
            for name, item in value.items()
            if item is not None or name in required or name not in known or self._accepts_null(known[name])
        }

    def _accepts_null(self, schema: Any) -> bool:
        if id(schema) not in self._accepts:
            self._accepts[id(schema)] = accepts_null(self._root, schema)
        return self._accepts[id(schema)]


def _chosen(root: Schema, schema: Any, value: Any) -> Schema:
    """The schema behind references and alternatives. Of several alternatives, the first whose properties the value
    has."""
    for _ in range(CHAIN):
        if not isinstance(schema, dict):
            break
        if (named := lookup(root, schema.get("$ref"))) is not None:
            schema = named
        elif isinstance(alternatives := schema.get("anyOf") or schema.get("oneOf"), list):
            opened = [lookup(root, item.get("$ref")) or item for item in alternatives if isinstance(item, dict)]
            schema = next((item for item in opened if _may_be(item, value)), None)
        else:
            return schema
    return {}


def _may_be(schema: Schema, value: Any) -> bool:
    if isinstance(value, list):
        return schema.get("type") == "array"
    known = schema.get("properties")
    if not isinstance(known, dict) or not set(schema.get("required", ())) <= set(value):
        return False
    constants = [(name, item["const"]) for name, item in known.items() if isinstance(item, dict) and "const" in item]
    return set(value) <= set(known) and all(value.get(name) == constant for name, constant in constants)
