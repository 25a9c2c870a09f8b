"""The page and its files, as a browser gets them."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest
from tests.plain_http import NO_TLS
from tests.server.conftest import listening

from holdfast.core.runtime.runtime import Runtime
from holdfast.schema.exceptions import NotFound
from holdfast.server.app import App
from holdfast.server.auth import Credentials
from holdfast.server.web.assets import POLICY, Assets, compressed, read_assets

pytestmark = pytest.mark.anyio

BUDGET = 150_000
"""Bytes of all files of the page together, compressed."""


@pytest.fixture
def credentials() -> Credentials | None:
    return Credentials("secret")


async def reference(http: httpx2.AsyncClient, name: str) -> str:
    """The path under which the document names a file."""
    document = (await http.get("/")).text
    found = re.search(rf'(?:src|href)="([^"]*/{re.escape(name)})"', document)
    assert found is not None, document
    return f"/{found[1]}"


async def test_the_document_names_versioned_files_and_says_that_a_sign_in_is_needed(http: httpx2.AsyncClient) -> None:
    """WEB-001, WEB-002: nothing of the document is kept; whoever may not see anything else gets it too."""
    answer = await http.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
    version = re.search(r'data-version="(\w+)"', answer.text)
    assert version is not None
    assert 'data-auth="required" data-signed-in="false"' in answer.text
    named = re.findall(r'(?:src|href)="([^"#]+)"', answer.text)
    assert named
    assert all(path.startswith(f"web/assets/{version[1]}/") for path in named)
    for path in named:
        assert (await http.get(f"/{path}")).status_code == 200


async def test_without_a_password_the_document_says_so(runtime: Runtime) -> None:
    """WEB-001."""
    async with listening(App(runtime)) as url, httpx2.AsyncClient(base_url=url, verify=NO_TLS) as http:
        assert 'data-auth="none" data-signed-in="false"' in (await http.get("/")).text


async def test_the_document_and_its_files_have_a_strict_policy(http: httpx2.AsyncClient) -> None:
    """WEB-003."""
    for path in ("/", await reference(http, "app.js"), await reference(http, "app.css")):
        headers = (await http.get(path)).headers
        assert headers["content-security-policy"] == (
            "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types holdfast"
        )
        assert headers["content-security-policy"] == POLICY.decode()
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "camera=()" in headers["permissions-policy"]


async def test_a_file_is_kept_for_good_and_compressed_for_whoever_takes_that(url: str) -> None:
    """WEB-002: and asked for again with its ETag it is not sent."""
    async with httpx2.AsyncClient(base_url=url, verify=NO_TLS, headers={"accept-encoding": "identity"}) as http:
        path = await reference(http, "app.css")
        plain = await http.get(path)
        assert plain.headers["content-type"] == "text/css; charset=utf-8"
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "content-encoding" not in plain.headers
        refused = await http.get(path, headers={"accept-encoding": "gzip;q=0, identity"})
        assert "content-encoding" not in refused.headers
        async with http.stream("GET", path, headers={"accept-encoding": "br, gzip"}) as small:
            assert small.headers["content-encoding"] == "gzip"
            assert "Accept-Encoding" in small.headers["vary"]
            assert gzip.decompress(b"".join([piece async for piece in small.aiter_raw()])) == plain.content
        again = await http.get(path, headers={"if-none-match": plain.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        head = await http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == plain.headers["content-length"]


@pytest.mark.parametrize(
    "name",
    [
        "{version}/nothing.js",
        "0123456789abcdef/app.js",
        "{version}/../assets.py",
        "{version}/..%2f..%2fassets.py",
        "{version}/%2e%2e/assets.py",
        "{version}/index.html",
        "{version}/",
        "{version}",
        "",
        "{version}/app.js%00",
        "{version}//app.js",
    ],
)
async def test_no_other_path_leads_to_a_file(http: httpx2.AsyncClient, name: str) -> None:
    """WEB-002, WEB-005: only names of the page's files are known, in the version that the server has."""
    version = (await reference(http, "app.js")).split("/")[3]
    raw = f"/web/assets/{name.format(version=version)}"
    answer = await http.send(http.build_request("GET", httpx2.URL(str(http.base_url)).copy_with(raw_path=raw.encode())))
    assert (answer.status_code, answer.json()["_tag"]) == (404, "NotFoundError")


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/", 405),
        ("GET", "/web/sign-in", 405),
        ("PUT", "/web/sign-ins", 405),
        ("GET", "/web/nothing", 404),
        ("GET", "/web/", 404),
        ("GET", "/web", 401),
        ("GET", "/index.html", 401),
    ],
)
async def test_other_paths_and_methods_are_refused(
    http: httpx2.AsyncClient, method: str, path: str, expected: int
) -> None:
    """WEB-001: with the bodies of the API's errors."""
    answer = await http.request(method, path)
    assert answer.status_code == expected
    assert answer.json()["_tag"]


async def test_a_foreign_host_name_gets_no_page(http: httpx2.AsyncClient) -> None:
    """WEB-005: as with the API, because of DNS rebinding."""
    for path in ("/", "/web/sign-ins"):
        assert (await http.get(path, headers={"host": "evil.example"})).status_code == 403


async def test_an_application_without_the_page_has_nothing_there(runtime: Runtime) -> None:
    """WEB-004: neither the document nor a way to sign in."""
    app = App(runtime, page=False)
    async with listening(app) as url, httpx2.AsyncClient(base_url=url, verify=NO_TLS) as http:
        for path in ("/", "/web/sign-ins", "/web/stream"):
            assert (await http.get(path)).status_code == 404
        assert (await http.get("/api/health", headers={"x-holdfast-key": "x"})).status_code == 200


def test_the_version_is_that_of_all_files() -> None:
    """WEB-002: any change of any file gives all of them other paths."""
    files = {"index.html": b'<html><script src="a.js"></script>', "a.js": b"1", "b.js": b"2"}
    versions = {Assets(files).version, Assets({**files, "b.js": b"3"}).version, Assets({**files, "c.js": b""}).version}
    assert len(versions) == 3
    assert Assets(dict(reversed(files.items()))).version == Assets(files).version
    with pytest.raises(NotFound):
        Assets(files).reply("other", "a.js", {})


def test_all_files_of_the_page_are_small() -> None:
    """WEB-006."""
    found = read_assets(files("holdfast.server.web") / "assets")
    assert "index.html" in found
    assert sum(len(compressed(data)) for data in found.values()) <= BUDGET


def test_a_server_whose_page_nobody_opens_has_nothing_of_it(tmp_path: Path) -> None:
    """WEB-007."""
    program = f"""
import asyncio, sys
from holdfast import Holdfast

async def main():
    async with Holdfast({str(tmp_path)!r}, data={str(tmp_path / "data")!r}) as hf:
        await hf.health.get()
        await hf.sessions.list()

asyncio.run(main())
print(*[name for name in sys.modules if "server.web" in name or "page_access" in name])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
