"""What a provider can be connected with, while it is being put together: models.dev, plugins and configuration add
methods to the same draft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.catalog import EnvMethod, KeyMethod, OAuthMethod
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.core.credential.store import OAuthValue


class Authorization(Frozen):
    """A sign-in that was begun. `auto` ends when `finish(None)` does; `code` needs what the person was shown."""

    url: str
    instructions: str
    mode: Literal["auto", "code"]
    finish: Callable[[str | None], Awaitable[OAuthValue]]
    close: Callable[[], Awaitable[None]] | None = None


class OAuth(Frozen):
    """How one OAuth method works. Without `refresh`, what it gave is used until it expires."""

    method: OAuthMethod
    authorize: Callable[[Mapping[str, str]], Awaitable[Authorization]]
    refresh: Callable[[OAuthValue], Awaitable[OAuthValue]] | None = None


Way = OAuth | KeyMethod | EnvMethod


class Integration(Frozen):
    id: str
    name: str
    ways: tuple[Way, ...] = ()

    def oauth(self, method_id: str) -> OAuth | None:
        return next((way for way in self.ways if isinstance(way, OAuth) and way.method.id == method_id), None)

    @property
    def variables(self) -> tuple[str, ...]:
        return next((way.names for way in self.ways if isinstance(way, EnvMethod)), ())


class IntegrationDraft:
    def __init__(self, integrations: Mapping[str, Integration] | None = None) -> None:
        self._integrations = dict(integrations or {})

    def copy(self) -> IntegrationDraft:
        return IntegrationDraft(self._integrations)

    def list(self) -> tuple[Integration, ...]:
        return tuple(self._integrations.values())

    def get(self, id: str) -> Integration | None:
        return self._integrations.get(id)

    def add(self, id: str, way: Way, name: str | None = None) -> None:
        """A later key or env method replaces the earlier one; OAuth methods are told apart by their ids."""
        known = self._integrations.get(id) or Integration(id, name or id)
        ways = {_place(other): other for other in known.ways}
        ways[_place(way)] = way
        self._integrations[id] = known.replace(name=name or known.name, ways=tuple(ways.values()))

    def rename(self, id: str, name: str) -> None:
        if (known := self._integrations.get(id)) is not None:
            self._integrations[id] = known.replace(name=name)

    def remove(self, id: str) -> None:
        self._integrations.pop(id, None)


def _place(way: Way) -> str:
    match way:
        case OAuth():
            return f"oauth {way.method.id}"
        case KeyMethod():
            return "key"
        case EnvMethod():
            return "env"
