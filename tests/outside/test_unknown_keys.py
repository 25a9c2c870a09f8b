"""Keys of a request that mean nothing are not lost in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx2
import pytest
from tests.cli.conftest import Server
from tests.outside.world import World

pytestmark = pytest.mark.anyio

CHECKED = {"x-holdfast-checked": "1"}


@pytest.fixture
def client(serve: Callable[..., Server]) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"{serve('--no-auth').url}/api") as client:
        yield client


def test_a_session_is_never_made_in_another_directory_than_was_meant(client: httpx2.Client) -> None:
    """API-655: the error says where the directory belongs."""
    for key, place in (("directory", "location.directory"), ("workspaceID", "location.workspaceID")):
        refused = client.post("/session", json={key: "/tmp"})
        assert (refused.status_code, refused.json()["field"]) == (400, key)
        assert f"`{place}`" in refused.json()["message"]
    assert client.get("/session").json()["data"] == []
    assert client.post("/session", json={"directory": None}).status_code == 200


def test_ignored_keys_are_named_in_the_response(client: httpx2.Client) -> None:
    """API-006, API-655: the contract accepts them; their names cannot break the header."""
    body = {"agnet": "build", "model": {"id": "m", "providerID": "p", "varant": "x"}, "a\r\nb: c": 1}
    created = client.post("/session", json=body)
    assert created.status_code == 200
    assert created.headers["x-holdfast-ignored"] == "agnet, model.varant, a\\r\\nb: c"
    many = client.post("/session", json={f"k{number}": 1 for number in range(1000)})
    assert len(many.headers["x-holdfast-ignored"]) < 100
    assert "x-holdfast-ignored" not in client.post("/session", json={}).headers


def test_a_caller_that_asks_for_checks_is_refused_with_the_nearest_key(client: httpx2.Client) -> None:
    """API-655: at any depth; nothing is done."""
    for body, field, near in (
        ({"agnet": "build"}, "agnet", "did you mean `agent`?"),
        ({"location": {"directory": "/tmp", "workspace": "wrk"}}, "location.workspace", "`location.workspaceID`?"),
        ({"zzz": 1}, "zzz", "it takes `id`, `agent`, `model`, `location`, `budget`"),
    ):
        refused = client.post("/session", json=body, headers=CHECKED)
        assert (refused.status_code, refused.json()["field"]) == (400, field)
        assert near in refused.json()["message"]
    assert client.get("/session").json()["data"] == []
    id = client.post("/session", json={}).json()["data"]["id"]
    misspelled = {"prompt": {"text": "go", "noreply": True}}
    assert client.post(f"/session/{id}/prompt", json=misspelled, headers=CHECKED).json()["field"] == "prompt.noreply"


async def test_the_python_clients_take_no_unknown_argument(world: World) -> None:
    """API-655."""
    async with world.host() as hf:
        with pytest.raises(TypeError, match="directory"):
            await hf.sessions.create(directory="/tmp")  # type: ignore[call-arg]
