"""What the vendors' own packages say of a request body: one validator for each protocol, which forbids what it does not
know at every level. A validator gives its complaints; none means that the body is what the vendor describes.

The packages are imported when first asked for: together they take seconds."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, cast

import botocore.loaders  # type: ignore[import-untyped]
import botocore.model  # type: ignore[import-untyped]
import botocore.validate  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import SchemaValidator
from pydantic_core.core_schema import CoreSchema

from holdfast.schema.codec import decode_any

Validator = Callable[[bytes], list[str]]


def chat_complaints(body: bytes) -> list[str]:
    return _refusals(lambda: _chat().validate_json(body, strict=True))


def responses_complaints(body: bytes) -> list[str]:
    return _refusals(lambda: _responses().validate_json(body, strict=True))


def messages_complaints(body: bytes) -> list[str]:
    return _refusals(lambda: _messages().validate_json(body, strict=True))


def gemini_complaints(body: bytes) -> list[str]:
    """By its names on the wire only: the package takes its Python names too."""
    return _refusals(lambda: _gemini().model_validate_json(body, strict=True, by_alias=True, by_name=False))


def converse_complaints(body: bytes) -> list[str]:
    """What botocore checks, and what it leaves to the service though its model says it: enumerations, patterns, limits,
    base64, and that a member which belongs into the address is not in the body."""
    shape, value = _converse(), decode_any(body)
    # Its model id is in the address, so that botocore misses it in the body.
    found = botocore.validate.ParamValidator().validate({"modelId": "in-the-path", **value}, shape)
    report = found.generate_report()
    members: dict[str, Any] = shape.members
    misplaced = [f"{name}: not in the body" for name in value if name in members and _location(members[name])]
    return [*(report.splitlines() if report else ()), *misplaced, *_beyond_botocore(shape, value, "")]


# -- pydantic ------------------------------------------------------------------------------------------------------


def closed(kind: Any) -> SchemaValidator:
    """A validator of a TypedDict which looks at everything. As pydantic reads these, an Iterable is validated only when
    somebody iterates, unknown keys are ignored, and response models, which take any key, stand beside their params."""
    schema = cast("dict[str, Any]", TypeAdapter(kind).core_schema)
    named = {item["ref"]: item for item in schema.get("definitions", ())}
    return SchemaValidator(cast("CoreSchema", _rewritten(schema, named)))


def _rewritten(node: Any, named: dict[str, Any]) -> Any:
    if isinstance(node, list | tuple):
        return type(node)(_rewritten(item, named) for item in node)
    if not isinstance(node, dict):
        return node
    new = {key: value if key == "metadata" else _rewritten(value, named) for key, value in node.items()}
    match node.get("type"):
        case "generator":
            return {"type": "list", "items_schema": new["items_schema"]}
        case "typed-dict" if node.get("config", {}).get("extra_fields_behavior") != "allow":
            return {**new, "extra_behavior": "forbid"}
        case "union":
            pairs = zip(node["choices"], new["choices"], strict=True)
            params = [kept for given, kept in pairs if not _is_model(given, named)] or new["choices"]
            described = [choice for choice in params if not _is_escape(choice)]
            return {**new, "choices": described if any(map(_is_described, described)) else params}
        case _:
            return new


def _is_escape(choice: Any) -> bool:
    """Any mapping at all. Beside a TypedDict it takes everything that the TypedDict refuses."""
    return isinstance(choice, dict) and choice["type"] == "dict"


def _is_described(choice: Any) -> bool:
    return isinstance(choice, dict) and choice["type"] == "typed-dict"


def _is_model(node: Any, named: dict[str, Any]) -> bool:
    """A response model, or a union of nothing else."""
    match node:
        case (choice, _):
            return _is_model(choice, named)
        case {"type": "definition-ref", "schema_ref": name}:
            return _is_model(named[name], named)
        case {"type": "union", "choices": choices}:
            return all(_is_model(choice, named) for choice in choices)
        case {"type": "tagged-union", "choices": choices}:
            return all(_is_model(choice, named) for choice in choices.values())
        case {"type": kind}:
            return bool(kind == "model")
        case _:
            return False


def _refusals(validate: Callable[[], object]) -> list[str]:
    try:
        validate()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found]
    except Warning as warning:  # google-genai only warns of an unknown enumeration value; pytest makes that an error
        return [str(warning)]
    return []


@cache
def _chat() -> SchemaValidator:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return closed(CompletionCreateParamsStreaming)


@cache
def _responses() -> SchemaValidator:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return closed(ResponseCreateParamsStreaming)


@cache
def _messages() -> SchemaValidator:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return closed(MessageCreateParamsStreaming)


@cache
def _gemini() -> type[BaseModel]:
    """The package describes the parts of the REST body, but not the body: its own flattens `generationConfig`."""
    from google.genai import types

    class Body(BaseModel):
        model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

        contents: list[types.Content]
        system_instruction: types.Content | None = None
        tools: list[types.Tool] | None = None
        tool_config: types.ToolConfig | None = None
        safety_settings: list[types.SafetySetting] | None = None
        generation_config: types.GenerationConfig | None = None
        cached_content: str | None = None

    Body.model_rebuild(_types_namespace={"types": types})
    return Body


# -- botocore ------------------------------------------------------------------------------------------------------


@cache
def _converse() -> Any:
    described = botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    service = botocore.model.ServiceModel(described, "bedrock-runtime")
    return service.operation_model("ConverseStream").input_shape


def _location(shape: Any) -> str | None:
    found: str | None = shape.serialization.get("location")
    return found


def _beyond_botocore(shape: Any, value: Any, path: str) -> Iterator[str]:
    if getattr(shape, "is_document_type", False):
        return
    match shape.type_name, value:
        case "structure", dict():
            for name, item in value.items():
                if name in shape.members:
                    yield from _beyond_botocore(shape.members[name], item, f"{path}.{name}")
        case "list", list():
            yield from _beyond_limits(shape, len(value), path)
            for index, item in enumerate(value):
                yield from _beyond_botocore(shape.member, item, f"{path}.{index}")
        case "string", str():
            yield from _beyond_limits(shape, len(value), path)
            if (known := shape.metadata.get("enum")) and value not in known:
                yield f"{path}: {value!r} is not one of {known}"
            if (pattern := shape.metadata.get("pattern")) and re.fullmatch(pattern, value) is None:
                yield f"{path}: {value!r} does not match {pattern}"
        case "blob", str():
            try:
                base64.b64decode(value, validate=True)
            except ValueError:
                yield f"{path}: not base64"
        case "integer" | "float", int() | float():
            yield from _beyond_limits(shape, value, path)
        case _:
            pass


def _beyond_limits(shape: Any, size: float, path: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if (low is not None and size < low) or (high is not None and size > high):
        yield f"{path}: {size} is not within {low} and {high}"


# -- known disagreements -------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """A member over which a vendor's types and our rules disagree. Without `fill` we send it and they do not know it;
    with `fill` they insist on it and we leave it out. In the path `*` is any item and `**` any way down."""

    protocol: str
    path: str
    reason: str
    when: tuple[str, str] | None = None
    """A member beside it, and its value: which of the objects at that place is meant."""
    fill: Any = None

    def settle(self, body: Any) -> int:
        """Change the body to what the vendor describes; how often that was necessary."""
        *way, name = self.path.split(".")
        changed = 0
        for holder in _reached(body, way):
            if not isinstance(holder, dict) or (self.when and holder.get(self.when[0]) != self.when[1]):
                continue
            if self.fill is None and name in holder:
                del holder[name]
                changed += 1
            elif self.fill is not None and name not in holder:
                holder[name] = self.fill
                changed += 1
        return changed


def _reached(node: Any, way: list[str]) -> Iterator[Any]:
    if not way:
        yield node
        return
    step, *rest = way
    below = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
    if step == "**":
        yield from _reached(node, rest)
        for item in below:
            yield from _reached(item, way)
    elif step == "*":
        for item in below:
            yield from _reached(item, rest)
    elif isinstance(node, dict) and step in node:
        yield from _reached(node[step], rest)
