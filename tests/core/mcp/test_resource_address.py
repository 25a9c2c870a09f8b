"""Addresses of resources of MCP servers."""

from __future__ import annotations

import pytest

from holdfast.core.filesystem.content import Unusable
from holdfast.core.mcp.resource_address import ResourceAddress, checked, find_resource
from holdfast.core.mcp.seam import KnownServer, Manifest, ManifestResource, ManifestTemplate
from holdfast.core.prompt.prompt_resources import names_resource


def server(name: str, *uris: str, templates: tuple[str, ...] = ()) -> KnownServer:
    resources = tuple(ManifestResource(uri=uri, name="n") for uri in uris)
    return KnownServer(
        name,
        "",
        Manifest(resources=resources, templates=tuple(ManifestTemplate(uri_template=t, name="n") for t in templates)),
    )


def test_a_known_address_or_one_that_fits_a_template_names_a_resource() -> None:
    """MCP-290: a template that could be anything is none."""
    known = [
        server("a", "x://1", templates=("x://{id}/end", "{+anything}", "db://{table}/{row}")),
        server("b", templates=("{scheme}://x",)),
    ]
    names = {"a", "b"}

    def found(uri: str) -> str | None:
        address = find_resource(uri, names, known)
        return str(address) if address is not None else None

    assert found("x://1") == "mcp://a/x://1"
    assert found("x://5/end") == "mcp://a/x://5/end"
    assert found("db://t/1") == "mcp://a/db://t/1"
    assert [found(uri) for uri in ("x://2", "x://5/ends", "db://t", "https://x", "hello")] == [None] * 5
    assert found("mcp://b/anything:at-all") == "mcp://b/anything:at-all"
    assert find_resource("MCP://my%20server/x:1", {"my server"}, ()) == ResourceAddress("my server", "x:1")
    assert str(ResourceAddress("my server", "x:1")) == "mcp://my%20server/x:1"


def test_what_cannot_be_an_address_is_refused() -> None:
    """MCP-292"""
    for uri in ("", "x:\n", "x" * 5000, "x://{a}"):
        with pytest.raises(Unusable):
            checked(uri)


def test_files_and_data_are_no_resources() -> None:
    """MCP-290"""
    assert [names_resource(uri) for uri in ("file:///x", "FILE:x", "data:,x", "a/b:c", "plain.txt", "/x")] == [
        False
    ] * 6
    assert all(map(names_resource, ("note://one", "mcp://a/b", "https://x", "urn:x")))
