"""The OpenAPI 3.1 document, from the same data as routes and clients."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, EndpointScope, Envelope, LocationSelector
from holdfast.schema.event import DurablePosition
from holdfast.schema.location import Location, LocationInfo
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.typed_event import DurableEvent, Event
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.schema.event import Definition

Schema = dict[str, Any]

JSON = "application/json"
REF = "#/components/schemas/{name}"
EXTENSION = "x-holdfast-extension"
DURABLE = "SessionDurableEvent"
LIVE = "LiveEvent"
EVENTS = (Event, DurableEvent)
"""Described by their event types, because a schema cannot relate a type to its payload."""


@cache
def document() -> Schema:
    schemas = _Schemas(API)
    paths: dict[str, Schema] = {}
    for endpoint in API:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas.components},
    }


class _Schemas:
    """All types of the API, as references."""

    def __init__(self, api: Iterable[Endpoint]) -> None:
        definitions = [definition for definition in MANIFEST.latest.values() if definition.public]
        types = [kind for endpoint in api for kind in _types(endpoint)]
        types += [definition.payload for definition in definitions]
        types += [DurablePosition, Location, LocationInfo, LocationSelector]
        self._types = list(dict.fromkeys(types))
        found, components = msgspec.json.schema_components(self._types, ref_template=REF)
        names = _names(components)
        self._found: list[Schema] = [_clean(schema, names) for schema in found]
        self.components: dict[str, Schema] = {names[name]: _clean(schema, names) for name, schema in components.items()}
        self.components[DURABLE] = {"anyOf": [self._event(item) for item in definitions if item.durable]}
        self.components[LIVE] = {"anyOf": [self._event(item) for item in definitions]}

    def of(self, kind: Any) -> Schema:
        return self._found[self._types.index(kind)]

    def properties(self, kind: Any) -> Schema:
        """The schema of a record: its properties, and which are required."""
        return self.components[str(self.of(kind)["$ref"]).rpartition("/")[2]]

    def _event(self, definition: Definition) -> Schema:
        properties: Schema = {"id": {"type": "string"}, "type": {"enum": [definition.type]}}
        if definition.durable:
            properties["durable"] = self.of(DurablePosition)
        properties["location"] = self.of(Location)
        properties["metadata"] = {"type": "object"}
        properties["data"] = self.of(definition.payload)
        required = ["id", "type", *(["durable"] if definition.durable else []), "data"]
        return {"type": "object", "properties": properties, "required": required}


def _types(endpoint: Endpoint) -> Iterable[Any]:
    for kind in (endpoint.params, endpoint.query, endpoint.payload, *endpoint.declared_errors):
        if kind is not None:
            yield kind
    if endpoint.success is not None and endpoint.success not in EVENTS:
        yield endpoint.success


def _operation(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    operation: Schema = {
        "tags": [endpoint.group],
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint, schemas), *_query_parameters(endpoint, schemas)],
        "responses": {**_success(endpoint, schemas), **_failures(endpoint, schemas)},
    }
    if endpoint.payload is not None:
        content = {JSON: {"schema": schemas.of(endpoint.payload)}}
        operation["requestBody"] = {"required": True, "content": content}
    if endpoint.extension:
        operation[EXTENSION] = True
    return operation


def _path_parameters(endpoint: Endpoint, schemas: _Schemas) -> Iterable[Schema]:
    if endpoint.params is None:
        return
    for name, schema in schemas.properties(endpoint.params)["properties"].items():
        if f"{{{name}}}" in endpoint.path:
            yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(endpoint: Endpoint, schemas: _Schemas) -> Iterable[Schema]:
    if endpoint.query is None:
        return
    record = schemas.properties(endpoint.query)
    for name, schema in record["properties"].items():
        parameter = {"name": name, "in": "query", "required": name in record.get("required", ()), "schema": schema}
        deep = endpoint.scope in (EndpointScope.LOCATION, EndpointScope.FORM) and name == "location"
        yield {**parameter, "style": "deepObject", "explode": True} if deep else parameter


def _success(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    if endpoint.envelope is Envelope.VOID:
        return {"204": {"description": "Done"}}
    if endpoint.envelope is Envelope.RAW:
        schema = _enclosed(endpoint, schemas)
        kinds = {kind: {"schema": {} if kind == JSON else schema} for kind in endpoint.media_types}
        return {"200": {"description": endpoint.summary, "content": kinds}}
    kind = "text/event-stream" if endpoint.envelope is Envelope.STREAM else JSON
    return {"200": {"description": endpoint.summary, "content": {kind: {"schema": _enclosed(endpoint, schemas)}}}}


def _enclosed(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    cursor = {"type": ["string", "null"]}
    match endpoint.envelope:
        case Envelope.RAW:
            return {"type": "string", "format": "binary"}
        case Envelope.DATA:
            return _object(data=_value(endpoint, schemas))
        case Envelope.LOCATION:
            return _object(location=schemas.of(LocationInfo), data=_value(endpoint, schemas))
        case Envelope.PAGE:
            items = {"type": "array", "items": _value(endpoint, schemas)}
            return _object(data=items, cursor=_object(previous=cursor, next=cursor))
        case Envelope.HISTORY:
            return _object(data={"type": "array", "items": _value(endpoint, schemas)}, hasMore={"type": "boolean"})
        case _:
            return _value(endpoint, schemas)


def _value(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    if endpoint.success in EVENTS:
        return {"$ref": REF.format(name=DURABLE if endpoint.success is DurableEvent else LIVE)}
    return schemas.of(endpoint.success)


def _failures(endpoint: Endpoint, schemas: _Schemas) -> Schema:
    by_status: dict[int, list[Any]] = {}
    for error in dict.fromkeys(endpoint.declared_errors):
        by_status.setdefault(error.status, []).append(error)
    return {str(status): _failure(errors, schemas) for status, errors in sorted(by_status.items())}


def _failure(errors: list[Any], schemas: _Schemas) -> Schema:
    references = [schemas.of(error) for error in errors]
    schema = references[0] if len(references) == 1 else {"anyOf": references}
    return {
        "description": " | ".join(error.__name__ for error in errors),
        "content": {JSON: {"schema": schema}},
    }


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _names(components: Iterable[str]) -> dict[str, str]:
    """Component names without modules; of records with the same name, the second gets a number."""
    names: dict[str, str] = {}
    for component in sorted(components):
        plain = name = component.rpartition(".")[2]
        number = 0
        while name in names.values() or (name != component and name in components):
            number += 1
            name = f"{plain}{number}"
        names[component] = name
    return names


def _clean(schema: Any, names: dict[str, str]) -> Any:
    """Removes null from optional fields: they are absent on the wire, never null."""
    if isinstance(schema, list):
        return [_clean(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    clean = {key: _clean(value, names) for key, value in schema.items()}
    if isinstance(reference := clean.get("$ref"), str):
        clean["$ref"] = REF.format(name=names[reference.rpartition("/")[2]])
    if isinstance(clean.get("discriminator"), dict):
        del clean["discriminator"]  # redundant: the members have tags
    if "default" in clean and clean["default"] is None:
        del clean["default"]
        options = [option for option in clean.pop("anyOf", ()) if option != {"type": "null"}]
        if len(options) == 1:
            clean.update(options[0])
        elif options:
            clean["anyOf"] = options
    return clean
